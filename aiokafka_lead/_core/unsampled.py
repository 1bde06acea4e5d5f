"""Tracks the sends for which the tracer need not be called.

Hot: compiled through ``unsampled.pxd`` if a compiler is available, else plain Python.
"""

from __future__ import annotations

from collections.abc import Callable

from ..types import Headers


class Unsampled:
    """The latest context in which a send was not sampled: further sends in it only need its headers.

    The tracer that created this object reports each context and topic once; a send only compares.
    """

    __slots__ = ("_context", "_current", "_topics", "headers", "on")

    def __init__(self, current: Callable[[], object]) -> None:
        """Begin empty; ``current`` returns the current context, always the same object for the same context."""
        self._current = current
        self._context: object = None
        self._topics: set[str] = set()
        self.headers: Headers = ()
        """Headers added to records in that context."""
        self.on = True
        """True if there is a tracer; a tracer may be removed while clients run."""

    def note(self, context: object, topic: str, headers: Headers) -> None:
        """Record that sends to the topic are not sampled in this context; its records get these headers."""
        if context is not self._context:
            self._context = context
            self._topics.clear()
        self._topics.add(topic)
        self.headers = headers

    def covers(self, topic: str) -> bool:
        """Return True if a send to the topic is known not to be sampled."""
        return not self.on or (self._current() is self._context and topic in self._topics)

    def turn_off(self) -> None:
        """Record that the tracer was removed."""
        self.on = False
        self._context = None
        self.headers = ()
