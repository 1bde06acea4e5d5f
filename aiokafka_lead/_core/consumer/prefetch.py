"""Fetched data of all partitions that was not handed out yet; partitions take turns.

A partition's turn lasts for one fetch answer: all its records in that answer are handed out before the next
partition's. The planner of fetches (see `fetch_plan`) bounds the memory, based on `total_bytes`. Decompressed records
that were not handed out have a separate limit: beyond it, waiting partitions drop them, and decompress them again in
their turn.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Hashable
from typing import Any

from ..._values import NamedTuple
from ...errors import KafkaError
from ...errors.base import own_copy
from ...types import TopicPartition
from .chunk import Chunk
from .deserializers import Deserializers
from .fetched import FetchedData, NotLoaded
from .partition_state import PartitionState, Pauser
from .position import Position
from .record_batch import RecordBatch


class BatchAhead(NamedTuple):
    """A batch returned by `look_at_batch`, and the partition's position before it."""

    state: PartitionState
    position: Position
    batch: RecordBatch[Any, Any]


class Prefetch:
    """The queue of partitions with records to hand out, or an error to raise.

    Invariant: a partition is in the queue exactly if ``queued`` is set, and never while it is ``still``.
    Handing data out moves a partition's position, so data that was not taken, for example by a cancelled reader, stays
    here.
    """

    def __init__(
        self, deserializers: Deserializers, on_ready: Callable[[], None], max_decompressed_bytes: float = math.inf
    ) -> None:
        self._max_decompressed_bytes = max_decompressed_bytes
        self._on_ready = on_ready
        """Called when there is data to hand out, or an error to raise."""
        self.total_bytes = 0
        """Received sizes of all held data, including paused partitions."""
        self.deserializers = deserializers
        """Applied to the held records; a reader awaits deserializers that are coroutine functions."""
        self._queue: deque[PartitionState] = deque()
        self._holders: dict[PartitionState, None] = {}
        """Partitions with data here, including paused partitions."""
        self._reports: dict[Hashable, KafkaError] = {}
        """Each subject's error to raise once."""
        self._chunks_bytes = 0
        """Sizes of the partitions' chunks."""
        self._loading: PartitionState | None = None
        """The last partition with a batch that is decompressed elsewhere, and that it may hold decompressed by now."""
        self._loaded: dict[str, int] = {}
        """Each topic's number of records put into chunks, or handed out as batches, minus dropped records."""

    @property
    def records_taken(self) -> int:
        """Number of records that have been handed out."""
        return sum(self.records_by_topic().values())

    def records_by_topic(self) -> dict[str, int]:
        """Return each topic's number of records that have been handed out."""
        taken = dict(self._loaded)
        for state in list(self._holders):
            if state.chunk is not None:
                taken[state.tp.topic] -= state.chunk.left()
        return taken

    def _count(self, state: PartitionState, records: int) -> None:
        topic = state.tp.topic
        self._loaded[topic] = self._loaded.get(topic, 0) + records

    # --- filling -----------------------------------------------------------------------------------------------------

    def add(self, state: PartitionState, data: FetchedData) -> None:
        """Add a partition's records after its held records."""
        state.fetched.append(data)
        state.buffered_bytes += data.size_bytes
        self.total_bytes += data.size_bytes
        self._holders[state] = None
        if state.still:
            data.detach()
        self._enqueue(state)

    def fail(self, state: PartitionState, error: KafkaError) -> None:
        """Raise this error to readers after the partition's records, until the partition's position is set."""
        state.fail(error)
        self._enqueue(state)

    def report(self, about: Hashable, error: KafkaError) -> None:
        """Raise this error to the reader once; it replaces an unraised error about the same subject."""
        self._reports[about] = error
        self._on_ready()

    def drop(self, state: PartitionState) -> None:
        """Drop all data of a partition; call it before its position is set."""
        self._settle(state)
        self.total_bytes -= state.buffered_bytes
        state.buffered_bytes = 0
        state.fetched.clear()
        self._holders.pop(state, None)
        if state.queued:
            state.queued = False
            self._queue.remove(state)

    def pause(self, state: PartitionState, by: Pauser = Pauser.APPLICATION) -> None:
        """Stop handing out records of this partition until `resume`; keep the data."""
        if by in state.paused_by:
            return
        state.pause(by)
        if state.chunk is not None:
            state.chunk = state.chunk.withdraw()
        for data in state.fetched:
            data.detach()
        if state.queued:
            state.queued = False
            self._queue.remove(state)

    def resume(self, state: PartitionState, by: Pauser = Pauser.APPLICATION) -> None:
        """Undo `pause`."""
        if by in state.paused_by:
            state.resume(by)
            if state.fetched or state.error is not None:
                self._enqueue(state)

    def evict(self, wanted: Container[TopicPartition] | None) -> None:
        """Drop data that is not being read, to free memory for ``wanted``; it is fetched again later.

        Drops the records of paused partitions and, if ``wanted`` is not None, of partitions outside it.
        """
        for state in list(self._holders):
            if state.still or (wanted is not None and state.tp not in wanted):
                self.drop(state)
                state.rewind()

    def _enqueue(self, state: PartitionState) -> None:
        if not state.queued and not state.still:
            state.queued = True
            self._queue.append(state)
            self._on_ready()

    # --- handing out -------------------------------------------------------------------------------------------------

    def decode_with(self, deserializers: Deserializers) -> None:
        """Use these deserializers from now on, for held data, too."""
        self.deserializers = deserializers
        for state in self._holders:
            if state.chunk is not None:
                self._give_up(state)

    def chunk(self, wanted: Container[TopicPartition] | None = None) -> Chunk | None:
        """Return the next records, at least one, or None; with ``wanted``, only of these partitions.

        Records taken from the chunk count as handed out. Raises a partition's error in the partition's turn; other
        partitions still get their turns.
        """
        while (state := self._turn(wanted)) is not None:
            if state.chunk is not None:
                if state.chunk.left():
                    return state.chunk
                self._settle(state)
            data = self._data(state)
            if data is None:
                continue
            self._make_room(state)
            try:
                chunk = data.next_chunk(self.deserializers)
            except KafkaError:
                # The error is raised in each turn until a seek, so the other partitions have to get their turns first.
                self._queue.rotate(-1)
                raise
            except NotLoaded:
                self._loading = state
                raise
            if chunk is not None:
                state.chunk = chunk
                self._chunks_bytes += chunk.size_bytes
                self._count(state, len(chunk.records))
                return chunk
            self._finish(state, data)
        return None

    def batch(self, wanted: Container[TopicPartition] | None = None) -> RecordBatch[Any, Any] | None:
        """Return the next batch, which then counts as handed out, or None. Raises errors like `chunk`."""
        found = self._next_batch(wanted)
        return None if found is None else self._hand_out(*found)

    def look_at_batch(self) -> BatchAhead | None:
        """Return the next result of `batch` without handing it out, for a reader that has to wait before.

        Raises errors like `chunk`.
        """
        found = self._next_batch(None)
        if found is None:
            return None
        state, batch = found
        state.fetched[0].restart()
        assert state.position is not None  # data is dropped whenever the position is
        return BatchAhead(state, state.position, batch)

    def take_batch(self, ahead: BatchAhead) -> RecordBatch[Any, Any] | None:
        """Hand out this batch; return None if its partition's position has changed since."""
        state = ahead.state
        if state not in self._holders or state.still or state.position != ahead.position:
            return None
        if state.chunk is not None:
            self._settle(state)
            state.fetched[0].restart()
        return self._hand_out(state, ahead.batch)

    def pass_turn(self, tp: TopicPartition) -> None:
        """Let other partitions be read first if it is the turn of ``tp``, which cannot be read now."""
        if self._queue and self._queue[0].tp == tp:
            self._queue.rotate(-1)

    def _hand_out(self, state: PartitionState, batch: RecordBatch[Any, Any]) -> RecordBatch[Any, Any]:
        state.advance(*batch.end)
        self._count(state, len(batch))
        return batch

    def _next_batch(
        self, wanted: Container[TopicPartition] | None
    ) -> tuple[PartitionState, RecordBatch[Any, Any]] | None:
        while (state := self._turn(wanted)) is not None:
            if state.chunk is not None:
                self._give_up(state)
            data = self._data(state)
            if data is None:
                continue
            self._make_room(state)
            try:
                batch = data.next_batch(self.deserializers)
            except KafkaError:
                self._queue.rotate(-1)
                raise
            except NotLoaded:
                self._loading = state
                raise
            if batch is not None:
                return state, batch
            self._finish(state, data)
        return None

    def raise_report(self) -> None:
        """Raise a reported error, if any."""
        if self._reports:
            raise self._reports.pop(next(iter(self._reports)))

    def _turn(self, wanted: Container[TopicPartition] | None) -> PartitionState | None:
        """Return the partition that has its turn, and move it to the front of the queue."""
        queue = self._queue
        if wanted is not None:
            for index, state in enumerate(queue):
                if state.tp in wanted:
                    queue.rotate(-index)
                    return state
            return None
        return queue[0] if queue else None

    def _data(self, state: PartitionState) -> FetchedData | None:
        """Return the next data of the first partition in the queue; None if the partition has left the queue."""
        if state.fetched:
            return state.fetched[0]
        if state.error is not None:
            self._queue.rotate(-1)
            raise own_copy(state.error)
        self._queue.popleft()
        state.queued = False
        return None

    def _make_room(self, state: PartitionState) -> None:
        """Drop other decompressed data beyond the limit, before more is decompressed for this partition."""
        loading = self._loading
        if loading is not None and loading is not state:
            self._loading = None
            if loading.chunk is None and loading.fetched:
                loading.fetched[0].restart()
        if self._chunks_bytes > self._max_decompressed_bytes:
            for other in list(self._holders):
                if other is not state and self._chunks_bytes > self._max_decompressed_bytes:
                    self._give_up(other)

    def _give_up(self, state: PartitionState) -> None:
        """Drop the decoded records of a partition, but keep their batches."""
        partly_taken = state.chunk is not None and state.chunk.left() > 0
        self._settle(state)
        if partly_taken:
            state.fetched[0].restart()

    def _settle(self, state: PartitionState) -> None:
        """Set the position from the chunk, and end any iteration over the chunk."""
        chunk = state.chunk
        if chunk is not None:
            state.advance(*chunk.position())
            left = chunk.left()
            if left:
                self._count(state, -left)
                chunk.withdraw()
            state.chunk = None
            self._chunks_bytes -= chunk.size_bytes

    def _finish(self, state: PartitionState, data: FetchedData) -> None:
        """Remove an answer's exhausted data and begin the next partition's turn."""
        del state.fetched[0]
        state.buffered_bytes -= data.size_bytes
        self.total_bytes -= data.size_bytes
        if not state.fetched:
            del self._holders[state]
        state.touch()
        self._queue.rotate(-1)
