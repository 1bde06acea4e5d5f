"""Groups of all kinds, as the admin client returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from ..types import OffsetAndMetadata, TopicPartition
from .acl_types import AclOperation

__all__ = [
    "ClassicGroupDescription",
    "ClassicMemberDescription",
    "ConsumerGroupDescription",
    "ConsumerMemberDescription",
    "GroupListing",
    "GroupState",
    "GroupType",
    "OffsetChange",
    "ResetTo",
    "ShareGroupDescription",
    "ShareGroupOffset",
    "ShareMemberDescription",
    "StartOffsetChange",
    "StreamsGroupDescription",
    "StreamsMemberDescription",
    "StreamsSubtopology",
    "StreamsTasks",
    "ToOffset",
    "ToShifted",
]


class GroupType(StrEnum):
    """By which protocol a group's members work together."""

    CLASSIC = "classic"
    """Clients assign partitions among themselves: consumers before KIP-848, Kafka Connect and others."""
    CONSUMER = "consumer"
    """The coordinator assigns partitions (KIP-848, Kafka 4.0)."""
    SHARE = "share"
    """Members share partitions, and acknowledge single records (KIP-932, Kafka 4.1)."""
    STREAMS = "streams"
    """The coordinator assigns the tasks of Kafka Streams (KIP-1071, Kafka 4.1)."""
    UNKNOWN = "unknown"
    """A type that this client does not know, or that an older broker does not say."""

    @classmethod
    def _missing_(cls, value: object) -> GroupType:
        known = {each.value: each for each in cls}
        return known.get(str(value).lower(), cls.UNKNOWN)


class GroupState(StrEnum):
    """What a group is doing."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    """The coordinator computes who gets what (KIP-848)."""
    RECONCILING = "Reconciling"
    """Members move to what they were assigned (KIP-848)."""
    STABLE = "Stable"
    EMPTY = "Empty"
    """It has no members; its offsets may be altered, and it may be deleted."""
    DEAD = "Dead"
    NOT_READY = "NotReady"
    """A group of Kafka Streams whose topics are missing or not as they must be (KIP-1071)."""
    UNKNOWN = "Unknown"
    """A state that this client does not know, or that an older broker does not say."""

    @classmethod
    def _missing_(cls, value: object) -> GroupState:
        return cls.UNKNOWN


class GroupListing(NamedTuple):
    """A group, and the broker that coordinates it."""

    group_id: str
    type: GroupType
    """`GroupType.UNKNOWN` below Kafka 3.8."""
    state: GroupState
    """`GroupState.UNKNOWN` below Kafka 2.6."""
    protocol_type: str
    """``"consumer"`` of consumers; empty of a group that never had members."""
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class ConsumerMemberDescription:
    """A member of a consumer group, of either protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """What it has now."""
    target_assignment: tuple[TopicPartition, ...] | None = None
    """What it is to have (KIP-848); None of a group of the classic protocol."""
    member_epoch: int | None = None
    """None of a group of the classic protocol."""
    rack: str | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    is_classic: bool | None = None
    """Whether it speaks the classic protocol in a group of the new one; None where the broker does not say (4.0)."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group of consumers, of either protocol."""

    group_id: str
    type: GroupType
    state: GroupState
    partition_assignor: str
    members: tuple[ConsumerMemberDescription, ...]
    coordinator_id: int
    is_simple: bool = False
    """Whether it never had members: consumers that assign their partitions themselves keep offsets in it."""
    group_epoch: int | None = None
    """None of a group of the classic protocol."""
    target_assignment_epoch: int | None = None
    authorized_operations: frozenset[AclOperation] | None = None
    """What this user may do with it; None unless asked for."""


@dataclass(frozen=True, slots=True)
class ClassicMemberDescription:
    """A member of a group of the classic protocol; what ``metadata`` and ``assignment`` mean is the clients' own."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupDescription:
    """A group of the classic protocol: of consumers, Kafka Connect's workers or others."""

    group_id: str
    protocol_type: str
    protocol: str
    """The assignor that the members agreed on."""
    state: GroupState
    members: tuple[ClassicMemberDescription, ...]
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    """A member of a share group."""

    member_id: str
    client_id: str
    host: str
    member_epoch: int
    rack: str | None
    subscribed_topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group (KIP-932)."""

    group_id: str
    state: GroupState
    members: tuple[ShareMemberDescription, ...]
    coordinator_id: int
    group_epoch: int
    target_assignment_epoch: int
    assignor: str
    authorized_operations: frozenset[AclOperation] | None = None


class ShareGroupOffset(NamedTuple):
    """Where a share group begins in a partition: all records before it are done with."""

    start_offset: int
    leader_epoch: int | None
    lag: int | None
    """Records from there to the partition's end that are not done with; None where the broker does not say."""


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """Tasks of a member of a streams group: the partitions by subtopology."""

    active: Mapping[str, tuple[int, ...]]
    standby: Mapping[str, tuple[int, ...]]
    warmup: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class StreamsMemberDescription:
    """A member of a streams group: one thread of an application of Kafka Streams."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    member_epoch: int
    topology_epoch: int
    process_id: str
    endpoint: tuple[str, int] | None
    client_tags: Mapping[str, str]
    assignment: StreamsTasks
    target_assignment: StreamsTasks
    is_classic: bool


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """A part of a topology that is connected by no stream to the others."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    state_changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A group of Kafka Streams (KIP-1071)."""

    group_id: str
    state: GroupState
    members: tuple[StreamsMemberDescription, ...]
    coordinator_id: int
    group_epoch: int
    target_assignment_epoch: int
    topology_epoch: int | None
    """None before the first member has described its topology."""
    subtopologies: tuple[StreamsSubtopology, ...]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class ToOffset:
    """Reset each partition to this offset, or the nearest one that the partition has."""

    offset: int


@dataclass(frozen=True, slots=True)
class ToShifted:
    """Reset each partition by so many records from its committed offset, back where negative."""

    by: int


ResetTo = datetime | timedelta | int | ToOffset | ToShifted
"""Where to reset a group: to the first record at or after a time (a `datetime` with time zone, or milliseconds since
1970), of the last so much time (a `timedelta`), to an `OffsetSpec`, to an offset, or by a number of records."""


class OffsetChange(NamedTuple):
    """A committed offset before and after a reset."""

    before: OffsetAndMetadata | None
    """None where the group had none."""
    after: OffsetAndMetadata


class StartOffsetChange(NamedTuple):
    """What a reset does to a share group's start offset in a partition: None where it had not begun."""

    before: int | None
    after: int
