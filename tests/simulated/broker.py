"""A broker, as far as all simulations have one."""

from __future__ import annotations

from .sessions import FetchSessions


class SimBroker:
    """Whether it runs, and the fetch sessions that it remembers."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.running = True
        self.sessions = FetchSessions()
