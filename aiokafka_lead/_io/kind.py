"""The parts of start and stop that depend on the kind of client, such as a consumer. `_io.life` calls them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from .deadline import Deadline


class Dependent(Protocol):
    """A client that must stop before another one."""

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Stop the client."""

    def hurry(self, timeout_ms: float) -> None:
        """Limit the rest of the current stop, if there is one, to ``timeout_ms``."""


class Kind:
    """The parts of start and stop that depend on the kind of client. The base class does nothing, which suits an admin
    client.
    """

    stop_within_ms = 10_000.0
    """Time limit in milliseconds of a stop without a timeout."""
    begin_within_ms: float | None = None
    """Time limit in milliseconds of `begin` in a start without a timeout.

    None means the rest of ``request_timeout_ms``.
    """
    closing_share, closing_ms = 0.1, 500.0
    """Share of a stop's time that is reserved for closing connections, and the maximum of that time in milliseconds."""

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        """Start background work.

        If ``wait`` is True, the client is connected. Return when it is ready, or at the deadline. If ``wait`` is False,
        it is still connecting. Return without waiting for that.
        """

    def block_done(self) -> None:
        """Count all records as done, because the ``async with`` block has ended without an error."""

    def check_stop(self) -> None:
        """Raise an error if the caller must not stop the client, for example from one of its own callbacks."""

    def refuse(self) -> None:
        """Accept no more calls, because the client is being stopped."""

    async def finish(self, deadline: Deadline) -> None:
        """Finish the application's work in an orderly way: the first step of a stop.

        It runs in the task that stops the client, and is cancelled at the deadline.
        """

    async def depart(self, deadline: Deadline) -> None:
        """Send the last messages to brokers, for example to leave a group. Runs after `finish`, even if that has
        failed.

        It is not cancelled before the deadline.
        """

    def dependents(self) -> Collection[Dependent]:
        """Return the clients that must stop before this one. Those that `finish` has not stopped are stopped later."""
        return ()

    def release(self) -> None:
        """Raise `ClientClosedError` from waiting calls. Called before connections are closed."""
