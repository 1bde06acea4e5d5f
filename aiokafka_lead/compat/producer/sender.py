"""`Sender`, by which programs see whether a producer runs."""

from __future__ import annotations

import asyncio

from ..._io.client import Client

__all__ = ["Sender"]


class Sender:
    """The state of a producer, in the form of aiokafka's task that sends records: health checks read it."""

    sender_task: asyncio.Future[None] | None = None
    """None before the start; done once the producer has stopped or failed."""

    def started(self, native: Client, loop: asyncio.AbstractEventLoop) -> None:
        """Show that the producer runs, until `stopped` or a fatal error."""
        self.sender_task = loop.create_future()
        native.on_fatal(lambda _: self.stopped())

    def stopped(self) -> None:
        """Show that the producer does not run any more."""
        if self.sender_task is not None and not self.sender_task.done():
            self.sender_task.set_result(None)
