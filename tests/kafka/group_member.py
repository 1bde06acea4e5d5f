"""One member of a consumer group in a process of its own: ``python -m tests.kafka.group_member '{"client": ...}'``.

It reads and commits batch after batch, and writes what happens to it as JSON lines to its standard output, each before
the next thing is done: ``assigned``, ``revoked`` and ``lost`` with partitions, ``read`` and ``committed`` with offsets
by partition, ``refused`` for a commit that failed, ``left`` at the end. SIGTERM makes it leave the group.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import aiokafka
import anyio
import confluent_kafka
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError as AIOKafkaError

from aiokafka_lead import Consumer, OffsetAndMetadata, TopicPartition
from aiokafka_lead.config import ConsumerOptions
from aiokafka_lead.errors import KafkaError


class Options(TypedDict):
    """What kind of member it is to be."""

    client: str
    """"lead" (this client), "aiokafka" or "confluent"."""
    bootstrap: str
    group: str
    topic: str
    protocol: str
    assignor: str
    instance: str | None
    session_ms: int
    """Of the classic protocol; in the new one it is the broker's."""
    batch: int
    """At most so many records between commits."""
    pause_ms: int
    """How long a batch takes to handle."""


class Journal:
    """What happened, on standard output; the clock is the machine's monotonic one, the same in all processes."""

    def __init__(self) -> None:
        self.stopping = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"at": time.monotonic(), "event": event, **fields}) + "\n"
        os.write(1, line.encode())

    def moved(self, event: str, partitions: Iterable[Any]) -> None:
        self.write(event, partitions=sorted(each.partition for each in partitions))

    def read(self, ranges: Mapping[int, tuple[int, int]]) -> None:
        """The first offset that was read in each partition, and the one after the last."""
        self.write("read", ranges={str(partition): offsets for partition, offsets in ranges.items()})

    def committed(self, offsets: Mapping[int, int]) -> None:
        self.write("committed", offsets={str(partition): offset for partition, offset in offsets.items()})


class _LeadListener:
    """Tells the journal of this client's rebalances."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._journal.moved("assigned", partitions)

    async def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._journal.moved("revoked", partitions)

    async def on_partitions_lost(self, partitions: Iterable[TopicPartition]) -> None:
        self._journal.moved("lost", partitions)


async def run_lead(options: Options, journal: Journal) -> None:
    wanted: ConsumerOptions = {
        "group_id": options["group"],
        "group_instance_id": options["instance"],
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "client_id": "lead",
    }
    if options["protocol"] == "consumer":
        wanted["group_protocol"] = "consumer"
    else:
        wanted["partition_assignment_strategy"] = (options["assignor"],)
        wanted["session_timeout_ms"] = options["session_ms"]
        wanted["heartbeat_interval_ms"] = options["session_ms"] // 10
    consumer: Consumer[bytes, bytes] = Consumer(bootstrap_servers=options["bootstrap"], **wanted)
    consumer.subscribe(topics=[options["topic"]], listener=_LeadListener(journal))
    async with consumer:
        while not journal.stopping:
            found = await consumer.getmany(timeout_ms=200, max_records=options["batch"])
            if not found:
                continue
            journal.read({tp.partition: (records[0].offset, records[-1].offset + 1) for tp, records in found.items()})
            await anyio.sleep(options["pause_ms"] / 1000)
            after = {tp: OffsetAndMetadata(records[-1].offset + 1) for tp, records in found.items()}
            try:
                await consumer.commit(after)
            except KafkaError as error:
                journal.write("refused", error=repr(error))
            else:
                journal.committed({tp.partition: position.offset for tp, position in after.items()})


class _AIOKafkaListener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._journal.moved("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._journal.moved("revoked", revoked)


_AIOKAFKA_ASSIGNORS: Mapping[str, type[AbstractPartitionAssignor]] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
}


async def run_aiokafka(options: Options, journal: Journal) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        group_instance_id=options["instance"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        client_id="aiokafka",
        partition_assignment_strategy=(_AIOKAFKA_ASSIGNORS[options["assignor"]],),
        session_timeout_ms=options["session_ms"],
        heartbeat_interval_ms=options["session_ms"] // 10,
        metadata_max_age_ms=5000,
    )
    consumer.subscribe([options["topic"]], listener=_AIOKafkaListener(journal))
    await consumer.start()
    try:
        while not journal.stopping:
            found = await consumer.getmany(timeout_ms=200, max_records=options["batch"])
            if not found:
                continue
            journal.read({tp.partition: (records[0].offset, records[-1].offset + 1) for tp, records in found.items()})
            await asyncio.sleep(options["pause_ms"] / 1000)
            after = {tp: records[-1].offset + 1 for tp, records in found.items()}
            try:
                await consumer.commit(after)
            except AIOKafkaError as error:
                journal.write("refused", error=repr(error))
            else:
                journal.committed({tp.partition: offset for tp, offset in after.items()})
    finally:
        await consumer.stop()


def run_confluent(options: Options, journal: Journal) -> None:
    classic = {
        "partition.assignment.strategy": options["assignor"],
        "session.timeout.ms": options["session_ms"],
        "heartbeat.interval.ms": options["session_ms"] // 10,
    }
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": options["bootstrap"],
            "group.id": options["group"],
            "group.protocol": options["protocol"],
            "client.id": "confluent",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **(classic if options["protocol"] == "classic" else {}),
            **({} if options["instance"] is None else {"group.instance.id": options["instance"]}),
        }
    )
    consumer.subscribe(
        [options["topic"]],
        on_assign=lambda _, partitions: journal.moved("assigned", partitions),
        on_revoke=lambda _, partitions: journal.moved("revoked", partitions),
        on_lost=lambda _, partitions: journal.moved("lost", partitions),
    )
    while not journal.stopping:
        ranges: dict[int, tuple[int, int]] = {}
        for message in consumer.consume(options["batch"], 0.2):
            partition, offset = message.partition(), message.offset()
            if message.error() is None and partition is not None and offset is not None:
                ranges[partition] = ranges.get(partition, (offset, 0))[0], offset + 1
        if not ranges:
            continue
        journal.read(ranges)
        time.sleep(options["pause_ms"] / 1000)
        after = [confluent_kafka.TopicPartition(options["topic"], p, end) for p, (_, end) in ranges.items()]
        try:
            consumer.commit(offsets=after, asynchronous=False)
        except confluent_kafka.KafkaException as error:
            journal.write("refused", error=repr(error))
        else:
            journal.committed({partition: end for partition, (_, end) in ranges.items()})
    consumer.close()


def main() -> None:
    options: Options = json.loads(sys.argv[1])
    journal = Journal()
    if options["client"] == "confluent":
        run_confluent(options, journal)
    elif options["client"] == "aiokafka":
        asyncio.run(run_aiokafka(options, journal))
    else:
        anyio.run(run_lead, options, journal)
    journal.write("left")


if __name__ == "__main__":
    main()
