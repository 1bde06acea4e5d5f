"""What the planner asks the cluster: partitions, topics' ids, offsets. Through `AdminClient`, on the client loop."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

import anyio

from ...admin import AdminClient, OffsetSpec
from ...errors import KafkaError
from ...types import TopicPartition
from .bounds import EARLIEST, LATEST, AtOffsets, AtTime, AtTimes, Bound, End, NoMatch
from .options import SourceOptions
from .progress import Progress

__all__ = ["ClusterView"]

T = TypeVar("T")
Times = Mapping[TopicPartition, int]


class ClusterView:
    """The partitions of a selection, as they are at each call."""

    def __init__(self, admin: AdminClient, options: SourceOptions, *, read_committed: bool) -> None:
        self._admin = admin
        self._selection = options.selection
        self._attempts = options.offset_attempts
        self._interval_s = options.offset_retry_interval_ms / 1000
        self._read_committed = read_committed

    async def at(self, bound: Bound, *, starting: bool) -> Progress:
        """Where a query starts or ends. Raises ValueError if the bound does not fit to the partitions there are."""

        async def find() -> Progress:
            partitions, ids = await self._partitions()
            return Progress(await self._resolve(bound, partitions, starting), ids)

        return await self._again(find)

    async def ends(self, known: Progress | None = None) -> Progress:
        """The end of each partition. One that is before what is known already is asked for again first."""

        async def find() -> Progress:
            partitions, ids = await self._partitions()
            return Progress(await self._offsets(dict.fromkeys(partitions, LATEST)), ids)

        found = await self._again(find)
        for _ in range(self._attempts - 1):
            if known is None or not _behind(found, known):
                break
            await anyio.sleep(self._interval_s)
            found = await self._again(find)
        return found

    async def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of those of these partitions that exist."""
        wanted = set(partitions)
        if not wanted:
            return {}

        async def find() -> dict[TopicPartition, int]:
            present, _ = await self._partitions()
            return await self._offsets(dict.fromkeys(present & wanted, EARLIEST))

        return await self._again(find)

    async def at_times(self, times_ms: Times) -> dict[TopicPartition, int | None]:
        """The first offset at or after a time, or None where there is none."""
        if not times_ms:
            return {}
        found = await self._admin.list_offsets(times_ms, read_committed=self._read_committed)
        return {tp: None if entry is None else entry.offset for tp, entry in found.items()}

    async def _partitions(self) -> tuple[set[TopicPartition], dict[str, str]]:
        selection = self._selection
        if selection.pattern:
            pattern = re.compile(selection.pattern)
            topics = {name for name in await self._admin.list_topics() if pattern.search(name)}
        else:
            topics = {*selection.topics, *(tp.topic for tp in selection.partitions)}
        if not topics:
            return set(), {}
        described = await self._admin.describe_topics(sorted(topics))
        found = {
            TopicPartition(topic.name, entry.partition)
            for topic in described.values()
            if not topic.is_internal
            for entry in topic.partitions
        }
        found = selection.of(found)
        # Brokers before Kafka 2.8 know no ids.
        ids = {topic.name: str(topic.topic_id) for topic in described.values() if topic.topic_id.int}
        return found, {tp.topic: ids[tp.topic] for tp in found if tp.topic in ids}

    async def _resolve(
        self, bound: Bound, partitions: set[TopicPartition], starting: bool
    ) -> dict[TopicPartition, int]:
        match bound:
            case End():
                return await self._offsets(dict.fromkeys(partitions, bound.value))
            case AtOffsets(offsets):
                _check_complete(offsets, partitions, "offsets")
                return await self._offsets(offsets)
            case AtTimes(times_ms, no_match):
                _check_complete(times_ms, partitions, "timestamps")
            case AtTime(time_ms, no_match):
                times_ms = dict.fromkeys(partitions, time_ms)
        at = await self.at_times(times_ms)
        for tp, offset in at.items():
            if offset is None and starting and no_match is NoMatch.ERROR:
                raise ValueError(f"no record of {tp} is at or after the starting timestamp {times_ms[tp]}")
        return await self._offsets({tp: LATEST if offset is None else offset for tp, offset in at.items()})

    async def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The same with `LATEST` and `EARLIEST` replaced by the offsets that they stand for."""
        unknown = {tp: OffsetSpec(offset) for tp, offset in wanted.items() if offset < 0}
        found = dict(wanted)
        if unknown:
            for tp, entry in (await self._admin.list_offsets(unknown, read_committed=self._read_committed)).items():
                found[tp] = 0 if entry is None else entry.offset
        return found

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until it works, as Spark's connector does: a topic may just be on its way in or out."""
        for _ in range(self._attempts - 1):
            try:
                return await ask()
            except KafkaError:
                await anyio.sleep(self._interval_s)
        return await ask()


def _check_complete(given: Mapping[TopicPartition, int], partitions: set[TopicPartition], what: str) -> None:
    if given.keys() != partitions:
        raise ValueError(
            f"{what} must be given for all partitions that are read: given {_names(given)}, read {_names(partitions)}"
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions)) or "none"


def _behind(found: Progress, known: Progress) -> bool:
    """Whether a partition ends before what was read of it: a leader that was elected just now may not know better."""
    recreated = known.recreated(found)
    return any(
        found.offsets.get(tp, offset) < offset for tp, offset in known.offsets.items() if tp.topic not in recreated
    )
