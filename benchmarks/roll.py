"""Latency while brokers are restarted one by one under load: KIP-951's roll simulation.

``python -m benchmarks roll [--real] [--shape high|low] [--per-second N] [--minutes M] [--acks all|1] [--linger-ms L]
[--hints on|off] [--separate]`` uses the embedded cluster in a separate process, or starts three brokers of Apache
Kafka. The shapes of the load are taken from the KIP:

- ``high``: one topic of 9,000 partitions, 60 producers, three groups of 60 consumers, 23,400 records/s of 512 bytes;
- ``low``: one topic of 108 partitions, 6 producers, three groups of 6 consumers, 234,000 records/s.

All clients run in this process, and share connections and metadata unless ``--separate`` is given. Each shape runs with
and without leader hints. Leaders move when a broker shuts down. Halfway to the next restart, they move back to their
preferred brokers. A latency is the time from when a record is due to its acknowledgement (produce), or to its delivery
by a consumer (end to end). A client that falls behind therefore cannot hide the delay. Latencies cover the minutes in
which brokers are restarted. No record may be lost or duplicated. With ``--traces HOST:PORT``, the times of all records
are written to the topic ``traces`` of this cluster, from which ``spark_traces`` makes its tables and pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aiokafka_lead import AdminClient, Client, Consumer, Producer
from aiokafka_lead.admin import NewTopic

from .roll_clusters import BROKERS, Restart, apache, embedded
from .roll_load import Load
from .stats import table
from .traces import TRACES, prepare_topic, write_traces

WARM_UP_S = 5.0
SETTLED_WITHIN_S = 120.0
"""Seconds within which groups must assign all partitions. Groups of 60 members need several rounds of heartbeats."""
SETTLE_S = 1.0
"""Minimum number of seconds between two events that move leaders."""
KEPT_BYTES = 2_000_000_000
"""Maximum number of bytes that the topic retains."""


class Shape(NamedTuple):
    """Shape of a load: a topic, the numbers of clients, and the rate of records."""

    partitions: int
    producers: int
    consumers: int
    """Number of consumers in each group."""
    per_second: float


SHAPES = {"high": Shape(9000, 60, 60, 23_400), "low": Shape(108, 6, 6, 234_000)}


# --- a roll -----------------------------------------------------------------------------------------------------------


class Clients:
    """Creates the clients, on shared or separate connections."""

    def __init__(self, bootstrap: str, shared: Client | None, **options: Any) -> None:
        self._bootstrap = bootstrap
        self._shared = shared
        self._options = options

    def producer(self, **options: Any) -> Producer:
        if self._shared is not None:
            return self._shared.producer(**options)
        return Producer(self._bootstrap, **self._options, **options)

    def consumer(self, topic: str, **options: Any) -> Consumer:
        if self._shared is not None:
            return self._shared.consumer(topic, **options)
        return Consumer(topic, bootstrap_servers=self._bootstrap, **self._options, **options)


async def roll(
    bootstrap: str, restart: Restart, shape: Shape, options: argparse.Namespace, *, hints: bool
) -> dict[str, Any]:
    """Restart all brokers once, and return the figures."""
    topic = f"roll-{shape.partitions}-{'hints' if hints else 'none'}"
    client = "lead" if hints else "lead-no-hints"
    async with AdminClient(bootstrap, request_timeout_ms=120_000) as admin:
        kept = {"retention.bytes": str(KEPT_BYTES // shape.partitions), "segment.bytes": "50000000"}
        if not options.real:
            kept["segment.bytes"] = str(KEPT_BYTES // shape.partitions // 4)
        await admin.create_topics([NewTopic(topic, shape.partitions, BROKERS, topic_configs=kept)], timeout_ms=120_000)
        async with AsyncExitStack() as stack:
            policy: Literal["trust", "off"] = "trust" if hints else "off"
            shared = None
            if not options.separate:
                shared = await stack.enter_async_context(Client(bootstrap, leader_hint_policy=policy))
            clients = Clients(bootstrap, shared, leader_hint_policy=policy)
            acks = 1 if options.acks == "1" else "all"
            producers = [clients.producer(acks=acks, linger_ms=options.linger_ms) for _ in range(shape.producers)]
            load = Load(topic, shape.per_second, producers, keep=bool(options.traces))
            group: dict[str, Any] = {"group_protocol": "consumer", "auto_offset_reset": "earliest"}
            readers = [
                (clients.consumer(topic, group_id=f"{topic}-{number}", **group), number)
                for number in range(len(load.subscriptions))
                for _ in range(shape.consumers)
            ]
            for producer in producers:
                await stack.enter_async_context(producer)
            await asyncio.gather(*(stack.enter_async_context(consumer) for consumer, _ in readers))
            tasks = [asyncio.create_task(load.read(*reader)) for reader in readers]
            writing = asyncio.create_task(load.write())
            await settled(readers, shape.partitions)
            await asyncio.sleep(WARM_UP_S)
            gc.collect()
            gc.disable()  # a collection would visit hundreds of clients, which takes 0.1 s, and would free no memory
            load.measuring = True
            cpu_s, began = time.process_time(), time.monotonic()
            restarts = await restart_all(restart, admin, load, 60 * options.minutes)
            load.measuring = False
            behind = load.pending()
            cpu_s, took_s = time.process_time() - cpu_s, time.monotonic() - began
            writing.cancel()
            await load.drain()
            for task in tasks:
                task.cancel()
            await asyncio.gather(writing, *tasks, return_exceptions=True)
            metrics = [shared.metrics()] if shared is not None else [each.metrics().metadata for each in producers]
        await admin.delete_topics([topic])
    gc.enable()
    if load.kept is not None:
        run = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} roll, {shape.partitions} partitions"
        await write_traces(options.traces, TRACES, load.kept.traces(run, client, restarts))
    messages = load.acknowledged + sum(each.read for each in load.subscriptions)
    times = {
        f"{kind} {name}": value
        for kind, seen in (("produce", load.produce), ("end to end", load.end_to_end))
        for name, value in zip(("p50", "p99", "max"), seen.percentiles(), strict=True)
    }
    return {
        "": f"{shape.partitions:,} partitions, hints {'on' if hints else 'off'}",
        **times,
        "records": load.sent,
        "a second": f"{load.sent / took_s:,.0f}",
        "unacknowledged at the end": behind[0],
        "unread at the end": behind[1],
        "failed": load.failed,
        "lost": max(load.sent - load.failed - each.read for each in load.subscriptions),
        "twice": sum(each.twice for each in load.subscriptions),
        "hints": sum(each.hints_accepted for each in metrics),
        "CPU us per message": f"{1e6 * cpu_s / max(1, messages):.1f}",
    }


async def settled(readers: Sequence[tuple[Consumer, int]], partitions: int) -> None:
    """Wait until the consumers of each group own all partitions. Raises TimeoutError."""
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while set(owned(readers).values()) != {partitions}:  # noqa: ASYNC110 (no event announces an assignment)
            await asyncio.sleep(0.2)


def owned(readers: Sequence[tuple[Consumer, int]]) -> Counter[int]:
    """Return the number of partitions that the consumers of each group own."""
    found: Counter[int] = Counter()
    for consumer, number in readers:
        found[number] += len(consumer.assignment())
    return found


async def restart_all(restart: Restart, admin: AdminClient, load: Load, seconds: float) -> list[float]:
    """Restart the brokers one by one within ``seconds``. Return the time at which each began to shut down."""
    began = time.monotonic()
    each_s = seconds / BROKERS
    restarts = []
    for number in range(BROKERS):
        await _at(began + each_s * (number + 0.25))
        restarts.append(time.monotonic())
        await restart(number + 1)
        at = f"{time.monotonic() - began:.0f} s"
        print(f"  broker {number + 1} restarted after {at}; pending: {load.pending()}", flush=True)
        await _at(began + each_s * (number + 0.75))
        await admin.elect_leaders()
    await _at(began + seconds)
    return restarts


async def _at(at: float) -> None:
    await asyncio.sleep(max(SETTLE_S, at - time.monotonic()))


async def run(options: argparse.Namespace) -> None:
    """Run every requested shape, with hints and without."""
    rows: list[dict[str, Any]] = []
    if options.traces:
        await prepare_topic(options.traces, TRACES)
    for name in options.shape or ["high"]:
        shape = SHAPES[name]
        if options.per_second:
            shape = shape._replace(per_second=options.per_second)
        if options.partitions:
            shape = shape._replace(partitions=options.partitions)
        for hints in (True, False) if options.hints == "both" else (options.hints == "on",):
            async with apache() if options.real else embedded() as (bootstrap, restart):
                rows.append(await roll(bootstrap, restart, shape, options, hints=hints))
            print(rows[-1], flush=True)
    where = "Apache Kafka" if options.real else "the embedded cluster"
    print(f"\n{BROKERS} brokers of {where} restarted one by one, acks={options.acks}; ms\n")
    print(table(list(rows[0]), [list(row.values()) for row in rows]))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "roll.json").write_text(json.dumps(rows, indent=1))


def main(arguments: list[str]) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "benchmarks roll", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", action="store_true", help="use Apache Kafka (needs Java 17+ and Maven)")
    parser.add_argument("--shape", action="append", choices=list(SHAPES), help="run only this shape; may be repeated")
    parser.add_argument("--per-second", type=float, help="records/s (default: as in the shape)")
    parser.add_argument("--partitions", type=int, help="number of partitions (default: as in the shape)")
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--acks", choices=["all", "1"], default="all")
    parser.add_argument("--linger-ms", type=float, default=5)
    parser.add_argument("--hints", choices=["on", "off", "both"], default="both")
    parser.add_argument("--separate", action="store_true", help="give each client separate connections and metadata")
    parser.add_argument("--traces", metavar="HOST:PORT", help="cluster to which the times of every record are written")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    asyncio.run(run(parser.parse_args(arguments)))
