"""Sticky assignment: even, with as few moves as that allows (KIP-54), eager or cooperative (KIP-429).

If members want different topics, "even" means that no chain of moves could even out the loads further, which is never
worse than the result of Java's assignor.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....types import TopicPartition
from .balance import balanced
from .claims import Claim, Claims
from .types import NO_GENERATION, Assignment, MemberSubscription, TopicPartitions
from .user_data import decode_cooperative, decode_sticky, encode_cooperative, encode_sticky


class StickyAssignor:
    """Eager: members give up all partitions in a rebalance, and get most of them back."""

    name = "sticky"
    cooperative = False

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Encode the last assignment and its generation, even though its partitions were given up; None at first."""
        return None if generation == NO_GENERATION else encode_sticky(owned, generation)

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        claims = [Claim(member.member_id, *decode_sticky(member.user_data)) for member in members]
        return balanced(members, topics, Claims(claims, topics))


class CooperativeStickyAssignor:
    """Cooperative: members keep their partitions; a second rebalance assigns the ones that had to be given up."""

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return encode_cooperative(generation)

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        claims = Claims([Claim(member.member_id, member.owned, _generation(member)) for member in members], topics)
        return claims.withhold(balanced(members, topics, claims))


def _generation(member: MemberSubscription) -> int:
    return member.generation if member.generation >= 0 else decode_cooperative(member.user_data)
