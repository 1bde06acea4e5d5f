"""Reader of complete ranges of offsets, even during leader changes, which detects lost records.

A range is complete when the consumer's position has passed its last offset. There may be no record at this offset,
because compaction, aborted transactions and control records leave gaps.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

import anyio

from ... import errors
from ...consumer import Consumer
from ...types import TopicPartition
from .clients import CHUNK_RECORDS
from .columns import Piece
from .progress import recreation, report
from .ranges import OffsetRange

_log = logging.getLogger("aiokafka_lead.spark")

T = TypeVar("T")

FIRST_WAIT_S, LONGEST_WAIT_S = 0.01, 0.5
"""First and maximum time in seconds of waiting for records before positions are checked; it doubles each time."""

ASK_AFTER_S = 1.0
"""Seconds without progress after which the reader requests the end offsets, to see if the range still exists."""

ANSWERS, ASK_AGAIN_S = 3, 0.5
"""Number of consecutive responses, and the interval in seconds between them, after which a log counts as truncated."""


class RangeReader:
    """Reads ranges of offsets with its own consumer. Must be used on the client loop.

    ``_current`` maps the partitions that the consumer reads to their current ranges; all other assigned partitions are
    paused. ``_later`` contains further ranges of the same partitions.
    """

    def __init__(
        self,
        consumer: Consumer,
        ranges: Iterable[OffsetRange],
        topic_ids: Mapping[str, str],
        *,
        fail_on_data_loss: bool,
        timeout_ms: float,
        loss_timeout_ms: float,
    ) -> None:
        """Create a reader.

        ``topic_ids`` are the topics' ids at the time of planning, if known. The reader fails after ``timeout_ms``
        without progress. If brokers report for ``loss_timeout_ms`` that a partition does not exist, it counts as lost.
        If they deny access for that time, the reader raises their error.
        """
        self._consumer = consumer
        self._fail_on_data_loss = fail_on_data_loss
        self._timeout_s = timeout_ms / 1000
        self._loss_timeout_s = loss_timeout_ms / 1000
        self._later: dict[TopicPartition, deque[OffsetRange]] = defaultdict(deque)
        for found in sorted(ranges):
            self._later[found.tp].append(found)
        self._topic_ids = {topic: UUID(text) for topic, text in topic_ids.items()}
        self._other_topic: str | None = None
        """A topic that may have been recreated, because the consumer has received a batch with another topic id."""
        self._held: errors.KafkaError | None = None
        """Error of the consumer, which is raised once the earlier records have been returned."""
        self._current: dict[TopicPartition, OffsetRange] = {}
        self._paused = 0
        """Number of assigned partitions whose ranges are complete."""
        self._reached: dict[TopicPartition, int] = {}
        """Offset after the last returned record of each assigned partition."""
        self._wait_s = FIRST_WAIT_S
        self._advanced_at = time.monotonic()
        """Monotonic time at which any position last advanced."""
        self._asked_at = self._advanced_at
        self._is_denied = False
        """True if brokers have reported a missing partition, or denied access, since the last progress."""
        self._shorter: Counter[TopicPartition] = Counter()
        """Number of consecutive answers in which the log ends before the range."""

    async def begin(self) -> None:
        """Assign all partitions and seek to the starts of their first ranges."""
        self._consumer.assign(list(self._later))
        for tp in list(self._later):
            self._next_range(tp)
        # A consumer that an earlier task used may have old metadata.
        for topic in {tp.topic for tp in self._current}:
            if self._is_another(topic):
                await self._doubt(topic)

    async def end(self) -> None:
        """Remove the consumer's assignment, so that another task can use the consumer."""
        self._consumer.unsubscribe()

    async def chunk(self) -> list[Piece] | None:
        """Return the next records, an empty list if none have arrived yet, or None if all ranges are complete.

        Raises `DataLossError` if records are lost and ``fail_on_data_loss`` is set. Raises TimeoutError after
        ``timeout_ms`` without progress.
        """
        if not self._current:
            return None
        try:
            return await self._advance()
        except (errors.TopicAuthorizationFailedError, errors.UnknownTopicOrPartitionError) as error:
            # A broker may have old metadata, or an ACL may be withdrawn temporarily, so retry.
            if time.monotonic() >= self._advanced_at + self._loss_timeout_s:
                if isinstance(error, errors.TopicAuthorizationFailedError):
                    raise
                await self._give_up_absent()
                return []
            if not self._is_denied:
                self._is_denied = True
                _log.warning("retrying for up to %g s: %s", self._loss_timeout_s, error)
            await anyio.sleep(ASK_AGAIN_S)
            return []

    async def _advance(self) -> list[Piece]:
        """Return the next records, and complete ranges whose ends have been reached."""
        try:
            pieces = await self._collect()
        except errors.FetchOffsetOutOfRangeError as error:
            await self._out_of_range(TopicPartition(error.topic, error.partition))
            return []
        if pieces:
            self._advanced()
        elif self._other_topic is not None:
            await self._doubt(self._other_topic)
        elif not self._pass_ends():
            await self._stalled()
        return pieces

    async def _collect(self) -> list[Piece]:
        """Return the available batches, or the first to arrive within `_wait_s` seconds."""
        if self._held is not None:
            error, self._held = self._held, None
            raise error
        self._other_topic = None
        pieces: list[Piece] = []
        count = 0
        batches = self._consumer.batches()
        deadline = anyio.current_time() + self._wait_s
        with anyio.CancelScope(deadline=deadline) as scope:
            while count < CHUNK_RECORDS and self._current:
                try:
                    batch = await anext(batches)
                except errors.KafkaError as error:
                    if not pieces:
                        raise
                    self._held = error  # raised later; raising it now would lose the records in pieces
                    break
                tp = batch.topic_partition
                if self._is_another(tp.topic):
                    self._other_topic = tp.topic
                    self._seek(tp, self._reached[tp])
                    break
                self._reached[tp] = batch.next_offset
                until = self._current[tp].until
                within = len(batch) if batch.next_offset <= until else bisect_left(batch.offsets, until)
                if within:
                    pieces.append((batch, within))
                    count += within
                if batch.next_offset >= until:
                    self._next_range(tp)
                # From now on, take only batches that are already fetched.
                scope.deadline = min(deadline, anyio.current_time())
        return pieces

    def _next_range(self, tp: TopicPartition) -> None:
        """Seek to the next range of a partition, or leave the partition if there is none."""
        del self._shorter[tp]
        if self._later[tp]:
            self._current[tp] = self._later[tp].popleft()
            self._seek(tp, self._current[tp].start)
        else:
            self._leave(tp)

    def _leave(self, tp: TopicPartition) -> None:
        """Stop reading a partition.

        At first, the partition is only paused, because the time of a new assignment grows with the number of
        partitions. Once half of the assigned partitions are complete, all of these are removed from the assignment.
        """
        del self._current[tp]
        self._paused += 1
        if self._paused >= len(self._current):
            self._assign()
        else:
            self._consumer.seek(tp, self._reached[tp])  # discards fetched records after the range
            self._consumer.pause(tp)

    def _assign(self) -> None:
        """Assign to the consumer only the partitions whose ranges are incomplete."""
        self._paused = 0
        self._consumer.assign(list(self._current))

    def _seek(self, tp: TopicPartition, offset: int) -> None:
        self._reached[tp] = offset
        self._consumer.seek(tp, offset)

    def _advanced(self) -> None:
        self._wait_s = FIRST_WAIT_S
        self._is_denied = False
        self._advanced_at = self._asked_at = time.monotonic()

    def _pass_ends(self) -> bool:
        """Complete ranges whose remaining offsets have no records. Return False if there are no such ranges."""
        metrics = self._consumer.metrics().partitions
        passed = [
            tp
            for tp, found in self._current.items()
            if (position := metrics[tp].position) is not None and position >= found.until
        ]
        for tp in passed:
            self._next_range(tp)
        if passed:
            self._advanced()
        return bool(passed)

    async def _stalled(self) -> None:
        """Increase the wait, and check from time to time that the remaining offsets of the ranges exist."""
        self._wait_s = min(LONGEST_WAIT_S, self._wait_s * 2)
        self._check_time_left()
        if (now := time.monotonic()) >= self._asked_at + (ASK_AGAIN_S if self._shorter else ASK_AFTER_S):
            self._asked_at = now
            ends = await self._ask(self._consumer.end_offsets(list(self._current)))
            for tp, end in (ends or {}).items():
                # With read_committed, the end is the last stable offset. Records after it may exist.
                stored = max(end, self._consumer.highwater(tp) or 0)
                if stored >= self._current[tp].until or await self._consumer.position(tp) < end:
                    del self._shorter[tp]
                elif self._confirmed_shorter(tp):
                    until = self._current[tp].until
                    self._lost(f"partition {tp} was truncated: it ends at offset {end}, not at {until}")
                    self._next_range(tp)

    async def _out_of_range(self, tp: TopicPartition) -> None:
        """Handle a position outside of the log: retention has deleted records, or the log has been truncated."""
        found = self._current[tp]
        position = await self._consumer.position(tp)
        log = await self._ask(self._ends_of_log(tp))
        if log is None:
            return  # the next fetch raises the error again
        first, end = log
        if position < first:
            gone = min(first, found.until) - 1
            loss = (
                f"offsets {position} to {gone} of {tp} are gone because of retention or deletion; the log begins at"
                f" {first}"
            )
            # If the log begins after the range, the plan is old. That is an error, because an old DataFrame would
            # otherwise seem to be empty.
            if found.from_beginning and position == found.start and first <= found.until:
                _log.warning("%s; reading from the new beginning", loss)
            else:
                self._lost(loss)
        elif position < end or not self._confirmed_shorter(tp):
            # The error came from a former leader, or the current leader does not have the records yet.
            await anyio.sleep(ASK_AGAIN_S)
            self._check_time_left()
            self._seek(tp, position)
            return
        else:
            self._lost(f"partition {tp} was truncated or recreated: it ends at offset {end}, before {position}")
            first = found.until
        if first < found.until:
            self._seek(tp, first)
        else:
            self._next_range(tp)
        self._advanced()

    def _is_another(self, topic: str) -> bool:
        """Return True if the topic's id in the consumer's metadata differs from the id at the time of planning."""
        planned = self._topic_ids.get(topic)
        if planned is None:
            return False
        found = self._consumer._client.metadata.snapshot.topic_id(topic)
        return found.int != 0 and found != planned  # 0 if the consumer has no metadata of the topic yet

    async def _doubt(self, topic: str) -> None:
        """Request metadata until it is clear whether the topic was recreated. If so, give up its ranges."""
        metadata = self._consumer._client.metadata
        enough = metadata.full_answers + ANSWERS - 1
        while (another := self._is_another(topic)) and metadata.full_answers < enough:
            self._check_time_left()
            metadata.request_update()
            await anyio.sleep(ASK_AGAIN_S)
        if another:
            self._lost(recreation(topic))
            self._advanced()
        for tp in [tp for tp in self._current if tp.topic == topic]:
            if another:
                del self._later[tp]
                self._next_range(tp)
            else:
                self._seek(tp, self._reached[tp])  # discards fetched records of the other topic
        if another:
            self._assign()
        self._check_time_left()

    async def _give_up_absent(self) -> None:
        """Give up the ranges of partitions that do not exist. A partition without a leader still exists."""
        for topic in {tp.topic for tp in self._current}:
            present: frozenset[int] | None = frozenset()
            with suppress(errors.UnknownTopicOrPartitionError):
                present = await self._ask(self._consumer.partitions_for_topic(topic, timeout_ms=ASK_AFTER_S * 1000))
            if present is None:
                continue
            for tp in [tp for tp in self._current if tp.topic == topic and tp.partition not in present]:
                self._lost(f"partition {tp} has been missing for {self._loss_timeout_s:g} s: no broker knows it")
                del self._later[tp]
                self._next_range(tp)
                self._advanced()
        self._assign()  # otherwise the consumer would report the missing topics again

    def _confirmed_shorter(self, tp: TopicPartition) -> bool:
        self._shorter[tp] += 1
        return self._shorter[tp] >= ANSWERS

    async def _ends_of_log(self, tp: TopicPartition) -> tuple[int, int]:
        first = await self._consumer.beginning_offsets([tp])
        return first[tp], (await self._consumer.end_offsets([tp]))[tp]

    async def _ask(self, question: Awaitable[T]) -> T | None:
        """Await a request and return its result, or None after a retriable error.

        Raises TimeoutError after ``timeout_ms`` without progress.
        """
        with anyio.move_on_after(self._advanced_at + self._timeout_s - time.monotonic()):
            try:
                return await question
            except errors.KafkaError as error:
                if isinstance(error, errors.UnknownTopicOrPartitionError) or not error.retriable:
                    raise
        self._check_time_left()
        return None

    def _check_time_left(self) -> None:
        if time.monotonic() >= self._advanced_at + self._timeout_s:
            waiting = ", ".join(self._described(found) for _, found in sorted(self._current.items()))
            raise TimeoutError(f"no progress for {self._timeout_s:g} s (kafkaConsumer.pollTimeoutMs): {waiting}")

    def _described(self, found: OffsetRange) -> str:
        """Describe an incomplete range for a message, with the open transaction that delays it, if any."""
        stable, stored = self._consumer.last_stable_offset(found.tp), self._consumer.highwater(found.tp)
        text = f"{found.tp} up to {found.until}"
        if stable is None or stored is None or not stable < found.until <= stored:
            return text
        return f"{text} (a transaction that began at offset {stable} is still open)"

    def _lost(self, loss: str) -> None:
        report([loss], fail=self._fail_on_data_loss)
