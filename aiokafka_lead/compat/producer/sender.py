"""`Sender`, which shows programs if a producer runs."""

from __future__ import annotations

import asyncio

from ..._io.client import Client

__all__ = ["Sender"]


class Sender:
    """State of a producer, in the form of the task that sends records in aiokafka, which health checks read."""

    sender_task: asyncio.Future[None] | None = None
    """None before the start, and done once the producer has stopped or failed."""

    def started(self, native: Client, loop: asyncio.AbstractEventLoop) -> None:
        """Set the state to running, until `stopped` is called or the producer fails."""
        self.sender_task = loop.create_future()
        native.on_fatal(lambda _: self.stopped())

    def stopped(self) -> None:
        """Set the state to stopped."""
        if self.sender_task is not None and not self.sender_task.done():
            self.sender_task.set_result(None)
