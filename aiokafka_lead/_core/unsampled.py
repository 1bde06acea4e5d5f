"""Which sends a tracer need not look at.

Hot: this module is compiled through ``unsampled.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from ..types import Headers

__all__ = ["Unsampled"]


class Unsampled:
    """The latest context in which a send was not sampled: sends there need no more than the headers that they carry.

    The tracer that made it says so, once for each context and topic; a send only compares.
    """

    __slots__ = ("_context", "_current", "_topics", "headers", "on")

    def __init__(self, current: Callable[[], object]) -> None:
        """``current`` gives the context that is current: the same object as long as it is the same context."""
        self._current = current
        self._context: object = None
        self._topics: set[str] = set()
        self.headers: Headers = ()
        """What records carry there beside their own headers."""
        self.on = True
        """Whether there is a tracer: it may go, while clients stay."""

    def note(self, context: object, topic: str, headers: Headers) -> None:
        """Sends to the topic are not sampled in this context, where records carry these headers."""
        if context is not self._context:
            self._context = context
            self._topics.clear()
        self._topics.add(topic)
        self.headers = headers

    def covers(self, topic: str) -> bool:
        """Whether a send to the topic is not sampled, as far as it is known already."""
        return not self.on or (self._current() is self._context and topic in self._topics)

    def turn_off(self) -> None:
        """There is no tracer any more."""
        self.on = False
        self._context = None
        self.headers = ()
