"""`SubscriptionState`, the subscription of a consumer in the form that FastStream reads."""

from __future__ import annotations

from typing import Any

from ..._io.deadline import Deadline
from ...consumer import Consumer
from ...types import TopicPartition

__all__ = ["SubscriptionState"]

_LOOK_EVERY_MS = 60_000
"""Time limit in ms of each wait for an assignment. Waits are repeated without a limit."""


class SubscriptionState:
    """The subscription of a consumer, under the names of aiokafka's class."""

    def __init__(self, native: Consumer[bytes | None, bytes | None]) -> None:
        self._native = native

    @property
    def topics(self) -> frozenset[str]:
        """Return the subscribed topics, or the topics of manually assigned partitions."""
        return self._native._engine.subscription.topics or self._native.subscription()

    @property
    def _listener(self) -> Any:
        """Rebalance listener of the application, which programs built on kstreams read."""
        return getattr(self._native._engine.subscription.listener, "_listener", None)

    @property
    def awaits_assignment(self) -> bool:
        """Return True before the first assignment by the group, which may be empty."""
        membership = self._native._engine.membership
        return membership is not None and membership.standing.awaits is not None

    async def wait_for_assignment(self) -> None:
        """Wait for the first assignment by the group, which may be empty. Without a group, return immediately."""
        while self.awaits_assignment:
            await self._native._engine.readiness.wait(Deadline(_LOOK_EVERY_MS), positions=False)

    def assigned_partitions(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return set(self._native.assignment())

    def is_assigned(self, tp: TopicPartition) -> bool:
        """Return True if the partition is assigned."""
        return tp in self._native.assignment()
