"""Clients of every kind at once, which report each event: ``python -m tests.kafka.astray '{"bootstrap": ...}'``.

`Astray.java` is the same program with Java's clients. `tests.kafka.long_misrouted` starts both, and reads their output:
each line has role, event, partition, number and time. A line on standard input ends the writers; the readers are
killed.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import anyio

from aiokafka_lead import AdminClient, Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.admin import OffsetSpec
from aiokafka_lead.errors import KafkaError

PAUSE_S = 0.05
"""Seconds between rounds of records to each partition, between transactions, and between requests."""


def say(role: str, event: str, where: Any = "", number: Any = "") -> None:
    """Report an event."""
    sys.stdout.write(f"{role}\t{event}\t{where}\t{number}\t{time.time():.3f}\n")
    sys.stdout.flush()


class Roles:
    """All clients of one process."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._common = {"bootstrap_servers": options["bootstrap"], "metadata_cluster_check_enable": options["check"]}
        self._options = options
        self._partitions = range(options["partitions"])
        self._stopped = anyio.Event()

    async def run(self) -> None:
        """Run all of them, the writers until there is a line at the standard input."""
        async with anyio.create_task_group() as readers:
            for protocol in ("classic", "consumer"):
                readers.start_soon(self._consume, protocol)
            readers.start_soon(self._share)
            async with anyio.create_task_group() as writers:
                for role in (self._send, self._transact, self._administer):
                    writers.start_soon(role)
                await anyio.to_thread.run_sync(sys.stdin.readline)
                self._stopped.set()
            say("writers", "ended")

    async def _send(self) -> None:
        async def settle(number: int, partition: int, delivery: Any) -> None:
            try:
                await delivery
            except KafkaError as error:
                say("producer", "failed", partition, f"{number} {type(error).__name__}")
            else:
                say("producer", "done", partition, number)

        async with Producer(**self._common, linger_ms=0) as producer, anyio.create_task_group() as waiting:
            waiting.start_soon(self._report_detection, producer)
            number = 0
            while not self._stopped.is_set():
                for partition in self._partitions:
                    delivery = await producer.send(self._options["plain"], b"%d" % number, partition=partition)
                    waiting.start_soon(settle, number, partition, delivery)
                number += 1
                await anyio.sleep(PAUSE_S)

    async def _report_detection(self, producer: Producer[Any, Any]) -> None:
        while not producer.metrics().metadata.rebootstraps_required:
            if self._stopped.is_set():
                return
            await anyio.sleep(0.005)
        say("producer", "detected")

    async def _transact(self) -> None:
        options = self._options
        async with Producer(**self._common, linger_ms=0, transactional_id=options["id"]) as producer:
            number = 0
            while not self._stopped.is_set():
                txn = producer.transaction()
                try:
                    async with txn:
                        for partition in self._partitions:
                            await txn.send(options["listed"], b"%d" % number, partition=partition)
                except KafkaError as error:
                    say("transactions", "failed", txn.outcome, f"{number} {type(error).__name__}")
                else:
                    say("transactions", "done", "", number)
                number += 1
                await anyio.sleep(PAUSE_S)

    async def _consume(self, protocol: str) -> None:
        options = self._options
        wanted: dict[str, Any] = {**self._common, "group_id": options[protocol], "group_protocol": protocol}
        wanted |= {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "auto_commit_interval_ms": 500}
        async with Consumer(options["plain"], options["listed"], **wanted) as consumer:
            async for record in consumer:
                say(protocol, "done", f"{record.topic}-{record.partition}", record.offset)

    async def _share(self) -> None:
        options = self._options
        async with ShareConsumer(
            options["plain"], **self._common, group_id=options["share"], share_acknowledgement_mode="explicit"
        ) as consumer:
            while True:
                found = await consumer.getmany(timeout_ms=200)
                taken = [(each, consumer.acknowledge(each)) for records in found.values() for each in records]
                for record, acknowledgement in taken:
                    try:
                        await acknowledgement
                    except KafkaError as error:
                        say("share", "failed", record.partition, f"{record.offset} {type(error).__name__}")
                    else:
                        say("share", "done", record.partition, record.offset)

    async def _administer(self) -> None:
        ends = {TopicPartition(self._options["plain"], partition): OffsetSpec.LATEST for partition in self._partitions}
        async with AdminClient(**self._common) as admin:
            while not self._stopped.is_set():
                try:
                    await admin.list_offsets(ends)
                except KafkaError as error:
                    say("admin", "failed", "", type(error).__name__)
                else:
                    say("admin", "done")
                await anyio.sleep(PAUSE_S)


if __name__ == "__main__":
    anyio.run(Roles(json.loads(sys.argv[1])).run)
