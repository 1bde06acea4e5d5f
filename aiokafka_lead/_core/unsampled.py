"""Tracks the sends for which the tracer need not be called.

This code runs for each record. If a compiler is available, it is compiled through ``unsampled.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable

from ..types import Headers


class Unsampled:
    """The latest context in which a send was not sampled. Further sends in that context only need its headers.

    The tracer that created this object reports each context and topic once. After that, a send only compares.
    """

    __slots__ = ("_context", "_current", "_topics", "headers", "on")

    def __init__(self, current: Callable[[], object]) -> None:
        """Start without a context. ``current`` returns the current context, which must be the same object each time."""
        self._current = current
        self._context: object = None
        self._topics: set[str] = set()
        self.headers: Headers = ()
        """Headers to add to records in that context."""
        self.on = True
        """True if there is a tracer. A tracer may be removed while clients are running."""

    def note(self, context: object, topic: str, headers: Headers) -> None:
        """Remember that sends to the topic are not sampled in this context, and the headers that their records get."""
        if context is not self._context:
            self._context = context
            self._topics.clear()
        self._topics.add(topic)
        self.headers = headers

    def covers(self, topic: str) -> bool:
        """Return True if a send to the topic needs no call of the tracer."""
        return not self.on or (self._current() is self._context and topic in self._topics)

    def turn_off(self) -> None:
        """Forget the context, because the tracer was removed. From now on, every send is covered."""
        self.on = False
        self._context = None
        self.headers = ()
