"""Members' claims to the partitions they owned before, and their validity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...._values import NamedTuple
from ....types import TopicPartition
from .types import NO_GENERATION, Assignment, TopicPartitions


class Claim(NamedTuple):
    """Partitions that one member says it owns, and the generation since which it does."""

    member_id: str
    partitions: Iterable[TopicPartition]
    generation: int = NO_GENERATION


class Claims:
    """Claims of all members.

    A member that was away still claims partitions that other members got meanwhile: the newest generation wins
    (KIP-341). If two members claim a partition in the same generation, neither can be trusted, and the partition counts
    as free.
    """

    def __init__(self, claims: Sequence[Claim], topics: TopicPartitions) -> None:
        self.owners: dict[TopicPartition, str] = {}
        """Owner of each existing partition, if known."""
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
        """Return True if another member has to give up a partition before ``by`` may have it."""
        others = self._claimants.get(partition, set()) - {by}
        return bool(others) and self.owners.get(partition) != by

    def withhold(self, assignment: Assignment) -> Assignment:
        """Return the assignment without partitions that their owners must give up first (KIP-429)."""
        return {
            member_id: [partition for partition in partitions if not self.must_be_given_up(partition, member_id)]
            for member_id, partitions in assignment.items()
        }
