"""Large batches are decompressed beside the event loop, which one of the largest allowed would stop for a second."""

from __future__ import annotations

import os

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from ..._records import BatchView, MessageSet
from ...errors import BatchTooLargeError, CorruptRecordError

THREADS = os.cpu_count() or 1
"""Batches that are decompressed at the same time, by all consumers of an event loop."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("aiokafka_lead decompression")
"""anyio's own limit is the application's: what it runs in threads may wait for a consumer."""


class Loading:
    """One consumer's: a batch at a time, so that those of several partitions do not add up in memory."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()

    async def load(self, view: BatchView | MessageSet) -> None:
        """Decompress the batch; what makes that impossible is raised when its records are asked for.

        Cancelled meanwhile it still waits for the thread: nothing else may touch the batch until then.
        """
        async with self._lock:
            if not view.is_loaded:
                await anyio.to_thread.run_sync(_load, view, limiter=_threads())


def _load(view: BatchView | MessageSet) -> None:
    try:
        view.load()
    except (BatchTooLargeError, CorruptRecordError):
        return  # which the batch keeps


def _threads() -> anyio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
        return limiter
