"""The task that sends the heartbeats of a member of a consumer group, by either protocol, or of a share group."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

from ..._wire import Request, Response
from ...errors import KafkaError
from ..loop import Signal
from .coordinators import GroupCoordinator


class _Member(Protocol):
    """Decides about heartbeats."""

    @property
    def unknown_topics(self) -> bool: ...
    def heartbeat_at(self) -> float | None: ...
    def heartbeat_timeout_s(self) -> float: ...
    def heartbeat(self, now: float) -> Request[Any] | None: ...
    def heartbeat_answered(
        self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float
    ) -> None: ...


class Heartbeats:
    """Sends the heartbeats of one member when they are due, and passes the responses to it."""

    def __init__(self, member: _Member, coordinator: GroupCoordinator, request_metadata: Callable[[], object]) -> None:
        """``request_metadata`` is called while the member lacks names of topics."""
        self._member = member
        self._coordinator = coordinator
        self._request_metadata = request_metadata
        self.wake = Signal()
        """Set when the member has changed."""
        self.last_at: float | None = None
        """Time of the last acknowledged heartbeat (``time.monotonic()``)."""
        self.asking = False
        """True while a heartbeat is in flight."""

    async def run(self, notify: Callable[[], None]) -> None:
        """Send heartbeats until cancelled; call ``notify`` after each response."""
        member = self._member
        while True:
            at = member.heartbeat_at()
            now = time.monotonic()
            if at is None or now < at:
                await self.wake.wait(None if at is None else at - now)
                continue
            request = member.heartbeat(now)
            if request is None:
                continue
            self.asking = True
            response, error = await self._coordinator.ask(request, member.heartbeat_timeout_s())
            self.asking = False
            if error is None and response is not None and not response.error_code:
                self.last_at = time.monotonic()
            member.heartbeat_answered(request, response, error, time.monotonic())
            if member.unknown_topics:
                self._request_metadata()
            notify()
