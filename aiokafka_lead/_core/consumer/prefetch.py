"""Fetched data of all partitions that has not been handed out yet.

The partitions take turns. A turn lasts for one Fetch response: all of a partition's records from that response are
handed out before the next partition's turn. The fetch planner bounds the memory, based on `total_bytes` (see
`fetch_plan`). Decompressed records have a separate limit. Beyond it, waiting partitions drop their decompressed
records, and decompress them again when it is their turn.
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
    """A batch that `look_at_batch` returned, and the partition's position before it."""

    state: PartitionState
    position: Position
    batch: RecordBatch[Any, Any]


class Prefetch:
    """Queues the partitions that have records to hand out, or an error to raise.

    Invariant: a partition is in the queue if and only if ``queued`` is set, and never while it is ``still``. The
    partition's position moves only as records are taken. Data that is not taken, for example because the reader was
    cancelled, therefore stays in the queue.
    """

    def __init__(
        self, deserializers: Deserializers, on_ready: Callable[[], None], max_decompressed_bytes: float = math.inf
    ) -> None:
        self._max_decompressed_bytes = max_decompressed_bytes
        self._on_ready = on_ready
        """Called when there are records to hand out, or an error to raise."""
        self.total_bytes = 0
        """Size in bytes of all data, as received. Includes the data of paused partitions."""
        self.deserializers = deserializers
        """The application's deserializers. If they are coroutine functions, the reader awaits them instead."""
        self._queue: deque[PartitionState] = deque()
        self._holders: dict[PartitionState, None] = {}
        """Partitions that have data here, including paused partitions."""
        self._reports: dict[Hashable, KafkaError] = {}
        """Errors to raise once, each under its subject."""
        self._chunks_bytes = 0
        """Total size in bytes of the partitions' decoded records."""
        self._loading: PartitionState | None = None
        """The last partition that had a batch to be decompressed in a thread.

        It may now hold the decompressed batch.
        """
        self._loaded: dict[str, int] = {}
        """Number of records decoded or handed out as batches, minus the number dropped, for each topic."""

    @property
    def records_taken(self) -> int:
        """Number of records handed out so far."""
        return sum(self.records_by_topic().values())

    def records_by_topic(self) -> dict[str, int]:
        """Return the number of records handed out, by topic."""
        taken = dict(self._loaded)
        for state in list(self._holders):
            if state.chunk is not None:
                taken[state.tp.topic] -= state.chunk.left()
        return taken

    def _count(self, state: PartitionState, records: int) -> None:
        topic = state.tp.topic
        self._loaded[topic] = self._loaded.get(topic, 0) + records

    # --- adding and dropping data ------------------------------------------------------------------------------------

    def add(self, state: PartitionState, data: FetchedData) -> None:
        """Append the data of a response to the partition's data."""
        state.fetched.append(data)
        state.buffered_bytes += data.size_bytes
        self.total_bytes += data.size_bytes
        self._holders[state] = None
        if state.still:
            # Records of a paused partition may stay for a long time.
            data.detach()
        self._enqueue(state)

    def fail(self, state: PartitionState, error: KafkaError) -> None:
        """Raise this error to readers after the partition's records.

        It is raised in every turn until the partition's position is set.
        """
        state.fail(error)
        self._enqueue(state)

    def report(self, about: Hashable, error: KafkaError) -> None:
        """Raise this error to the reader once. It replaces an earlier error about the same subject."""
        self._reports[about] = error
        self._on_ready()

    def drop(self, state: PartitionState) -> None:
        """Drop all data of a partition. Must be called before its position is set."""
        self._settle(state)
        self.total_bytes -= state.buffered_bytes
        state.buffered_bytes = 0
        state.fetched.clear()
        self._holders.pop(state, None)
        if state.queued:
            state.queued = False
            self._queue.remove(state)

    def pause(self, state: PartitionState, by: Pauser = Pauser.APPLICATION) -> None:
        """Stop handing out the records of this partition until `resume`. Its data is kept."""
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
        """Undo `pause` by the same party, and queue the partition if it has data or an error."""
        if by in state.paused_by:
            state.resume(by)
            if state.fetched or state.error is not None:
                self._enqueue(state)

    def evict(self, wanted: Container[TopicPartition] | None) -> None:
        """Drop data that is not being read, to free memory for the partitions in ``wanted``.

        This is the data of paused partitions and, if ``wanted`` is not None, of all partitions outside it. Dropped data
        is fetched again later.
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
        """Use these deserializers from now on, even for data that has already been fetched."""
        self.deserializers = deserializers
        for state in self._holders:
            if state.chunk is not None:
                self._give_up(state)

    def chunk(self, wanted: Container[TopicPartition] | None = None) -> Chunk | None:
        """Return the next records, at least one, or None if there are none.

        If ``wanted`` is set, the records are from these partitions only. Records count as handed out when they are
        taken from the chunk. If the partition whose turn it is has an error, raises the error. Other partitions still
        get their turns.
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
                # The error is raised in every turn until the application seeks, so the other partitions get their turns
                # first.
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
        """Return the next batch, which counts as handed out, or None. Raises the same errors as `chunk`."""
        found = self._next_batch(wanted)
        return None if found is None else self._hand_out(*found)

    def look_at_batch(self) -> BatchAhead | None:
        """Return the next result of `batch` without handing it out.

        For a reader that has to wait before it takes the batch. Raises the same errors as `chunk`.
        """
        found = self._next_batch(None)
        if found is None:
            return None
        state, batch = found
        state.fetched[0].restart()
        assert state.position is not None  # data is dropped whenever the position becomes unknown
        return BatchAhead(state, state.position, batch)

    def take_batch(self, ahead: BatchAhead) -> RecordBatch[Any, Any] | None:
        """Hand out this batch. Returns None instead if the position of its partition has changed."""
        state = ahead.state
        if state not in self._holders or state.still or state.position != ahead.position:
            return None
        if state.chunk is not None:
            self._settle(state)
            state.fetched[0].restart()
        return self._hand_out(state, ahead.batch)

    def pass_turn(self, tp: TopicPartition) -> None:
        """End the turn of ``tp``, if it is its turn, because the partition cannot be read now."""
        if self._queue and self._queue[0].tp == tp:
            self._queue.rotate(-1)

    def _hand_out(self, state: PartitionState, batch: RecordBatch[Any, Any]) -> RecordBatch[Any, Any]:
        state.advance(*batch.end)
        self._count(state, len(batch))
        return batch

    def _next_batch(
        self, wanted: Container[TopicPartition] | None
    ) -> tuple[PartitionState, RecordBatch[Any, Any]] | None:
        """Return the next batch and its partition, without handing it out. Return None if there is none."""
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
        """Raise the oldest error that was passed to `report`, if there is one. Each is raised once."""
        if self._reports:
            raise self._reports.pop(next(iter(self._reports)))

    def _turn(self, wanted: Container[TopicPartition] | None) -> PartitionState | None:
        """Return the partition whose turn it is, and move it to the front of the queue.

        With ``wanted``, this is the first of these partitions in the queue. Returns None if there is none.
        """
        queue = self._queue
        if wanted is not None:
            for index, state in enumerate(queue):
                if state.tp in wanted:
                    queue.rotate(-index)
                    return state
            return None
        return queue[0] if queue else None

    def _data(self, state: PartitionState) -> FetchedData | None:
        """Return the next data of the first partition in the queue.

        If it has none, remove it from the queue and return None.
        """
        if state.fetched:
            return state.fetched[0]
        if state.error is not None:
            self._queue.rotate(-1)
            raise own_copy(state.error)
        self._queue.popleft()
        state.queued = False
        return None

    def _make_room(self, state: PartitionState) -> None:
        """Drop decompressed data of other partitions beyond the limit, before more is decompressed for this one."""
        # Also drop another partition's batch that was decompressed in a thread but not taken.
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
        """Drop the decoded records of a partition. They are decoded again from its batches."""
        partly_taken = state.chunk is not None and state.chunk.left() > 0
        self._settle(state)
        if partly_taken:
            state.fetched[0].restart()

    def _settle(self, state: PartitionState) -> None:
        """Set the position after the records taken from the chunk, and end iterations over the chunk."""
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
        """Remove a response whose records have all been handed out, and begin the next partition's turn."""
        del state.fetched[0]
        state.buffered_bytes -= data.size_bytes
        self.total_bytes -= data.size_bytes
        if not state.fetched:
            del self._holders[state]
        state.touch()
        self._queue.rotate(-1)
