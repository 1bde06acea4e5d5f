"""Requests for planning a query: partitions, topic ids and offsets, and the ranges of a batch query.

`ClusterView` must be used on the client loop.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

import anyio

from ...admin import AdminClient, OffsetSpec, TopicDescription, outcomes_of
from ...errors import KafkaError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from ...types import OffsetAndTimestamp, TopicPartition
from ..client_loop import client_loop
from .clients import admin_client, read_committed
from .options import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    AtTimes,
    Bound,
    End,
    NoMatch,
    Selection,
    SourceOptions,
    is_beginning,
)
from .progress import Progress, report
from .ranges import OffsetRange

CONFIRMATIONS = 2
"""Number of additional responses that must confirm a changed topic id."""

MENTION_EVERY_S = 60.0

MISSING = (UnknownTopicOrPartitionError, TopicAuthorizationFailedError)
"""Errors about a topic that was deleted, is not yet known to this broker, or is hidden by an ACL."""

NOTHING = Progress({})

_log = logging.getLogger("aiokafka_lead.spark")

T = TypeVar("T")
Times = Mapping[TopicPartition, int]


class ClusterView:
    """Requests the current state of the partitions that the options select."""

    def __init__(self, admin: AdminClient, options: SourceOptions, *, read_committed: bool) -> None:
        self._admin = admin
        self._selection = options.selection
        self._attempts = options.offset_attempts
        self._interval_s = options.offset_retry_interval_ms / 1000
        self._patience_s = options.data_loss_timeout_ms / 1000
        self._read_committed = read_committed
        self.lost_topics: set[str] = set()
        """Topics that were reported as lost. They are looked up in the list of all topics, because a request for a
        missing topic by name is retried several times."""
        self.refusals: dict[str, KafkaError] = {}
        """Errors about missing topics in the last answer."""
        self._mentioned_at = -MENTION_EVERY_S

    async def at(self, bound: Bound, *, starting: bool) -> Progress:
        """Return the offsets for a bound, which is the start or the end of a query.

        Raises ValueError if the bound does not match the existing partitions.
        """

        async def find() -> Progress:
            partitions, ids = await self._partitions()
            return Progress(await self._resolve(bound, partitions, starting), ids)

        return await self._again(find)

    async def ends(self, known: Progress) -> Progress:
        """Return the end offsets, without missing partitions of ``known``. Raises an error for other missing topics."""

        async def find() -> Progress:
            partitions, ids = await self._partitions(known)
            found = await self._offsets(dict.fromkeys(partitions, LATEST), known)
            return Progress(found | await self._held_back(found, known.known_to(Progress({}, ids))), ids)

        found = await self._again(find)
        for _ in range(CONFIRMATIONS if known.recreated(found) else 0):
            again = await self._again(find)
            if again.topic_ids != found.topic_ids:  # brokers disagree, so the answers about these topics are in doubt
                return found.without(known.recreated(found) | known.recreated(again))
        return found

    async def _held_back(self, found: Times, known: Times) -> dict[TopicPartition, int]:
        """Return the known offsets of partitions whose last stable offset is lower because of an open transaction.

        An offset above the last stable offset comes from the options, or from an earlier run without read_committed.
        Such a partition has not become shorter.
        """
        short = [tp for tp, end in found.items() if end < known.get(tp, 0)]
        if not (short and self._read_committed):
            return {}
        stored = await outcomes_of(self._admin.list_offsets(dict.fromkeys(short, OffsetSpec.LATEST)))
        ends = {tp: entry.offset for tp, entry in stored.items() if isinstance(entry, OffsetAndTimestamp)}
        return {tp: known[tp] for tp, end in ends.items() if end >= known[tp]}

    def unread(self, known: Progress) -> set[TopicPartition]:
        """Return the partitions of ``known`` that the options no longer select."""
        return known.offsets.keys() - self._selection.of(known.offsets)

    async def present(self, known: Progress) -> set[TopicPartition]:
        """Return the partitions of ``known`` that still exist. Partitions of recreated topics do not count."""
        partitions, ids = await self._again(lambda: self._partitions(known))
        return partitions & known.known_to(Progress({}, ids)).keys()

    async def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return beginning offsets. Waits for missing partitions for up to ``dataLossTimeoutMs``."""
        wanted = dict.fromkeys(partitions, EARLIEST)
        deadline = anyio.current_time() + self._patience_s
        while True:
            found = await self._again(lambda: self._offsets(wanted, Progress(wanted)))
            if len(found) == len(wanted) or anyio.current_time() >= deadline:
                return found
            await anyio.sleep(self._interval_s)

    async def at_times(self, times_ms: Times) -> dict[TopicPartition, int | None]:
        """Return the offset of the first record at or after each time in ms, or None if there is none."""
        if not times_ms:
            return {}
        found = await self._admin.list_offsets(times_ms, read_committed=self._read_committed)
        return {tp: None if entry is None else entry.offset for tp, entry in found.items()}

    async def _partitions(self, known: Progress | None = None) -> tuple[set[TopicPartition], dict[str, str]]:
        """Return the selected partitions and the ids of their topics.

        Topics of ``known`` may be missing. Raises an error for other missing topics.
        """
        selection = self._selection
        expected = set() if known is None else selection.of_topics({tp.topic for tp in known.offsets})
        topics = {*selection.topics, *(tp.topic for tp in selection.partitions)}
        if selection.pattern or self.lost_topics:
            listed = selection.of_topics(await self._admin.list_topics())
            # The list may lack topics because of old metadata or an ACL. A request by name returns the reason.
            topics = listed | ((topics | expected) - self.lost_topics)
        if not topics:
            return set(), {}
        described = await outcomes_of(self._admin.describe_topics(sorted(topics)))
        self.refusals = {name: found for name, found in described.items() if isinstance(found, KafkaError)}
        for name, error in self.refusals.items():
            if not isinstance(error, MISSING) or not (name in expected or selection.pattern):
                raise error
            self._mention(f"topic {name} is not available, so its offsets do not advance: {error}")
        found, ids = _selected(selection, [it for it in described.values() if isinstance(it, TopicDescription)])
        if known is None and (lacking := selection.lacking_in(found)):
            self._mention(
                f"nothing is read from {lacking}: no such partition, a topic internal to Kafka, or excluded by the "
                "option 'partitions'"
            )
        return found, ids

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

    async def _offsets(
        self, wanted: Mapping[TopicPartition, int], known: Progress = NOTHING
    ) -> dict[TopicPartition, int]:
        """Replace `LATEST` and `EARLIEST` with offsets. Partitions in ``known`` may be missing in the result."""
        unknown = {tp: OffsetSpec(offset) for tp, offset in wanted.items() if offset < 0}
        found = dict(wanted)
        if unknown:
            asked = await outcomes_of(self._admin.list_offsets(unknown, read_committed=self._read_committed))
            for tp, entry in asked.items():
                if not isinstance(entry, KafkaError):
                    found[tp] = 0 if entry is None else entry.offset
                elif tp in known.offsets and isinstance(entry, MISSING):
                    del found[tp]
                else:
                    raise entry
        return found

    def _mention(self, text: str) -> None:
        """Log a warning at most once in `MENTION_EVERY_S` seconds, because a waiting query looks idle."""
        if (now := time.monotonic()) >= self._mentioned_at + MENTION_EVERY_S:
            self._mentioned_at = now
            _log.warning("%s", text)

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retry a failed request as Spark's connector does, because a topic may be about to be created or deleted."""
        for _ in range(self._attempts - 1):
            try:
                return await ask()
            except KafkaError:
                await anyio.sleep(self._interval_s)
        return await ask()


