"""This client."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio

from aiokafka_lead import Consumer, OffsetAndMetadata, TopicPartition
from aiokafka_lead.errors import KafkaError

from .journal import HEARTBEAT_MS, Journal, Options


class _Listener:
    """Writes this client's rebalances to the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._journal.moved("assigned", partitions)

    async def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self._journal.moved("revoked", partitions)

    async def on_partitions_lost(self, partitions: Iterable[TopicPartition]) -> None:
        self._journal.moved("lost", partitions)


async def _run(options: Options, journal: Journal) -> None:
    wanted: dict[str, Any] = {
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
        wanted["heartbeat_interval_ms"] = HEARTBEAT_MS
    consumer = Consumer(bootstrap_servers=options["bootstrap"], **wanted)
    consumer.subscribe(topics=[options["topic"]], listener=_Listener(journal))
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


def run(options: Options, journal: Journal) -> None:
    anyio.run(_run, options, journal)
