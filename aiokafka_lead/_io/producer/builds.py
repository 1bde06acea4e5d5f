"""Slow compression beside the event loop.

With a codec that takes 10 ns a byte a full batch blocks the event loop for 2 ms, with one that takes 900 for a quarter
of a second. A thread does not block the loop, since codecs release the interpreter's lock while they work. Fast codecs
do not benefit: next to a busy loop a thread waits longer for that lock, up to 5 ms each time, than it works.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from ..._core.producer.batches import ProducerBatch
from ..._core.producer.produce import build_batches
from ..connection.connection import Connection
from ..loop import Spawn

THREADS = os.cpu_count() or 1
"""Number of requests compressed at the same time, by all producers of an event loop."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("aiokafka_lead compression")
"""anyio's own limiter belongs to the application, whose threads may wait for a producer."""


class _Build:
    """The batches of one request."""

    __slots__ = ("batches", "connection", "done")

    def __init__(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        self.connection = connection
        self.batches = batches
        self.done = False


class Builds:
    """Requests whose batches are being compressed. For each broker, they leave in the order in which they came."""

    def __init__(
        self, spawn: Spawn, submit: Callable[[Connection, list[ProducerBatch]], None], transactional: bool
    ) -> None:
        """``submit`` sends a finished request, on the connection that had room for it."""
        self._transactional = transactional
        self._spawn = spawn
        self._submit = submit
        self._waiting: dict[int, deque[_Build]] = {}
        """Requests not submitted yet, by broker."""

    def count(self, node_id: int) -> int:
        """Return the number of requests to a broker in progress here."""
        waiting = self._waiting.get(node_id)
        return len(waiting) if waiting is not None else 0

    def begin(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        """Begin to build the next request to a broker."""
        build = _Build(connection, batches)
        self._waiting.setdefault(connection.node_id, deque()).append(build)
        self._spawn(self._run, build, name="kafka producer compression")

    async def _run(self, build: _Build) -> None:
        await anyio.to_thread.run_sync(build_batches, build.batches, self._transactional, limiter=_threads())
        build.done = True
        node_id = build.connection.node_id
        waiting = self._waiting[node_id]
        while waiting and waiting[0].done:
            first = waiting.popleft()
            if not waiting:
                del self._waiting[node_id]
            self._submit(first.connection, first.batches)


def _threads() -> anyio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
        return limiter
