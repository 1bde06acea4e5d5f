"""A broker's fetch sessions, as KIP-227 has them."""

from __future__ import annotations

from aiokafka_lead._core.consumer.fetch_session import SessionRequest
from aiokafka_lead._core.consumer.partition_fetch import PartitionFetch
from aiokafka_lead.types import TopicPartition

from .codes import FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, NONE


class FetchSessions:
    """What a broker remembers of the sessions that it granted."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, dict[TopicPartition, PartitionFetch]]] = {}

    def take(
        self, request: SessionRequest, granted: int | None
    ) -> tuple[int, int, dict[TopicPartition, PartitionFetch]]:
        """(error, session id, what to read); ``granted`` is the id for a new session, None where there is no room."""
        if request.epoch in (0, -1):
            self._open.pop(request.session_id, None)
            if request.epoch == -1 or granted is None:
                return NONE, 0, dict(request.send)
            self._open[granted] = (1, dict(request.send))
            return NONE, granted, dict(request.send)
        if request.session_id not in self._open:
            return FETCH_SESSION_ID_NOT_FOUND, 0, {}
        epoch, known = self._open[request.session_id]
        if epoch != request.epoch:
            return INVALID_FETCH_SESSION_EPOCH, 0, {}
        for use in request.forget:
            known.pop(use.tp, None)
        known.update(request.send)
        self._open[request.session_id] = (epoch + 1, known)
        return NONE, request.session_id, known

    def clear(self) -> None:
        """Forget them all."""
        self._open.clear()
