"""Requests in flight on one connection.

A broker answers the requests of a connection in the order in which it received them (Java: ``InFlightRequests``). A
response therefore belongs to the oldest request, or the stream is corrupt. If a compiler is available, this code is
compiled through ``in_flight.pxd``.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from ...errors import KafkaError, MalformedMessageError

OnDone = Callable[[Any, KafkaError | None], None]
"""Called exactly once, either with the response and None, or with None and the error."""

_LAST_ID = 2**31 - 1


class InFlight:
    """A request that has been sent and waits for its response."""

    __slots__ = ("correlation_id", "deadline", "on_done", "raw", "request_class", "silent", "version")

    def __init__(
        self,
        correlation_id: int,
        request_class: Any,
        version: int,
        deadline: float,
        on_done: OnDone,
        raw: bool,
        silent: int,
    ) -> None:
        self.correlation_id = correlation_id
        self.request_class = request_class
        self.version = version
        self.deadline = deadline
        """Monotonic time in seconds at which the connection is closed unless the response has arrived."""
        self.on_done = on_done
        self.raw = raw
        """True if the response is passed on as an undecoded frame."""
        self.silent = silent
        """Number of requests that expect no response and were sent just before this one."""


class InFlightLedger:
    """Tracks the requests in flight, in the order in which they were sent.

    Invariant: correlation ids are consecutive, and wrap around after 2**31 - 1.
    """

    __slots__ = ("_entries", "_silent", "next_id")

    def __init__(self) -> None:
        self._entries: deque[InFlight] = deque()
        self.next_id = 0
        """Correlation id of the next request."""
        self._silent = 0
        """Number of requests without a response that were sent since the last request with one."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, request_class: Any, version: int, deadline: float, on_done: OnDone, raw: bool = False) -> None:
        """Add a request that was sent with the correlation id ``next_id`` and gets a response."""
        self._entries.append(InFlight(self.next_id, request_class, version, deadline, on_done, raw, self._silent))
        self._silent = 0
        self._advance()

    def skip(self) -> None:
        """Count a request that was sent with ``next_id`` and gets no response, such as Produce with ``acks=0``."""
        self._silent += 1
        self._advance()

    def _advance(self) -> None:
        self.next_id = 0 if self.next_id == _LAST_ID else self.next_id + 1

    def match(self, correlation_id: int) -> InFlight | None:
        """Return the oldest request if a response with this correlation id belongs to it.

        Returns None if the response belongs to a request that expects none. Azure Event Hubs sends such responses to
        Produce with ``acks=0``. Raises `MalformedMessageError` for any other response.
        """
        if not self._entries:
            if self._is_silent(correlation_id, self.next_id, self._silent):
                return None
            raise MalformedMessageError(f"a response has correlation id {correlation_id}, but no request is in flight")
        oldest = self._entries[0]
        if oldest.correlation_id != correlation_id:
            if self._is_silent(correlation_id, oldest.correlation_id, oldest.silent):
                return None
            raise MalformedMessageError(
                f"a response has correlation id {correlation_id} instead of {oldest.correlation_id} "
                f"({oldest.request_class.NAME})"
            )
        return oldest

    def _is_silent(self, correlation_id: int, before: int, count: int) -> bool:
        """Return True if the id is one of the ``count`` ids just before the id ``before``."""
        return correlation_id >= 0 and 0 < (before - correlation_id) & _LAST_ID <= count

    def pop(self) -> None:
        """Remove the oldest request, because it has been answered."""
        self._entries.popleft()

    def oldest(self) -> InFlight | None:
        """Return the request whose response comes next, or None."""
        return self._entries[0] if self._entries else None

    def expired(self, now: float) -> InFlight | None:
        """Return the oldest request whose deadline has passed, or None."""
        for entry in self._entries:
            if entry.deadline <= now:
                return entry
        return None

    def next_deadline(self) -> float:
        """Return the earliest deadline of all requests, or infinity if there are none."""
        return min((entry.deadline for entry in self._entries), default=math.inf)

    def drain(self) -> list[InFlight]:
        """Remove and return all requests, in the order in which they were sent."""
        entries = list(self._entries)
        self._entries.clear()
        return entries
