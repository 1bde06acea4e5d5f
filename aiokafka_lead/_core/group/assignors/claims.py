"""What each member owned before: the claims, and which of them count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ....types import TopicPartition
from .types import NO_GENERATION, Assignment, TopicPartitions


class Claim(NamedTuple):
    """What one member says it owns, and since which generation."""

    member_id: str
    partitions: Iterable[TopicPartition]
    generation: int = NO_GENERATION


class Claims:
    """All members' claims.

    A member that was away still claims what others got meanwhile: the youngest generation wins (KIP-341). Of two that
    claim a partition in the same generation none can be right about it, so nobody is held to own it.
    """

    def __init__(self, claims: Sequence[Claim], topics: TopicPartitions) -> None:
        self.owners: dict[TopicPartition, str] = {}
        """Of the partitions that exist, each one's owner, if one is known."""
        self._claimants: dict[TopicPartition, set[str]] = {}
        newest: dict[TopicPartition, int] = {}
        for claim in claims:
            for partition in dict.fromkeys(claim.partitions):
                if not 0 <= partition.partition < topics.counts.get(partition.topic, 0):
                    continue
                self._claimants.setdefault(partition, set()).add(claim.member_id)
                best = newest.get(partition)
                if best is None or claim.generation > best:
                    newest[partition] = claim.generation
                    self.owners[partition] = claim.member_id
                elif claim.generation == best:
                    self.owners.pop(partition, None)

    def must_be_given_up(self, partition: TopicPartition, by: str) -> bool:
        """Whether somebody has to let go of a partition before ``by`` may have it."""
        others = self._claimants.get(partition, set()) - {by}
        return bool(others) and self.owners.get(partition) != by

    def withhold(self, assignment: Assignment) -> Assignment:
        """The assignment without partitions that their owners must give up first (KIP-429)."""
        return {
            member_id: [partition for partition in partitions if not self.must_be_given_up(partition, member_id)]
            for member_id, partitions in assignment.items()
        }
