"""Produce requests on their way to brokers, no more at a time than are worth while: see `RequestWindow`."""

from __future__ import annotations

import time
from typing import Any

from ..._core.producer.request_window import RequestWindow
from ..._wire.messages.produce import ProduceRequest
from ...errors import KafkaError
from ..connection.connection import Connection, OnDone

__all__ = ["Pacing"]


class Pacing:
    """The windows of all brokers."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Connection, RequestWindow]] = {}
        """By broker, of the connection that was used last."""

    def is_full(self, connection: Connection, filled_bytes: int = 0) -> bool:
        """Whether the next request had better wait for an answer; see `RequestWindow.is_full`."""
        return self._of(connection).is_full(filled_bytes)

    def submit(self, connection: Connection, request: ProduceRequest, version: int, on_done: OnDone) -> None:
        """Send a request that is answered. Raises as the connection does."""
        window = self._of(connection)
        sent_at = time.monotonic()

        def done(response: Any, error: KafkaError | None) -> None:
            if error is None:
                window.answered(sent_at, time.monotonic())
            else:
                window.lost()
            on_done(response, error)

        connection.submit(request, done, version=version)
        window.sent()

    def _of(self, connection: Connection) -> RequestWindow:
        known = self._known.get(connection.node_id)
        if known is None or known[0] is not connection:
            known = self._known[connection.node_id] = connection, RequestWindow(connection.opening_s)
        return known[1]
