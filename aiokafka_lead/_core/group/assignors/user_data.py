"""User data of the sticky assignors in Java's format: a member's earlier partitions and their generation.

Neither format begins with a version. A member of "sticky" gives up all partitions before it joins, so it sends its last
assignment and, since KIP-341, the generation of that. "cooperative-sticky" sends the generation alone: the partitions
are in the subscription itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...._wire import Message, Struct, decode, encode
from ....errors import MalformedMessageError
from ....types import TopicPartition
from .consumer_protocol import partitions_by_topic
from .types import NO_GENERATION


class _TopicAssignment(Struct):
    __slots__ = ("partitions", "topic")
    FIELDS = ("topic string 0+", "partitions []int32 0+")

    def __init__(self, *, topic: str = "", partitions: Sequence[int] = ()) -> None:
        self.topic = topic
        self.partitions = partitions


class _StickyUserData(Message):
    __slots__ = ("generation", "previous_assignment")
    FIELDS = ("previous_assignment []_TopicAssignment 0+", "generation int32 1+ = -1")
    NAME = "StickyAssignorUserData"
    MIN_VERSION = 0
    MAX_VERSION = 1

    def __init__(
        self, *, previous_assignment: Sequence[_TopicAssignment] = (), generation: int = NO_GENERATION
    ) -> None:
        self.previous_assignment = previous_assignment
        self.generation = generation


class _CooperativeUserData(Message):
    __slots__ = ("generation",)
    FIELDS = ("generation int32 0+ = -1",)
    NAME = "CooperativeStickyAssignorUserData"
    MIN_VERSION = 0
    MAX_VERSION = 0

    def __init__(self, *, generation: int = NO_GENERATION) -> None:
        self.generation = generation


def encode_sticky(owned: Sequence[TopicPartition], generation: int) -> bytes:
    topics = [_TopicAssignment(topic=topic, partitions=partitions) for topic, partitions in partitions_by_topic(owned)]
    return encode(_StickyUserData(previous_assignment=topics, generation=generation), _StickyUserData.MAX_VERSION)


def decode_sticky(user_data: bytes | None) -> tuple[list[TopicPartition], int]:
    """Decode the partitions and their generation; none and -1 if the data cannot be read."""
    if not user_data:
        return [], NO_GENERATION
    for version in (1, 0):
        try:
            found = decode(_StickyUserData, version, user_data)
        except MalformedMessageError:
            continue
        partitions = [
            TopicPartition(assigned.topic, partition)
            for assigned in found.previous_assignment
            for partition in assigned.partitions
        ]
        return partitions, found.generation
    return [], NO_GENERATION


def encode_cooperative(generation: int) -> bytes:
    return encode(_CooperativeUserData(generation=generation), 0)


def decode_cooperative(user_data: bytes | None) -> int:
    """Decode the generation; -1 if the data cannot be read."""
    try:
        return decode(_CooperativeUserData, 0, user_data or b"").generation
    except MalformedMessageError:
        return NO_GENERATION
