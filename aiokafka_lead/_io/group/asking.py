"""Asking a group's coordinator, and noticing when it is another broker by now."""

from __future__ import annotations

from typing import Any

from ..._core.group.classic_requests import error_code, fitted
from ..._core.group.offsets import COORDINATOR_MOVED
from ..._wire import Request
from ...errors import KafkaConnectionError, KafkaError, error_for_code
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

    async def ask(
        self, request: Request[Any], timeout_s: float, *, held: bool = False
    ) -> tuple[Any, KafkaError | None]:
        """The answer, or why there is none. The coordinator is looked up again after what shows that it has moved.

        ``held``: the coordinator answers when all members are there, so that no other request may wait behind this one.
        """
        lane = self._coordinators.rebalance_lane if held else None
        deadline = Deadline(timeout_s * 1000)
        node_id: int | None = None
        error: KafkaError | None = None
        response: Any = None
        kind: type[KafkaError] | None = None
        try:
            connection = await self._coordinators.connection(CoordinatorKind.GROUP, self.group_id, deadline, lane)
            node_id = connection.node_id
            version = connection.versions.version_for(type(request))
            left_ms = deadline.left_ms()
            response = await connection.request(fitted(request, version), timeout_ms=left_ms, version=version)
            if code := error_code(response):
                kind = error_for_code(code)
        except KafkaError as failure:
            error, kind = failure, type(failure)
        if node_id is not None and kind is not None and issubclass(kind, (KafkaConnectionError, *COORDINATOR_MOVED)):
            self._coordinators.forget(CoordinatorKind.GROUP, self.group_id, node_id)
        return response, error
