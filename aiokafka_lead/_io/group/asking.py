"""Asking a group's coordinator, and noticing when it is another broker by now."""

from __future__ import annotations

import time
from typing import Any

from ..._core.group.classic_requests import error_code, fitted
from ..._wire import Request
from ...errors import KafkaError, error_for_code
from ..deadline import Deadline
from .coordinators import CoordinatorKind, Coordinators

__all__ = ["GroupCoordinator"]


class GroupCoordinator:
    """One group's coordinator, whichever broker that is."""

    def __init__(self, coordinators: Coordinators, group_id: str) -> None:
        self._coordinators = coordinators
        self.group_id = group_id

    @property
    def node_id(self) -> int | None:
        """The broker, if it is known."""
        return self._coordinators.known(CoordinatorKind.GROUP, self.group_id)

    @property
    def doubted_since(self) -> float | None:
        """Since when no broker has done the coordinator's work (``time.monotonic()``); None unless it is in doubt."""
        return self._coordinators.doubted_since(CoordinatorKind.GROUP, self.group_id)

    @property
    def said(self) -> str:
        """What each broker said that was asked since then."""
        return self._coordinators.said(CoordinatorKind.GROUP, self.group_id)

    async def ask(
        self, request: Request[Any], timeout_s: float, *, held: bool = False
    ) -> tuple[Any, KafkaError | None]:
        """The answer, or why there is none.

        ``held``: the coordinator answers when all members are there, so that no other request may wait behind this one.
        """
        lane = self._coordinators.rebalance_lane if held else None
        deadline = Deadline(timeout_s * 1000)
        try:
            connection = await self._coordinators.connection(CoordinatorKind.GROUP, self.group_id, deadline, lane)
        except KafkaError as failure:
            return None, failure
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
        return response, error
