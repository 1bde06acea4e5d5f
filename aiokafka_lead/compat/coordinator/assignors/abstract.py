"""Interface of assignors that an application implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ..protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

__all__ = ["AbstractPartitionAssignor"]


class AbstractPartitionAssignor(ABC):
    """Distributes partitions among the members of a group. Options take the class, not an instance."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the assignor's name, which all members of the group use."""

    @classmethod
    @abstractmethod
    def assign(
        cls, cluster: Any, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return each member's partitions. ``cluster.partitions_for_topic`` returns a topic's partitions, or None."""

    @classmethod
    @abstractmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return the metadata that a member with these subscribed topics sends to the leader."""

    @classmethod
    @abstractmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Handle the assignment of partitions to this member."""
