"""Limits the Produce requests in flight to each broker; see `RequestWindow`.

If a compiler is available, this code is compiled through ``pacing.pxd``.
"""

from __future__ import annotations

import time
from typing import Any

from ..._core.connection.in_flight import OnDone
from ..._core.producer.request_window import RequestWindow
from ..._wire.messages.produce import ProduceRequest
from ...errors import KafkaError
from ..connection.connection import Connection


class Pacing:
    """Limits the requests in flight to each broker, with one `RequestWindow` per broker."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Connection, RequestWindow]] = {}
        """The window of each broker, and the connection that was last used."""

    def is_full(self, connection: Connection, filled_bytes: int = 0) -> bool:
        """Return True if the next request should wait for a response; see `RequestWindow.is_full`."""
        return self._of(connection).is_full(filled_bytes)

    def served_s(self, connection: Connection) -> float:
        """See `RequestWindow.served_s`."""
        return self._of(connection).served_s

    def submit(self, connection: Connection, request: ProduceRequest, version: int, on_done: OnDone) -> None:
        """Send a request that expects a response, and count it until ``on_done`` is called.

        Raises the errors of the connection.
        """
        window = self._of(connection)
        connection.submit(request, UnderWay(window, time.monotonic(), on_done), version=version)
        window.sent()

    def _of(self, connection: Connection) -> RequestWindow:
        known = self._known.get(connection.node_id)
        if known is None or known[0] is not connection:
            known = self._known[connection.node_id] = connection, RequestWindow(connection.opening_s)
        return known[1]


class UnderWay:
    """The callback of one request in flight. The connection calls it with the response or the error."""

    __slots__ = ("_on_done", "_sent_at", "_window")

    def __init__(self, window: RequestWindow, sent_at: float, on_done: OnDone) -> None:
        self._window = window
        self._sent_at = sent_at
        self._on_done = on_done

    def __call__(self, response: Any, error: KafkaError | None) -> None:
        if error is None:
            self._window.answered(self._sent_at, time.monotonic())
        else:
            self._window.lost()
        self._on_done(response, error)
