"""Heartbeats of members of consumer groups (both protocols) and share groups, and their requests to the coordinator."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..._core.group.classic_protocol import error_code, fitted
from ..._core.group.heartbeat_member import leaves
from ..._core.inquiry import MOVED
from ..._wire import Request, Response
from ...errors import KafkaError, error_for_code
from ..connection.connection import Connection
from ..deadline import Deadline
from ..loop import Signal
from .coordinators import CoordinatorKind, Coordinators

LEAVE_TRIES = 3
"""Number of coordinators to which the request to leave a group is sent at most."""


class GroupCoordinator:
    """Sends requests to the coordinator of one group. If another broker becomes the coordinator, follows it."""

    def __init__(self, coordinators: Coordinators, group_id: str) -> None:
        self._coordinators = coordinators
        self.group_id = group_id
        self.connection: Connection | None = None
        """The connection of the last request without ``held``, or None."""

    @property
    def node_id(self) -> int | None:
        """Node id of the coordinator, or None if it is unknown."""
        return self._coordinators.known(CoordinatorKind.GROUP, self.group_id)

    @property
    def doubted_since(self) -> float | None:
        """Time (``time.monotonic()``) since which no broker has served as coordinator, or None.

        None means that a broker is serving, or has not been failing for too long.
        """
        return self._coordinators.doubted_since(CoordinatorKind.GROUP, self.group_id)

    @property
    def said(self) -> str:
        """Description of the last answer of each broker that was asked since then."""
        return self._coordinators.said(CoordinatorKind.GROUP, self.group_id)

    async def ask(
        self, request: Request[Any], timeout_s: float, *, held: bool = False
    ) -> tuple[Any, KafkaError | None]:
        """Send a request. Return the response and None, or None and the error.

        If ``held`` is True, the coordinator answers only when all members have joined, so another connection is used.
        If the request leaves the group, and another broker has become the coordinator, it is sent to that broker.
        Otherwise, the group would keep the member's partitions until its session expires.
        """
        lane = self._coordinators.rebalance_lane if held else None
        deadline = Deadline(timeout_s * 1000)
        tries = 0
        while True:
            tries += 1
            try:
                connection = await self._coordinators.connection(CoordinatorKind.GROUP, self.group_id, deadline, lane)
            except KafkaError as failure:
                return None, failure
            if not held:
                self.connection = connection
            asked_at = time.monotonic()
            response: Any = None
            error: KafkaError | None = None
            try:
                version = connection.versions.version_for(type(request))
                left_ms = deadline.left_ms()
                with self._coordinators.waiting(CoordinatorKind.GROUP, self.group_id, connection.node_id):
                    response = await connection.request(fitted(request, version), timeout_ms=left_ms, version=version)
            except KafkaError as failure:
                error = failure
            code = 0 if response is None else error_code(response)
            refusal = error_for_code(code)() if code else error
            self._coordinators.answered(CoordinatorKind.GROUP, self.group_id, connection.node_id, refusal, asked_at)
            if not (leaves(request) and isinstance(refusal, MOVED)) or tries == LEAVE_TRIES or deadline.passed:
                return response, error


class _Member(Protocol):
    """The member whose heartbeats are sent. It decides when they are due and what they contain."""

    @property
    def unknown_topics(self) -> bool: ...
    def heartbeat_at(self) -> float | None: ...
    def heartbeat_timeout_s(self) -> float: ...
    def heartbeat(self, now: float) -> Request[Any] | None: ...
    def heartbeat_answered(
        self,
        request: Request[Any],
        response: Response | None,
        error: KafkaError | None,
        now: float,
        *,
        reconnected: bool = False,
    ) -> None: ...


class Heartbeats:
    """Sends a member's heartbeats when they are due, and processes the responses."""

    def __init__(self, member: _Member, coordinator: GroupCoordinator, request_metadata: Callable[[], object]) -> None:
        """Send heartbeats of ``member`` to ``coordinator``.

        ``request_metadata`` is called while names of assigned topics are missing.
        """
        self._member = member
        self._coordinator = coordinator
        self._request_metadata = request_metadata
        self.wake = Signal()
        """Set when the member has changed."""
        self.last_at: float | None = None
        """Time of the last acknowledged heartbeat (``time.monotonic()``), or None."""
        self.confirmed_at = -math.inf
        """Time at which that heartbeat was sent."""
        self.asking = False
        """True while a heartbeat is in flight."""

    async def run(self, notify: Callable[[], None]) -> None:
        """Send heartbeats until cancelled. ``notify`` is called after each response."""
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
            self.asking, earlier = True, self._coordinator.connection
            response, error = await self._coordinator.ask(request, member.heartbeat_timeout_s())
            self.asking = False
            reconnected = earlier is not None and self._coordinator.connection is not earlier
            if error is None and response is not None and not response.error_code:
                self.last_at, self.confirmed_at = time.monotonic(), now
            member.heartbeat_answered(request, response, error, time.monotonic(), reconnected=reconnected)
            if member.unknown_topics:
                self._request_metadata()
            notify()
