"""Reserves a consumer for a run, takes and deserializes its records, and finds the ends of retry partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from ..._core.consumer.chunk import Chunk
from ..._core.consumer.deserializers import Deserializers
from ..._core.consumer.in_hand import ParallelWork
from ..._core.consumer.reading import Reading
from ..._core.consumer.reset_policy import LATEST_TIMESTAMP
from ..._core.run.following import Following, Scan
from ..._core.run.later import Closed, RetryTopics
from ..._core.run.work import Work
from ..._core.tracing import RunTracing
from ..._options.logs import ClientLog
from ..._records import ConsumerRecord
from ...errors import KafkaError, UnknownTopicOrPartitionError
from ...types import OffsetAndMetadata, TopicPartition
from ..consumer.deserializing import of_application
from ..consumer.reader import Reader
from ..deadline import Deadline
from ..loop import Waiter
from .routing import Routing

if TYPE_CHECKING:
    from ..consumer.engine import ConsumerEngine


Record = ConsumerRecord[Any, Any]

COMMIT_AGAIN_S = 43_200.0
"""Interval in seconds at which unchanged positions in retry partitions are committed again.

Brokers delete offsets of topics to which no member subscribes, by default after a week. Without these commits, all
records of the topics would then be handled again.
"""


class _Run(ParallelWork, Protocol):
    def stuck_since(self) -> float | None: ...


def begin(engine: ConsumerEngine[Any, Any]) -> bool:
    """Return True if a run may begin, and False if the consumer was stopped. Raises the errors of reads."""
    if engine.reader.stopped:
        return False
    engine.check_reading()
    return True


@contextmanager
def in_charge(
    engine: ConsumerEngine[Any, Any], run: _Run, tracing: RunTracing | None, ended: Waiter[None]
) -> Iterator[None]:
    """In the block, let only this run commit and deserialize the consumer's records. Set ``ended`` at the end."""
    prefetch = engine.reading.prefetch
    deserializers = prefetch.deserializers
    engine.run.work = run
    prefetch.decode_with(Deserializers())
    engine.progress.oldest_work = run.stuck_since
    listener = engine.reader.replace_listener(None)
    try:
        yield
    finally:
        engine.reader.replace_listener(listener)
        engine.run.work = None
        engine.progress.oldest_work = None
        engine.progress.progressed(time.monotonic())
        prefetch.decode_with(deserializers)
        if tracing is not None:
            tracing.drop()
        ended.set_result(None)


