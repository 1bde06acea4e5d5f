"""A broker's fetch sessions (KIP-227)."""

from __future__ import annotations

from aiokafka_lead._core.consumer.fetch_session import SessionRequest
from aiokafka_lead._core.consumer.position import PartitionFetch
from aiokafka_lead.types import TopicPartition

from .codes import FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, NONE


class FetchSessions:
    """The sessions that a broker granted."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, dict[TopicPartition, PartitionFetch]]] = {}

    def take(
        self, request: SessionRequest, granted: int | None
    ) -> tuple[int, int, dict[TopicPartition, PartitionFetch]]:
        """Return (error, session id, partitions to read); ``granted`` is the id for a new session, None if full."""
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
        """Forget all sessions."""
        self._open.clear()
