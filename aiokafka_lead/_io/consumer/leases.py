"""Batches in hand: what becomes of one when the application commits it, goes on, or is cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from ..._core.consumer.in_hand import InHand
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.positions import Positions
from ..._core.consumer.prefetch import Prefetch
from ..._core.consumer.record_batch import RecordBatch
from ...errors import CommitFailedError
from ...types import OffsetAndMetadata
from ..cancellation import cancellation_of_task, cancelled_by_scope
from ..loop import in_task
from .reader import Reader

if TYPE_CHECKING:
    from ..group.offsets import GroupOffsets

__all__ = ["Batches", "Leases"]

K = TypeVar("K")
V = TypeVar("V")


class Leases:
    """Lends batches to the application, and takes them back."""

    def __init__(
        self, positions: Positions, prefetch: Prefetch, in_hand: InHand, group_offsets: GroupOffsets, timeout_ms: float
    ) -> None:
        self._positions = positions
        self._prefetch = prefetch
        self._in_hand = in_hand
        self._group_offsets = group_offsets
        self._timeout_ms = timeout_ms
        self._last: _Lease | None = None
        """What was lent last, until the application comes back."""
        in_hand.on_return = self._returned

    def lend(self, batch: RecordBatch[Any, Any]) -> _Lease:
        """The batch has just been handed out."""
        lease = batch.lease = _Lease(self, batch, self._positions.require(batch.topic_partition))
        self._last = lease
        return lease

    def _returned(self) -> None:
        """Another task may read on after the one with the batch was cancelled, by the same iterator or otherwise."""
        lease, self._last = self._last, None
        if lease is not None and lease.is_cancelled():
            lease.end()

    async def commit(self, batch: RecordBatch[Any, Any], state: PartitionState) -> bool:
        """Commit it if its partition still is what it was when the batch was handed out."""
        if not self._positions.owns(state):
            return False
        offsets = {state.tp: OffsetAndMetadata(batch.next_offset, leader_epoch=batch.leader_epoch)}
        try:
            await self._group_offsets.commit(offsets, self._timeout_ms)
        except CommitFailedError:
            return False
        self._in_hand.committed(offsets, [state])
        return True

    def take_back(self, batch: RecordBatch[Any, Any], state: PartitionState, *, cancelled: bool) -> None:
        """Nobody works on the batch any more.

        One whose handler was cancelled comes again. With others that is not known: nothing waits for them, and they
        are not done before the application reads on.
        """
        if not self._positions.owns(state) or not self._in_hand.has(state.tp):
            return
        position = state.position
        if cancelled and position is not None and position.offset == batch.next_offset:
            self._prefetch.drop(state)
            state.move(batch.base_offset)
            self._in_hand.forget((state.tp,))
        else:
            self._in_hand.abandon(state.tp)


class _Lease:
    """One batch's; of the assignment in which it was handed out."""

    __slots__ = ("_batch", "_is_cancelled", "_leases", "_state")

    def __init__(self, leases: Leases, batch: RecordBatch[Any, Any], state: PartitionState) -> None:
        self._leases = leases
        self._batch = batch
        self._state = state
        self._is_cancelled = cancellation_of_task()

    async def commit(self) -> bool:
        return await self._leases.commit(self._batch, self._state)

    def is_cancelled(self) -> bool:
        """Whether the task that got the batch was cancelled, or is being cancelled."""
        return self._is_cancelled() or _unwinds()

    def end(self) -> None:
        self._leases.take_back(self._batch, self._state, cancelled=self.is_cancelled())


class Batches(Generic[K, V]):
    """Iterates over a reader's batches; no generator, since trio warns of each that was not read to its end."""

    def __init__(self, reader: Reader[K, V], leases: Leases | None) -> None:
        self._reader = reader
        self._leases = leases
        self._lease: _Lease | None = None
        """That of the batch that was handed out last."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordBatch[K, V]:
        batch = await self._reader.next_batch()
        self._lease = None
        if batch is None:
            raise StopAsyncIteration
        if self._leases is not None:
            self._lease = self._leases.lend(batch)
        return batch

    def __del__(self) -> None:
        # The loop over it has been left, by whatever way.
        if self._lease is not None:
            self._lease.end()


def _unwinds() -> bool:
    """Whether the task that runs this is being cancelled by a scope of anyio or trio."""
    try:
        return in_task() and cancelled_by_scope()
    except RuntimeError:  # no event loop runs here any more
        return False