class Intake:
    """Takes records from a consumer. In retry topics, it takes only records that are due."""

    def __init__(
        self,
        reading: Reading,
        reader: Reader[Any, Any],
        retry_topics: RetryTopics | None,
        following: Following | None = None,
        on_scan: Callable[[dict[TopicPartition, Scan]], None] = lambda scans: None,
    ) -> None:
        """Take records from ``reader``.

        ``on_scan`` is called with scans of retry partitions whose ends must be looked up.
        """
        self._reading = reading
        self._reader = reader
        self._retry_topics = retry_topics
        self._closed = Closed(_never if retry_topics is None else retry_topics.due_ms, time.monotonic)
        self._following = following
        self._on_scan = on_scan
        self._assignment: object = None
        """The assignment that was last passed to `_following`."""

    async def take(self, work: Work, most_ms: float, room: int, *, from_all: bool = False) -> int:
        """Add up to ``room`` records to ``work``, and return their number, or 0 if none arrived within ``most_ms``.

        If ``from_all`` is True, also take from partitions of which ``work`` has enough records.
        """
        if self._retry_topics is None:
            return self._add(work, await self._reader.getmany(None if from_all else work, most_ms, room))
        wanted = _Open(partial(self._may_take, None if from_all else work))
        deadline = Deadline(most_ms)
        while True:
            self._begin_scans()
            taken = await self._reader.getmany(wanted, 0, room, self._due)
            count = self._add(work, {tp: self._to_handle(tp, records) for tp, records in taken.items()})
            if self._end_scans() or taken:
                if count:
                    return count
                continue
            deadline.bring_forward(self._closed.opens_in_s(time.time()) * 1000 + 1)
            if not await self._reader.wait(wanted, deadline):
                return 0

    def _due(self, chunk: Chunk) -> int:
        """Return how many of the chunk's next records may be taken now. Those in retry topics may not be due yet."""
        tp, following, retry_topics = chunk.tp, self._following, self._retry_topics
        if retry_topics is None or tp.topic not in retry_topics or (following is not None and following.reads(tp)):
            return chunk.left()
        return self._closed.due(tp, chunk.ahead(), time.time())

    def _to_handle(self, tp: TopicPartition, records: list[Record]) -> list[Record]:
        """Return the records of a partition to handle now. Records read for a scan are taken again later."""
        following = self._following
        if following is None:
            return records
        if following.reads(tp):
            following.found(records)
            return []
        following.taken(records)
        return records

    def _may_take(self, work: Work | None, tp: TopicPartition) -> bool:
        following, positions, retry_topics = self._following, self._reading.positions, self._retry_topics
        if following is not None:
            if positions.by_topic is not self._assignment:
                return False  # the partition may have been assigned again, and must then be scanned first
            if not following.is_open(tp):
                return following.reads(tp)
        if retry_topics is not None and tp.topic in retry_topics:
            state = positions.get(tp)
            if state is not None and self._closed.is_closed(tp, state.position, time.time()):
                return False
        return work is None or tp in work

    def _begin_scans(self) -> None:
        """Start to scan newly assigned retry partitions from their positions to their ends."""
        following, positions = self._following, self._reading.positions
        if following is None:
            return
        if positions.by_topic is not self._assignment:  # the set is replaced at each change
            self._assignment = positions.by_topic
            new = following.assigned(positions)
            if new:
                self._on_scan(new)
        for tp in following.scans():
            state = positions.get(tp)
            if state is not None and state.position is not None:
                following.starts_at(tp, state.position)

    def end(self) -> None:
        """Move partitions with unfinished scans back to the start, because the scanned records were not handled."""
        following, positions = self._following, self._reading.positions
        if following is not None:
            following.assigned(positions)
            for tp, start in following.starts().items():
                self._reading.move(positions.require(tp), start)

    def _end_scans(self) -> bool:
        """Move partitions with finished scans back to the start. Return True if there are any."""
        following, positions = self._following, self._reading.positions
        ended = False
        if following is not None and positions.by_topic is self._assignment:
            for tp in following.scans():
                state = positions.get(tp)
                start = None if state is None else following.scanned(tp, state.position)
                if state is not None and start is not None:
                    ended = True
                    if start != state.position:
                        self._reading.move(state, start)
        return ended

    def standing_still(self, work: Work) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions up to which all records of retry partitions are done, even if they have not changed.

        Returns an empty dict during scans, whose positions are ahead.
        """
        if self._retry_topics is None or (self._following is not None and any(self._following.scans())):
            return {}
        # Includes partitions of earlier assignments.
        done = {partition.state: position for partition, position in work.done()}
        found = {state.tp: done.get(state, state.position) for state in self._reading.positions.companions}
        return {tp: position.to_commit() for tp, position in found.items() if position is not None}

    def _add(self, work: Work, taken: Mapping[TopicPartition, list[Record]]) -> int:
        count = 0
        for tp, records in taken.items():
            if records:
                state = self._reading.positions.require(tp)
                position = state.position
                assert position is not None  # records have just been taken from it
                work.add(state, records, position)
                count += len(records)
        return count


def _never(record: Record, now_ms: float) -> float:
    raise AssertionError("there are no retry topics")


class _Open:
    """A container of the partitions from which records may be taken now, for `Reader.getmany`."""

    def __init__(self, may_take: Callable[[TopicPartition], bool]) -> None:
        self._may_take = may_take

    def __contains__(self, tp: object) -> bool:
        assert isinstance(tp, TopicPartition)
        return self._may_take(tp)


async def deserialized(record: Record, by: Deserializers) -> Record:
    """Return the record with its key and value deserialized by the application's deserializers.

    Raises `RecordDeserializationError`.
    """
    if by.plain:
        return record
    if by.waits:
        return await of_application(record, by)
    records, error = by.apply([record])
    if error is not None:
        raise error
    return records[0]


ENDS_TOGETHER_MS = 2_000.0
"""Time limit in milliseconds for finding the ends of several retry partitions in one query."""


class RetryEnds:
    """Finds the ends of retry partitions, to which each is read before any record of its partition is handled.

    It uses tasks of the client. A task ends when its partitions are no longer assigned.
    """

    def __init__(self, engine: ConsumerEngine[object, object], routing: Routing, log: ClientLog) -> None:
        self._engine = engine
        self._routing = routing
        self._log = log

    def find(self, scans: dict[TopicPartition, Scan]) -> None:
        """Find the ends for these scans. The partitions of a scan's family wait until its end is known."""
        self._engine.client.spawn(self._find, scans, name="kafka retry partitions")

    async def _find(self, scans: dict[TopicPartition, Scan]) -> None:
        """Find the ends for these scans, with retries, until they are found or no partition is assigned any longer."""
        engine = self._engine
        while left := [tp for tp in scans if tp in engine.reading.positions]:
            try:
                ends = await self._ends(left)
            except KafkaError as error:
                if len(left) > 1:
                    for tp in left:  # so that a partition without a leader delays only its own family
                        self.find({tp: scans[tp]})
                    return
                self._log.warning("the end of a retry partition is not known yet: %s", error)
                await anyio.sleep(engine.config.retry_backoff_max_ms / 1000)
                continue
            for tp, end in ends.items():
                scans[tp].ends_at(end)
            if ends:
                engine.reader.wake.set()
                return

    async def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of retry partitions. If partitions did not exist, create them and return {}.

        An end lies after the records of open transactions. The partition's previous owner may have sent them together
        with the offsets from which this consumer continues.
        """
        wanted = dict.fromkeys(partitions, LATEST_TIMESTAMP)
        within_ms = self._engine.config.default_api_timeout_ms
        if len(partitions) > 1:
            within_ms = min(within_ms, ENDS_TOGETHER_MS)
        try:
            found = await self._engine.queries.offsets(wanted, within_ms, read_committed=False)
        except UnknownTopicOrPartitionError:
            await self._routing.make_retry_topics({tp.topic for tp in partitions})
            return {}
        return {tp: end.offset for tp, end in found.items()}
