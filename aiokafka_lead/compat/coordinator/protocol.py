"""Messages that the members of a classic consumer group exchange through the coordinator."""

from __future__ import annotations

from io import BytesIO
from typing import Self

from ..._core.group.assignors.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    partitions_by_topic,
)
from ..._core.group.assignors.types import MemberSubscription
from ..._values import NamedTuple
from ...types import TopicPartition

__all__ = ["ConsumerProtocolMemberAssignment", "ConsumerProtocolMemberMetadata"]


class ConsumerProtocolMemberMetadata(NamedTuple):
    """Subscription of a group member."""

    version: int
    subscription: list[str]
    user_data: bytes

    def encode(self) -> bytes:
        """Return the bytes for a JoinGroup request."""
        member = MemberSubscription("", tuple(self.subscription), user_data=self.user_data)
        return encode_subscription(member, self.version)

    @classmethod
    def decode(cls, data: bytes | BytesIO) -> Self:
        """Decode the ``member_metadata`` of a described group, in any version. Raises `KafkaProtocolError`."""
        content = _content(data)
        member = decode_subscription(content)
        return cls(_version(content), list(member.topics), member.user_data or b"")


class ConsumerProtocolMemberAssignment(NamedTuple):
    """Assignment of a group member: topics with their partitions."""

    version: int
    assignment: list[tuple[str, list[int]]]
    user_data: bytes

    def partitions(self) -> list[TopicPartition]:
        """Return all assigned partitions as a list."""
        return [TopicPartition(topic, partition) for topic, some in self.assignment for partition in some]

    def encode(self) -> bytes:
        """Return the bytes for a SyncGroup request."""
        return encode_assignment(self.partitions(), self.version, self.user_data)

    @classmethod
    def decode(cls, data: bytes | BytesIO) -> Self:
        """Decode the ``member_assignment`` of a described group, in any version. Raises `KafkaProtocolError`."""
        content = _content(data)
        return cls(_version(content), partitions_by_topic(decode_assignment(content)), b"")


def _content(data: bytes | BytesIO) -> bytes:
    return data.read() if isinstance(data, BytesIO) else bytes(data)


def _version(content: bytes) -> int:
    return int.from_bytes(content[:2], "big")
