"""`AbstractPartitionAssignor`, the base class of an application's own assignors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ..protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

__all__ = ["AbstractPartitionAssignor"]


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
