"""Decompresses large batches in threads: one of the largest allowed would block the event loop for a second."""

from __future__ import annotations

import os

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from ..._records import BatchView, MessageSet
from ...errors import BatchTooLargeError, CorruptRecordError

THREADS = os.cpu_count() or 1
"""Maximum number of batches decompressed at the same time, by all consumers of an event loop."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("aiokafka_lead decompression")
"""Limiter of our own. anyio's default one belongs to the application, whose threads may wait for a consumer."""


class Loading:
    """Decompresses one batch of a consumer at a time, so that several partitions do not add up in memory."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()

    async def load(self, view: BatchView | MessageSet) -> None:
        """Decompress the batch. Failures are raised later, when its records are read.

        Cancellation still waits for the thread: until then no other code may touch the batch.
        """
        async with self._lock:
            if not view.is_loaded:
                await anyio.to_thread.run_sync(_load, view, limiter=_threads())


def _load(view: BatchView | MessageSet) -> None:
    try:
        view.load()
    except (BatchTooLargeError, CorruptRecordError):
        return  # the batch keeps the error


def _threads() -> anyio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
        return limiter
