"""aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import aiokafka
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import KafkaError

from .journal import HEARTBEAT_MS, Journal, Options


class _Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._journal.moved("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._journal.moved("revoked", revoked)


_ASSIGNORS: Mapping[str, type[AbstractPartitionAssignor]] = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
}


async def _run(options: Options, journal: Journal) -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=options["bootstrap"],
        group_id=options["group"],
        group_instance_id=options["instance"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        client_id="aiokafka",
        partition_assignment_strategy=(_ASSIGNORS[options["assignor"]],),
        session_timeout_ms=options["session_ms"],
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=5000,
    )
    consumer.subscribe([options["topic"]], listener=_Listener(journal))
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
            except KafkaError as error:
                journal.write("refused", error=repr(error))
            else:
                journal.committed({tp.partition: offset for tp, offset in after.items()})
    finally:
        await consumer.stop()


def run(options: Options, journal: Journal) -> None:
    asyncio.run(_run(options, journal))
