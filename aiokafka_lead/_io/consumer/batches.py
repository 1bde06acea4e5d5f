"""Iterating over a consumer's batches."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from ..._core.consumer.record_batch import RecordBatch
from ..._core.tracing import BatchLoop
from .reader import Reader

if TYPE_CHECKING:
    from ..group.leases import Lease, Leases

__all__ = ["Batches"]

K = TypeVar("K")
V = TypeVar("V")


class Batches(Generic[K, V]):
    """Iterates over a reader's batches; no generator, since trio warns of each that was not read to its end."""

    def __init__(self, reader: Reader[K, V], leases: Leases | None, look: BatchLoop | None = None) -> None:
        """``look`` is called with each batch as it is handed out, and with None when the loop comes back for more."""
        self._reader = reader
        self._look = look
        self._leases = leases
        self._lease: Lease | None = None
        """That of the batch that was handed out last."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordBatch[K, V]:
        began = 0
        if self._look is not None:
            began = time.time_ns()
            self._look(None, began)
        batch = await self._reader.next_batch()
        self._lease = None
        if batch is None:
            raise StopAsyncIteration
        if self._look is not None:
            self._look(batch, began)
        if self._leases is not None:
            self._lease = self._leases.lend(batch)
        return batch

    def __del__(self) -> None:
        # The loop over it has been left, by whatever way.
        if self._lease is not None:
            self._lease.end()
