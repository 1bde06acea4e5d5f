"""What members of a group tell each other."""

from __future__ import annotations

from typing import NamedTuple

from ...types import TopicPartition

__all__ = ["ConsumerProtocolMemberAssignment", "ConsumerProtocolMemberMetadata"]


class ConsumerProtocolMemberMetadata(NamedTuple):
    """What a member wants."""

    version: int
    subscription: list[str]
    user_data: bytes


class ConsumerProtocolMemberAssignment(NamedTuple):
    """What a member is given: topics with their partitions."""

    version: int
    assignment: list[tuple[str, list[int]]]
    user_data: bytes

    def partitions(self) -> list[TopicPartition]:
        """The same, partition by partition."""
        return [TopicPartition(topic, partition) for topic, some in self.assignment for partition in some]
