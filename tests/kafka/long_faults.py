"""Faults of transactions on a real Kafka, in sequence. Each takes minutes.

    python -m tests.kafka.long_faults # all faults python -m tests.kafka.long_faults --only epochs --old # one kind,
    without KIP-890

- "cancellations": 200 on asyncio and 200 on trio.
- "coordinators": the coordinator of the transaction, and then of the group, is killed at each step.
- "epochs": a producer that loses the response to every other end continues past the last epoch (32,766).
- "feature": transaction.version is raised and lowered while writers write and responses are lost.

The exit status is 0 only if readers saw the outcomes that were reported to the writers.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import anyio

from aiokafka_lead import Producer
from aiokafka_lead._wire import ApiKey
from tests.transactions.history import History, Value
from tests.transactions.trouble import PARTITIONS as WRITTEN_PARTITIONS
from tests.transactions.trouble import Writer

from .cut_proxy import CutProxy
from .harness import NEWEST, OLD, KafkaCluster
from .probes import World
from .support import confluent_read, in_thread
from .transaction_faults import (
    GROUP,
    LAST_EPOCH,
    PARTITIONS,
    STEPS,
    TRANSACTION,
    Warnings,
    cancelled_at_random,
    check,
    coordinator,
    one,
    use_epochs_up,
    with_a_kill,
)
from .transaction_probes import set_level

FEATURE_S = 60
_LEVELS = (1, 2)
"""Levels of the feature, without 0.

After lowering it from 2 to 0, Kafka 4.3 leaves open transactions stuck. It answers each end, and the next
InitProducerId, with CONCURRENT_TRANSACTIONS, and does not time them out.
"""


async def cancellations(kafka: KafkaCluster, topic: str) -> str:
    with Warnings() as warnings:
        async with Producer(kafka.bootstrap(), transactional_id=topic) as producer:
            said = await cancelled_at_random(producer, topic, 200, random.Random(1))
    assert warnings.texts == [], warnings.texts
    await check(kafka, topic, said)
    return f"{len(said)} of 204 committed, as learnt"


async def coordinators(kafka: KafkaCluster, topic: str) -> str:
    said = []
    async with Producer(kafka.bootstrap(), transactional_id=topic) as producer:
        await one(producer.transaction(), topic, b"first")  # the group is known
        for kind, key in ((TRANSACTION, topic), (GROUP, f"{topic}-group")):
            for step in range(STEPS):
                value = b"%d-%d" % (kind, step)
                if await with_a_kill(producer, kafka, topic, value, kind, key, step):
                    said.append(value)
                await one(producer.transaction(), topic, b"behind " + value)
                said.append(b"behind " + value)
    await check(kafka, topic, [b"first", *said])
    return f"{len(said)} of {4 * STEPS} committed, as learnt"


async def epochs(kafka: KafkaCluster, topic: str) -> str:
    await coordinator(kafka, TRANSACTION, topic)
    began = time.monotonic()
    first = await use_epochs_up(kafka, topic, LAST_EPOCH - 6)
    took_s = time.monotonic() - began
    said = [b"%d" % number for number in range(12)]
    ends = itertools.count()
    with CutProxy(kafka.bootstrap()) as proxy:
        # Before KIP-890 only a transaction with an unanswered end costs an epoch.
        proxy.loses = lambda api: api == ApiKey.END_TXN and next(ends) % 2 == 0
        async with Producer(proxy.bootstrap, transactional_id=topic) as producer:
            before = producer.transaction_health()
            for value in said[:6]:
                await one(producer.transaction(), topic, value)
            middle = producer.transaction_health()
            for value in said[6:]:
                await one(producer.transaction(), topic, value)
            after = producer.transaction_health()
    assert before.producer_id == first
    assert after.producer_id != first
    assert after.producer_epoch < len(said)
    await check(kafka, topic, said)
    ids = [(health.producer_id, health.producer_epoch) for health in (before, middle, after)]
    return f"{LAST_EPOCH} epochs in {took_s:.0f} s; id and epoch: {ids}"


async def feature(kafka: KafkaCluster, topic: str) -> str:
    world, rng, history = World(kafka.bootstrap()), random.Random(1), History()
    await world.topic(world.name())
    changes = 0

    async def change() -> None:
        nonlocal changes
        while True:
            for level in _LEVELS:
                await set_level(world, level)
                changes += 1
                await anyio.sleep(rng.uniform(0.5, 3))

    with CutProxy(kafka.bootstrap()) as proxy:
        proxy.loses = lambda api: rng.random() < 0.01
        async with anyio.create_task_group() as background:
            background.start_soon(change)
            end = time.monotonic() + FEATURE_S

            async def write(writer: Writer) -> None:
                while time.monotonic() < end:
                    await writer.run(10)

            async with anyio.create_task_group() as writers:
                for number in range(3):
                    writers.start_soon(write, Writer(number, proxy.bootstrap, history, random.Random(number), topic))
            background.cancel_scope.cancel()
    await set_level(world, 2)
    options = {"isolation.level": "read_committed"}
    seen: dict[int, list[Value]] = {partition: [] for partition in range(WRITTEN_PARTITIONS)}
    for message in await in_thread(confluent_read, kafka, topic, WRITTEN_PARTITIONS, **options):
        seen[message.partition() or 0].append(Value.decoded(message.value()))
    history.reads = [seen]
    assert history.findings() == []
    return f"{changes} changes of the level, {dict(Counter(w.outcome for w in history.written.values()))}"


THINGS: dict[str, Callable[[KafkaCluster, str], Awaitable[str]]] = {
    "cancellations": cancellations,
    "coordinators": coordinators,
    "epochs": epochs,
    "feature": feature,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=THINGS, action="append", help="all without it; may be given again")
    parser.add_argument("--old", action="store_true", help="the last release without KIP-890")
    options = parser.parse_args()
    kafka = KafkaCluster(OLD if options.old else NEWEST, brokers=3)
    try:
        kafka.start()
        for name in options.only or THINGS:
            if name == "feature" and options.old:
                continue
            for backend in ("asyncio", "trio") if name == "cancellations" else ("asyncio",):
                partitions = WRITTEN_PARTITIONS if name == "feature" else PARTITIONS
                topic = kafka.create_topic(f"{name}-{backend}", partitions=partitions)
                print(f"{name}, {backend}: {anyio.run(THINGS[name], kafka, topic, backend=backend)}", flush=True)
    finally:
        kafka.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
