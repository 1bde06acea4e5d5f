"""What an assignor of the application's own has to have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ..protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

__all__ = ["AbstractPartitionAssignor"]


class AbstractPartitionAssignor(ABC):
    """Decides which member gets which partitions. Classes are given, not instances."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How members tell the coordinator what they support."""

    @classmethod
    @abstractmethod
    def assign(
        cls, cluster: Any, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Each member's partitions. ``cluster.partitions_for_topic`` gives those of a topic, or None."""

    @classmethod
    @abstractmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """What a member tells the leader that wants these topics."""

    @classmethod
    @abstractmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """The member was given these partitions."""
