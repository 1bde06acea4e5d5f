"""Base classes of assignors: `AbstractPartitionAssignor` for applications, and another for Kafka's assignors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from ...._core.group.assignors import ASSIGNORS, MemberSubscription, TopicPartitions
from ..protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

__all__ = ["AbstractPartitionAssignor", "BuiltinAssignor"]


class AbstractPartitionAssignor(ABC):
    """Base class of assignors, which distribute partitions among the members of a group.

    Pass the class, not an instance, in the option ``partition_assignment_strategy``.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the assignor, which all members of the group must support."""

    @classmethod
    @abstractmethod
    def assign(
        cls, cluster: Any, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return the assignment of each member, by member id.

        ``cluster.partitions_for_topic(topic)`` returns the partitions of a topic, or None for an unknown topic.
        """

    @classmethod
    @abstractmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return the metadata that a member with these subscribed topics sends to the group's leader."""

    @classmethod
    @abstractmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Handle a new assignment of this member."""


class BuiltinAssignor(AbstractPartitionAssignor):
    """Assignor of `aiokafka_lead` with aiokafka's interface, selected by its name."""

    name: ClassVar[str]  # pyright: ignore[reportIncompatibleMethodOverride]
    version = 0

    @classmethod
    def assign(
        cls, cluster: Any, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return the assignment of each member, by member id."""
        topics = sorted({topic for member in members.values() for topic in member.subscription})
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in topics}
        native = [
            MemberSubscription(member_id, tuple(member.subscription), user_data=member.user_data or None)
            for member_id, member in members.items()
        ]
        given = ASSIGNORS[cls.name].assign(native, TopicPartitions(counts))
        assignments = {}
        for member_id, partitions in given.items():
            by_topic: dict[str, list[int]] = {}
            for topic, partition in partitions:
                by_topic.setdefault(topic, []).append(partition)
            assignments[member_id] = ConsumerProtocolMemberAssignment(cls.version, sorted(by_topic.items()), b"")
        return assignments

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return the metadata that a member with these subscribed topics sends."""
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Do nothing, because the assignor has no state."""
