"""The reading part of a Spark task: reads its ranges, despite leader changes, and recognises their ends.

A range ends when the position has passed its last offset, even without a record there: compaction, aborted transactions
and control records leave gaps, also at the end.
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

from ...consumer import Consumer
from ...errors import (
    FetchOffsetOutOfRangeError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from ...types import TopicPartition
from .clients import CHUNK_RECORDS
from .columns import Piece
from .progress import recreation, report
from .ranges import OffsetRange

_log = logging.getLogger("aiokafka_lead.spark")

T = TypeVar("T")

FIRST_WAIT_S, LONGEST_WAIT_S = 0.01, 0.5
"""Seconds of a wait for records, after which positions are checked: the first, and the maximum to which they grow."""

ASK_AFTER_S = 1.0
"""Seconds without progress after which the cluster is asked whether the offsets still exist."""

ANSWERS, ASK_AGAIN_S = 3, 0.5
"""A log counts as shorter after this many consecutive answers, at least this far apart."""


class RangeReader:
    """Reads ranges with a separate consumer. Use it on the client loop.

    Invariant: the consumer reads the keys of ``_current``, each with its current range; other assigned partitions are
    paused. ``_later`` has further ranges of the same partitions.
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
        """Read with this consumer. ``topic_ids`` are the ids of the topics when the ranges were planned, if known.

        ``timeout_ms`` without any progress is an error. If brokers deny for ``loss_timeout_ms`` that a partition exists
        or may be read, it counts as lost, or as an error.
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
        """A topic of which a batch has arrived that may be another topic's under the same name."""
        self._held: KafkaError | None = None
        """The consumer's next error, if records arrived before it."""
        self._current: dict[TopicPartition, OffsetRange] = {}
        self._paused = 0
        """Number of partitions that are still assigned although their ranges have ended."""
        self._reached: dict[TopicPartition, int] = {}
        """The offset after the last record that was returned, for each of these."""
        self._wait_s = FIRST_WAIT_S
        self._advanced_at = time.monotonic()
        """Time of the last progress of a position."""
        self._asked_at = self._advanced_at
        self._is_denied = False
        """True if brokers have denied a partition, or access to it, since the last progress."""
        self._shorter: Counter[TopicPartition] = Counter()
        """Number of consecutive answers in which a log ends before its range."""

    async def begin(self) -> None:
        """Assign all partitions and seek to the starts of their first ranges."""
        self._consumer.assign(list(self._later))
        for tp in list(self._later):
            self._next_range(tp)
        # A consumer that was used before may know older topics.
        for topic in {tp.topic for tp in self._current}:
            if self._is_another(topic):
                await self._doubt(topic)

    async def end(self) -> None:
        """Reset the consumer."""
        self._consumer.unsubscribe()

    async def chunk(self) -> list[Piece] | None:
        """Return the next records; an empty list if none have arrived yet, None at the end of all ranges.

        Raises `DataLossError` if records are lost and ``fail_on_data_loss`` is set, and TimeoutError after
        ``timeout_ms`` without any progress.
        """
        if not self._current:
            return None
        try:
            return await self._advance()
        except (TopicAuthorizationFailedError, UnknownTopicOrPartitionError) as error:
            # An ACL may be withdrawn and given back, and a broker may lag: one answer does not end a stream.
            if time.monotonic() >= self._advanced_at + self._loss_timeout_s:
                if isinstance(error, TopicAuthorizationFailedError):
                    raise
                await self._give_up_absent()
                return []
            if not self._is_denied:
                self._is_denied = True
                _log.warning("trying again for %g s: %s", self._loss_timeout_s, error)
            await anyio.sleep(ASK_AGAIN_S)
            return []

    async def _advance(self) -> list[Piece]:
        """Return the next records, and pass the ends of ranges."""
        try:
            pieces = await self._collect()
        except FetchOffsetOutOfRangeError as error:
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
        """Return available batches, or the first to arrive within the wait."""
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
                except KafkaError as error:
                    if not pieces:
                        raise
                    self._held = error  # raising it now would lose these records
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
                # From here on only data that has already been fetched.
                scope.deadline = min(deadline, anyio.current_time())
        return pieces

    def _next_range(self, tp: TopicPartition) -> None:
        """Continue with the partition's next range, or without the partition."""
        del self._shorter[tp]
        if self._later[tp]:
            self._current[tp] = self._later[tp].popleft()
            self._seek(tp, self._current[tp].start)
        else:
            self._leave(tp)

    def _leave(self, tp: TopicPartition) -> None:
        """Read no more of this partition.

        An assignment takes time for each partition that stays, so there is one for every halving of their number.
        """
        del self._current[tp]
        self._paused += 1
        if self._paused >= len(self._current):
            self._assign()
        else:
            self._consumer.seek(tp, self._reached[tp])  # drops the records fetched after the range
            self._consumer.pause(tp)

    def _assign(self) -> None:
        """Assign only the partitions that are still read."""
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
        """End the ranges whose last offsets have no records; return False if there are none."""
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
        """Wait longer after a pause, and check that the awaited offsets exist."""
        self._wait_s = min(LONGEST_WAIT_S, self._wait_s * 2)
        self._check_time_left()
        if (now := time.monotonic()) >= self._asked_at + (ASK_AGAIN_S if self._shorter else ASK_AFTER_S):
            self._asked_at = now
            ends = await self._ask(self._consumer.end_offsets(list(self._current)))
            for tp, end in (ends or {}).items():
                # With read_committed, the end is the start of the first open transaction, whose records are not lost.
                stored = max(end, self._consumer.highwater(tp) or 0)
                if stored >= self._current[tp].until or await self._consumer.position(tp) < end:
                    del self._shorter[tp]
                elif self._confirmed_shorter(tp):
                    self._lost(f"partition {tp} ends at offset {end}, not at {self._current[tp].until}")
                    self._next_range(tp)

    async def _out_of_range(self, tp: TopicPartition) -> None:
        """Handle an offset that no longer exists: retention removed it, or the log was truncated."""
        found = self._current[tp]
        position = await self._consumer.position(tp)
        log = await self._ask(self._ends_of_log(tp))
        if log is None:
            return  # the error is raised again
        first, end = log
        if position < first:
            gone = min(first, found.until) - 1
            loss = f"offsets {position} to {gone} of {tp} are gone: retention or deletion, the log begins at {first}"
            # A log that begins after the range means an old plan: a kept DataFrame must not look empty.
            if found.from_beginning and position == found.start and first <= found.until:
                _log.warning("%s; the query reads from the beginning of the log", loss)
            else:
                self._lost(loss)
        elif position < end or not self._confirmed_shorter(tp):
            # An earlier leader refused the offset, or the current leader lags.
            await anyio.sleep(ASK_AGAIN_S)
            self._check_time_left()
            self._seek(tp, position)
            return
        else:
            self._lost(f"partition {tp} ends at offset {end}, before {position}: its log was cut or the topic is new")
            first = found.until
        if first < found.until:
            self._seek(tp, first)
        else:
            self._next_range(tp)
        self._advanced()

    def _is_another(self, topic: str) -> bool:
        """Return True if the consumer knows another topic of this name than the planner."""
        planned = self._topic_ids.get(topic)
        if planned is None:
            return False
        found = self._consumer._client.metadata.snapshot.topic_id(topic)
        return found.int != 0 and found != planned  # 0 without metadata yet

    async def _doubt(self, topic: str) -> None:
        """End the topic's ranges if it was recreated; go on with them if only a broker lags."""
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
                self._seek(tp, self._reached[tp])  # what was fetched is the other topic's
        if another:
            self._assign()  # without the topic
        self._check_time_left()

    async def _give_up_absent(self) -> None:
        """End the ranges of partitions that the cluster lacks. A partition without a leader still exists."""
        for topic in {tp.topic for tp in self._current}:
            present: frozenset[int] | None = frozenset()
            with suppress(UnknownTopicOrPartitionError):
                present = await self._ask(self._consumer.partitions_for_topic(topic, timeout_ms=ASK_AFTER_S * 1000))
            if present is None:
                continue
            for tp in [tp for tp in self._current if tp.topic == topic and tp.partition not in present]:
                self._lost(f"partition {tp} is gone, for {self._loss_timeout_s:g} s now: no broker knows it")
                del self._later[tp]
                self._next_range(tp)
                self._advanced()
        self._assign()  # without topics that are gone, whose absence the consumer would report again

    def _confirmed_shorter(self, tp: TopicPartition) -> bool:
        self._shorter[tp] += 1
        return self._shorter[tp] >= ANSWERS

    async def _ends_of_log(self, tp: TopicPartition) -> tuple[int, int]:
        first = await self._consumer.beginning_offsets([tp])
        return first[tp], (await self._consumer.end_offsets([tp]))[tp]

    async def _ask(self, question: Awaitable[T]) -> T | None:
        """Return the answer, or None if brokers cannot answer at the moment.

        Raises TimeoutError after ``timeout_ms`` without any progress.
        """
        with anyio.move_on_after(self._advanced_at + self._timeout_s - time.monotonic()):
            try:
                return await question
            except KafkaError as error:
                if isinstance(error, UnknownTopicOrPartitionError) or not error.retriable:
                    raise
        self._check_time_left()
        return None

    def _check_time_left(self) -> None:
        if time.monotonic() >= self._advanced_at + self._timeout_s:
            waiting = ", ".join(self._described(found) for _, found in sorted(self._current.items()))
            raise TimeoutError(f"no progress for {self._timeout_s:g} s (kafkaConsumer.pollTimeoutMs): {waiting}")

    def _described(self, found: OffsetRange) -> str:
        """Return the rest of a range as text, with the reason that it cannot be read yet, if known."""
        stable, stored = self._consumer.last_stable_offset(found.tp), self._consumer.highwater(found.tp)
        text = f"{found.tp} up to {found.until}"
        if stable is None or stored is None or not stable < found.until <= stored:
            return text
        return f"{text} (its transaction from offset {stable} on is still open)"

    def _lost(self, loss: str) -> None:
        report([loss], fail=self._fail_on_data_loss)
