"""aiokafka's assignors and their native counterparts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .._core.group.assignors import MemberSubscription, TopicPartitions
from ..config import ASSIGNOR_NAMES
from ..errors import ConfigTypeError
from ..types import TopicPartition
from .cluster import AssignableCluster
from .coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)

__all__ = ["native_assignors"]

_LIBRARIES = {"aiokafka", "kafka", __name__.partition(".")[0]}


def native_assignors(strategy: Any) -> list[Any]:
    """Return the native form of assignors: names of those that Kafka knows, adapters for the application's own."""
    given = [strategy] if isinstance(strategy, (str, type)) or not isinstance(strategy, Iterable) else list(strategy)
    return [_native(assignor) for assignor in given]


def _native(assignor: Any) -> Any:
    if isinstance(assignor, str):
        return assignor
    kind = assignor if isinstance(assignor, type) else type(assignor)
    name = getattr(assignor, "name", None)
    if name in ASSIGNOR_NAMES and kind.__module__.partition(".")[0] in _LIBRARIES:
        return name
    if not isinstance(name, str) or not callable(getattr(assignor, "assign", None)):
        raise ConfigTypeError(f"partition_assignment_strategy must hold assignors, not {assignor!r}")
    return OwnAssignor(assignor, name)


class OwnAssignor:
    """Adapts an assignor that the application wrote for aiokafka to the native interface (`GroupAssignor`)."""

    cooperative = False

    def __init__(self, assignor: Any, name: str) -> None:
        self.assignor = assignor
        self.name = name

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the metadata that the assignor gives for these topics."""
        if owned:
            assigned: dict[str, list[int]] = {}
            for topic, partition in owned:
                assigned.setdefault(topic, []).append(partition)
            self.assignor.on_assignment(ConsumerProtocolMemberAssignment(0, sorted(assigned.items()), b""))
        said: bytes | None = self.assignor.metadata(set(topics)).user_data
        return said

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> dict[str, list[TopicPartition]]:
        """Return the assignment that the assignor makes for the same members and partitions."""
        subscriptions = {
            member.member_id: ConsumerProtocolMemberMetadata(0, list(member.topics), member.user_data or b"")
            for member in members
        }
        given = self.assignor.assign(AssignableCluster(topics.counts), subscriptions)
        return {
            member.member_id: [
                TopicPartition(topic, partition)
                for topic, partitions in given[member.member_id].assignment
                for partition in partitions
            ]
            for member in members
        }
