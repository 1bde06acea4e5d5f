"""The part of a broker that all simulations need."""

from __future__ import annotations

from .sessions import FetchSessions


class SimBroker:
    """State of a broker: running or not, and its fetch sessions."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.running = True
        self.sessions = FetchSessions()
