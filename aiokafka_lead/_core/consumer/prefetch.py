"""What was fetched and not yet handed out, over all partitions, and whose turn it is.

Partitions take turns by fetch answer: one answer's records of a partition are handed out before the next partition's.
Memory is bounded by the planner of fetches (see `fetch_plan`); `total_bytes` says how much is held. What was
decompressed and not handed out has a bound of its own: beyond it the partitions that wait give it up, and it is
decompressed again in their turn.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Hashable
from typing import Any, NamedTuple

from ...errors import KafkaError
from ...errors.base import own_copy
from ...types import TopicPartition
from .chunk import Chunk
from .deserializers import Deserializers
from .fetched import FetchedData, NotLoaded
from .partition_state import PartitionState
from .position import Position
from .record_batch import RecordBatch

__all__ = ["BatchAhead", "Prefetch"]


class BatchAhead(NamedTuple):
    """A batch that was looked at, and the position before it."""

    state: PartitionState
    position: Position
    batch: RecordBatch[Any, Any]


class Prefetch:
    """The queue of partitions that have something to hand out: records, or an error.

    Invariant: a partition is in the queue exactly when ``queued`` is set; one that is paused or withheld never is.
    Handing something out is what moves a partition's position, so whatever was not taken (the reader was cancelled,
    say) is still here.
    """

    def __init__(
        self, deserializers: Deserializers, on_ready: Callable[[], None], max_decompressed_bytes: float = math.inf
    ) -> None:
        self._max_decompressed_bytes = max_decompressed_bytes
        self._on_ready = on_ready
        """Called when there is something to hand out, or an error to raise."""
        self.total_bytes = 0
        """Received sizes of all that is held, paused partitions' too."""
        self.deserializers = deserializers
        """What is made of the records that are held; those that have to be awaited, a reader awaits."""
        self._queue: deque[PartitionState] = deque()
        self._holders: dict[PartitionState, None] = {}
        """Partitions with records here, paused ones too."""
        self._reports: dict[Hashable, KafkaError] = {}
        """Errors to raise once, by what they are about."""
        self._chunks_bytes = 0
        """Sizes of the partitions' chunks."""
        self._loading: PartitionState | None = None
        """The last partition with a batch to be decompressed elsewhere, which may hold it since."""
        self._loaded: dict[str, int] = {}
        """Records put into chunks, or handed out as batches, less those that were dropped; by topic."""

    @property
    def records_taken(self) -> int:
        """How many records have been handed out."""
        return sum(self.records_by_topic().values())

    def records_by_topic(self) -> dict[str, int]:
        """The same by topic."""
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
        """Keep a partition's records, behind those that are held already."""
        state.fetched.append(data)
        state.buffered_bytes += data.size_bytes
        self.total_bytes += data.size_bytes
        self._holders[state] = None
        if state.still:
            data.detach()
        self._enqueue(state)

    def fail(self, state: PartitionState, error: KafkaError) -> None:
        """Raise this to the reader when the partition's records are handed out, until it is moved."""
        state.fail(error)
        self._enqueue(state)

    def report(self, about: Hashable, error: KafkaError) -> None:
        """Raise this to the reader, once; a later error about the same replaces one that nobody has seen yet."""
        self._reports[about] = error
        self._on_ready()

    def drop(self, state: PartitionState) -> None:
        """Forget what is held of a partition; call it before its position is set."""
        self._settle(state)
        self.total_bytes -= state.buffered_bytes
        state.buffered_bytes = 0
        state.fetched.clear()
        self._holders.pop(state, None)
        if state.queued:
            state.queued = False
            self._queue.remove(state)

    def pause(self, state: PartitionState) -> None:
        """Hand out nothing more of this partition until `resume`; keep what there is."""
        if not state.paused:
            state.pause(True)
            self._rest(state)

    def resume(self, state: PartitionState) -> None:
        """Take back `pause`."""
        if state.paused:
            state.pause(False)
            self._go_on(state)

    def withhold(self, state: PartitionState) -> None:
        """`pause`, in the name of the group."""
        if not state.withheld:
            state.withhold(True)
            self._rest(state)

    def release(self, state: PartitionState) -> None:
        """Take back `withhold`."""
        if state.withheld:
            state.withhold(False)
            self._go_on(state)

    def _rest(self, state: PartitionState) -> None:
        if state.chunk is not None:
            state.chunk = state.chunk.withdraw()
        for data in state.fetched:
            data.detach()
        if state.queued:
            state.queued = False
            self._queue.remove(state)

    def _go_on(self, state: PartitionState) -> None:
        if state.fetched or state.error is not None:
            self._enqueue(state)

    def evict(self, wanted: Container[TopicPartition] | None) -> None:
        """Forget what nobody reads now, to make room for what is wanted; it is fetched again when it is.

        That is the paused partitions' records, and those outside of ``wanted`` if it is not None.
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
        """Use these from now on, for what is held as well."""
        self.deserializers = deserializers
        for state in self._holders:
            if state.chunk is not None:
                self._give_up(state)

    def chunk(self, wanted: Container[TopicPartition] | None = None) -> Chunk | None:
        """The records whose turn it is, at least one, or None if there are none; with ``wanted``, of these partitions.

        What is taken from the chunk counts as handed out. Raises what ails a partition when that one's turn comes; the
        others' turns come nevertheless.
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
        """The batch whose turn it is, which thereby counts as handed out, or None; raises as `chunk` does."""
        found = self._next_batch(wanted)
        return None if found is None else self._hand_out(*found)

    def look_at_batch(self) -> BatchAhead | None:
        """What `batch` would hand out, for a reader that has to wait before; raises as `chunk` does."""
        found = self._next_batch(None)
        if found is None:
            return None
        state, batch = found
        state.fetched[0].restart()
        assert state.position is not None  # data is dropped whenever the position is
        return BatchAhead(state, state.position, batch)

    def take_batch(self, ahead: BatchAhead) -> RecordBatch[Any, Any] | None:
        """Hand this out, if its partition still is where it was."""
        state = ahead.state
        if state not in self._holders or state.still or state.position != ahead.position:
            return None
        if state.chunk is not None:
            self._settle(state)
            state.fetched[0].restart()
        return self._hand_out(state, ahead.batch)

    def pass_turn(self, tp: TopicPartition) -> None:
        """This partition cannot be read on from: if it is its turn, that is the next one's now."""
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
        """Raise an error that was reported, if there is one."""
        if self._reports:
            raise self._reports.pop(next(iter(self._reports)))

    def _turn(self, wanted: Container[TopicPartition] | None) -> PartitionState | None:
        """The partition whose turn it is, which then is the first of the queue."""
        queue = self._queue
        if wanted is not None:
            for index, state in enumerate(queue):
                if state.tp in wanted:
                    queue.rotate(-index)
                    return state
            return None
        return queue[0] if queue else None

    def _data(self, state: PartitionState) -> FetchedData | None:
        """The records to go on with of the first partition in the queue; None if that is out of the queue now."""
        if state.fetched:
            return state.fetched[0]
        if state.error is not None:
            self._queue.rotate(-1)
            raise own_copy(state.error)
        self._queue.popleft()
        state.queued = False
        return None

    def _make_room(self, state: PartitionState) -> None:
        """Before more is decompressed for a partition: what waits of others gives way where all is too much."""
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
        """Forget the records that were read of a partition, and keep the batches that they were read from."""
        partly_taken = state.chunk is not None and state.chunk.left() > 0
        self._settle(state)
        if partly_taken:
            state.fetched[0].restart()

    def _settle(self, state: PartitionState) -> None:
        """Take the position over from the chunk, and the chunk away from an iteration over it."""
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
        """This answer is through; the next partition's turn."""
        del state.fetched[0]
        state.buffered_bytes -= data.size_bytes
        self.total_bytes -= data.size_bytes
        if not state.fetched:
            del self._holders[state]
        state.touch()
        self._queue.rotate(-1)
