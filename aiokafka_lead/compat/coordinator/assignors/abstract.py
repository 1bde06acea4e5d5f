"""Interface of the application's own assignors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ..protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

__all__ = ["AbstractPartitionAssignor"]


class AbstractPartitionAssignor(ABC):
    """Distributes partitions among members. Options take classes, not instances."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name under which members announce it to the coordinator."""

    @classmethod
    @abstractmethod
    def assign(
        cls, cluster: Any, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return each member's partitions. ``cluster.partitions_for_topic`` gives a topic's partitions, or None."""

    @classmethod
    @abstractmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return the metadata that a member subscribed to these topics sends to the leader."""

    @classmethod
    @abstractmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Note the partitions that this member was assigned."""
