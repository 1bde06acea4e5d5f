"""Runs transactions under faults for minutes, seed by seed, and compares the readers' view with the writers' reports.

    python -m tests.kafka.long_transactions                            # ten minutes on the embedded cluster
    python -m tests.kafka.long_transactions --version 1 --seed 4711    # replay a seed
    python -m tests.kafka.long_transactions --kafka --minutes 10       # on Apache Kafka
    python -m tests.kafka.long_transactions --kafka --version 0        # without KIP-890 finalized
    python -m tests.kafka.long_transactions --kafka --old              # on the last release without KIP-890

The exit status is 0 only if no run had an aborted read, a lost write, a torn transaction, or a value twice or out of
order.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import sys
import time
from collections import Counter

import anyio

from aiokafka_lead import Producer
from aiokafka_lead._wire import ApiKey
from aiokafka_lead.errors import KafkaError
from tests.transactions.history import History, Value
from tests.transactions.trouble import IN_FLIGHT, PARTITIONS, PipelinedWriter, Writer, read_along, trouble

from .broker_trouble import ALL_KINDS, KEEP_ACKNOWLEDGED, BrokerTrouble
from .cut_proxy import CutProxy
from .harness import NEWEST, OLD, KafkaCluster
from .probes import World
from .support import confluent_read, in_thread
from .transaction_probes import set_level

_TOUCHED = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.PRODUCE,
)
_WRITERS = 3
_TIMEOUT_MS = 4000
"""Timeout of transactions."""


def report(seed: int, what: str, history: History) -> bool:
    """Print one line for a run; return True without violations."""
    findings = history.findings()
    outcomes = Counter(written.outcome for written in history.written.values())
    print(f"seed {seed}, {what}: {dict(outcomes)}" + (f": {len(findings)} FINDINGS" if findings else ""), flush=True)
    for finding in findings[:20]:
        print(f"    {finding}", flush=True)
    return not findings


async def embedded(options: argparse.Namespace) -> bool:
    """Run on the embedded cluster, both versions in turn, until the time is up."""
    end = time.monotonic() + options.minutes * 60
    seeds = itertools.count(random.randrange(1_000_000)) if options.seed is None else [options.seed]
    well = True
    for seed in seeds:
        for version in (1, 2) if options.version is None else (options.version,):
            run = await trouble(seed, options.transactions, version, pipelines=options.pipelines)
            well = report(seed, f"version {version}", run) and well
        if time.monotonic() > end:
            break
    return well


async def kafka(options: argparse.Namespace) -> bool:
    """Run once on Apache Kafka.

    Answers are lost and requests late, rivals fence writers, some transactions take too long, leaders move, and
    brokers, which coordinate, are killed, stopped and frozen in turn.
    """
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    rng = random.Random(seed)
    history = History()
    release = OLD if options.old else NEWEST
    cluster = KafkaCluster(release, brokers=3, properties=KEEP_ACKNOWLEDGED)
    try:
        await in_thread(cluster.start)
        if options.version is not None:
            await set_level(World(cluster.bootstrap()), options.version)
        topic = await in_thread(cluster.create_topic, "history", partitions=PARTITIONS)
        along: dict[int, list[Value]] = {partition: [] for partition in range(PARTITIONS)}
        with CutProxy(cluster.bootstrap()) as proxy:
            proxy.loses = lambda api: api in _TOUCHED and rng.random() < 0.02
            proxy.delays = lambda api: api in _TOUCHED and rng.random() < 0.02
            brokers = BrokerTrouble(cluster, [topic], seed, ALL_KINDS)
            async with anyio.create_task_group() as background:
                background.start_soon(read_along, cluster.bootstrap(), topic, along)
                background.start_soon(brokers.run, (3.0, 10.0))
                ids = [f"writer-{number}" for number in range(_WRITERS)]
                if options.pipelines:
                    ids = [f"{name}-{number}" for name in ids for number in range(IN_FLIGHT)]
                background.start_soon(_rivals, cluster.bootstrap(), ids, random.Random(seed))
                async with anyio.create_task_group() as group:
                    for number in range(_WRITERS):
                        kind = PipelinedWriter if options.pipelines else Writer
                        writer = kind(number, proxy.bootstrap, history, random.Random(rng.random()), topic)
                        writer.pause_s = 1.5 * _TIMEOUT_MS / 1000
                        group.start_soon(_write, writer, time.monotonic() + options.minutes * 60)
                background.cancel_scope.cancel()
        print(f"brokers: {Counter(each.split()[0] for each in brokers.done)}", flush=True)
        await in_thread(cluster.start_missing)
        messages = await in_thread(confluent_read, cluster, topic, PARTITIONS, **{"isolation.level": "read_committed"})
        final: dict[int, list[Value]] = {partition: [] for partition in range(PARTITIONS)}
        for message in messages:
            final[message.partition() or 0].append(Value.decoded(message.value()))
        history.reads = [along, final]
        level = "" if options.version is None else f", transaction.version {options.version}"
        return report(seed, f"Kafka {release}{level}", history)
    finally:
        await in_thread(cluster.stop)


async def _write(writer: Writer, end: float) -> None:
    while time.monotonic() < end:
        await writer.run(20, transaction_timeout_ms=_TIMEOUT_MS)


async def _rivals(servers: str, ids: list[str], rng: random.Random) -> None:
    """Start and stop another producer with a writer's id until cancelled, which makes the writer a zombie."""
    while True:
        await anyio.sleep(rng.uniform(2, 8))
        try:
            async with Producer(servers, transactional_id=rng.choice(ids)):
                pass
        except KafkaError:
            pass  # without a coordinator


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", action="store_true", help="on Apache Kafka, and not on the embedded cluster")
    parser.add_argument("--old", action="store_true", help="with --kafka: the last release without KIP-890")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--transactions", type=int, default=60, help="of each writer in a run")
    parser.add_argument("--version", type=int, choices=(0, 1, 2), help="transaction.version; 0 with --kafka only")
    parser.add_argument("--seed", type=int, help="what goes wrong follows from it; one run")
    parser.add_argument("--pipelines", action="store_true", help="each writer has one, and not a single producer")
    parser.add_argument("--backend", default="asyncio", choices=("asyncio", "trio"))
    options = parser.parse_args()
    if options.version is not None and (options.old or (options.version == 0 and not options.kafka)):
        parser.error("--version is for a release that has it; 0 is for Apache Kafka")
    logging.disable(logging.CRITICAL)
    return 0 if anyio.run(kafka if options.kafka else embedded, options, backend=options.backend) else 1


if __name__ == "__main__":
    sys.exit(main())