def _selected(selection: Selection, topics: Iterable[TopicDescription]) -> tuple[set[TopicPartition], dict[str, str]]:
    visible = [topic for topic in topics if not topic.is_internal]
    found = selection.of(
        {TopicPartition(topic.name, entry.partition) for topic in visible for entry in topic.partitions}
    )
    # Brokers before Kafka 2.8 have no topic ids.
    ids = {topic.name: str(topic.topic_id) for topic in visible if topic.topic_id.int}
    return found, {tp.topic: ids[tp.topic] for tp in found if tp.topic in ids}


def _check_complete(given: Mapping[TopicPartition, int], partitions: set[TopicPartition], what: str) -> None:
    if given.keys() != partitions:
        raise ValueError(
            f"{what} must be given for all partitions to read, and no others: given {_names(given)}; to read"
            f" {_names(partitions)}"
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(tp) for tp in sorted(partitions)) or "none"


def find_ranges(options: Mapping[str, str], parsed: SourceOptions) -> tuple[list[OffsetRange], Mapping[str, str]]:
    """Plan a batch query: return the ranges to read, and the ids of their topics by name.

    Raises ValueError for an invalid bound, or `DataLossError`.
    """
    loop = client_loop()
    with admin_client(loop, options) as admin:
        view = ClusterView(admin, parsed, read_committed=read_committed(options))
        return loop.run(_find, view, parsed)


async def _find(view: ClusterView, parsed: SourceOptions) -> tuple[list[OffsetRange], Mapping[str, str]]:
    """Look up both bounds, repeatedly while brokers disagree. Return the ranges and the topic ids."""
    attempts = 1
    while True:
        start = await view.at(parsed.starting, starting=True)
        end = await view.at(parsed.ending, starting=False)
        # They differ if a partition or a topic was created or deleted in between, or a broker lags.
        differ = start.offsets.keys() ^ end.offsets.keys()
        recreated = start.recreated(end)
        if not (differ or recreated) or attempts == parsed.offset_attempts:
            break
        attempts += 1
        await anyio.sleep(parsed.offset_retry_interval_ms / 1000)
    unclear = [*(f"partition {tp}" for tp in sorted(differ)), *(f"topic {topic}" for topic in sorted(recreated))]
    report([f"brokers disagree about {name}, so it is not read" for name in unclear], fail=parsed.fail_on_data_loss)
    start, end = start.without(recreated), end.without(recreated)
    both = sorted(start.offsets.keys() & end.offsets.keys())
    found = [OffsetRange(*tp, start.offsets[tp], end.offsets[tp], is_beginning(parsed.starting, tp)) for tp in both]
    for one in found:
        if one.start > one.until:
            raise ValueError(f"the starting offset of {one.tp} is after its ending offset: {one.start}, {one.until}")
    return [one.within(parsed.from_offset, parsed.until_offset) for one in found], end.topic_ids
