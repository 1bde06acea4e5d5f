"""`Sender`, which shows programs if a producer runs."""

from __future__ import annotations

import asyncio

from ..._io.client import Client

__all__ = ["Sender"]


class Sender:
    """State of a producer, in the form of the task that sends records in aiokafka, which health checks read."""

    _sender_task: asyncio.Future[None] | None = None

    @property
    def sender_task(self) -> asyncio.Future[None] | None:
        """None before the start, and done once the producer has stopped or failed."""
        return self._sender_task

    def started(self, native: Client, loop: asyncio.AbstractEventLoop) -> None:
        """Set the state to running, until `stopped` is called or the producer fails."""
        self._sender_task = loop.create_future()
        native.on_fatal(lambda _: self.stopped())

    def stopped(self) -> None:
        """Set the state to stopped."""
        if self._sender_task is not None and not self._sender_task.done():
            self._sender_task.set_result(None)
