"""The messages that members of a classic group exchange through the coordinator, in Java's format.

Both schemas begin with their version. Later versions only add fields, so an unknown version is read as the latest known
one (Java: ``ConsumerProtocol``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from ...._wire import Message, decode, encode
from ...._wire.messages import consumer_protocol_assignment as _assignment
from ...._wire.messages import consumer_protocol_subscription as _subscription
from ...._wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ...._wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ....errors import MalformedMessageError
from ....types import TopicPartition
from .types import MemberSubscription

PROTOCOL_TYPE = "consumer"
"""The ``protocol_type`` of consumer groups in JoinGroup."""

LATEST_VERSION = ConsumerProtocolSubscription.MAX_VERSION
"""Latest version of both schemas.

Subscriptions contain owned partitions from version 1, the generation from 2 (KIP-792), and the rack from 3 (KIP-881).
"""

_VERSION_BYTES = 2

M = TypeVar("M", bound=Message)


def encode_subscription(member: MemberSubscription, version: int = LATEST_VERSION) -> bytes:
    """Encode a member's metadata for JoinGroup. Fields that are not part of the version are omitted."""
    message = ConsumerProtocolSubscription(
        topics=sorted(member.topics),
        user_data=member.user_data,
        owned_partitions=[
            _subscription.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in partitions_by_topic(sorted(member.owned))
        ],
        generation_id=member.generation,
        rack_id=member.rack,
    )
    return version.to_bytes(_VERSION_BYTES, "big") + encode(message, version)


def decode_subscription(
    metadata: bytes, member_id: str = "", group_instance_id: str | None = None
) -> MemberSubscription:
    """Decode a member's metadata, from any client and of any version.

    Some clients write a version number that is too high for their fields. Only the fields that are present are read.
    Raises `MalformedMessageError` if not even the topics can be read.
    """
    message = _decode(ConsumerProtocolSubscription, metadata)
    return MemberSubscription(
        member_id=member_id,
        topics=tuple(message.topics),
        owned=tuple(
            TopicPartition(owned.topic, partition)
            for owned in message.owned_partitions
            for partition in owned.partitions
        ),
        generation=message.generation_id,
        group_instance_id=group_instance_id,
        user_data=message.user_data,
        rack=message.rack_id or None,
    )


def encode_assignment(
    partitions: Iterable[TopicPartition], version: int = LATEST_VERSION, user_data: bytes | None = None
) -> bytes:
    """Encode the partitions that the leader assigns to one member, for the leader's SyncGroup request."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            _assignment.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in partitions_by_topic(partitions)
        ],
        user_data=user_data,
    )
    return version.to_bytes(_VERSION_BYTES, "big") + encode(message, version)


def decode_assignment(assignment: bytes) -> list[TopicPartition]:
    """Decode a member's partitions, in the order in which they were written and without duplicates.

    The result is empty if ``assignment`` is empty, which means that the leader has not given the member an entry.
    Raises `MalformedMessageError` for invalid bytes.
    """
    if not assignment:
        return []
    message = _decode(ConsumerProtocolAssignment, assignment)
    found = (
        TopicPartition(assigned.topic, partition)
        for assigned in message.assigned_partitions
        for partition in assigned.partitions
    )
    return list(dict.fromkeys(found))


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Group partitions by topic. Topics and partitions keep the order of their first appearance."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return list(grouped.items())


def _decode(message: type[M], data: bytes) -> M:
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < message.MIN_VERSION:
        raise MalformedMessageError(f"{message.NAME} has no version that exists")
    body = data[_VERSION_BYTES:]
    newest = min(version, message.MAX_VERSION)
    for candidate in range(newest, message.MIN_VERSION, -1):
        try:
            return decode(message, candidate, body)
        except MalformedMessageError:
            continue
    return decode(message, message.MIN_VERSION, body)
