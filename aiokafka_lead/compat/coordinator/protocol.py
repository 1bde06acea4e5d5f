"""Messages between the members of a group."""

from __future__ import annotations

from ..._values import NamedTuple
from ...types import TopicPartition

__all__ = ["ConsumerProtocolMemberAssignment", "ConsumerProtocolMemberMetadata"]


class ConsumerProtocolMemberMetadata(NamedTuple):
    """A member's subscription."""

    version: int
    subscription: list[str]
    user_data: bytes


class ConsumerProtocolMemberAssignment(NamedTuple):
    """A member's assignment: topics with their partitions."""

    version: int
    assignment: list[tuple[str, list[int]]]
    user_data: bytes

    def partitions(self) -> list[TopicPartition]:
        """Return the assigned partitions as a flat list."""
        return [TopicPartition(topic, partition) for topic, some in self.assignment for partition in some]
