"""What a consumer is subscribed to, as FastStream asks for it."""

from __future__ import annotations

from ..._io.deadline import Deadline
from ...consumer import Consumer
from ...types import TopicPartition

__all__ = ["SubscriptionState"]

_LOOK_EVERY_MS = 60_000
"""An assignment is waited for as long as it takes, and each wait has a bound."""


class SubscriptionState:
    """A native consumer's subscription by aiokafka's names."""

    def __init__(self, native: Consumer[bytes | None, bytes | None]) -> None:
        self._native = native

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are subscribed to, or those of partitions that are assigned by hand."""
        return self._native._engine.subscription.topics or self._native.subscription()

    @property
    def awaits_assignment(self) -> bool:
        """Whether the group has not assigned anything yet, not even nothing."""
        membership = self._native._engine.membership
        return membership is not None and membership.standing.awaits is not None

    async def wait_for_assignment(self) -> None:
        """Wait until the group has assigned partitions, be it none; at once without a group."""
        while self.awaits_assignment:
            await self._native._engine.readiness.wait(Deadline(_LOOK_EVERY_MS), positions=False)

    def assigned_partitions(self) -> set[TopicPartition]:
        """The partitions that are the consumer's now."""
        return set(self._native.assignment())

    def is_assigned(self, tp: TopicPartition) -> bool:
        """Whether the partition is the consumer's now."""
        return tp in self._native.assignment()
