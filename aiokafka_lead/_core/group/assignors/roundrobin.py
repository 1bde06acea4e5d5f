"""Round-robin assignment: partitions in order, dealt to the members in order (Java: ``RoundRobinAssignor``)."""

from __future__ import annotations

from collections.abc import Sequence

from ....types import TopicPartition
from .types import Assignment, MemberSubscription, TopicPartitions, member_order


class RoundRobinAssignor:
    """Deals all partitions of all topics, sorted, to the members in turn, passing over those without the topic."""

    name = "roundrobin"
    cooperative = False

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        ordered = sorted(members, key=member_order)
        wanted = [frozenset(member.topics) for member in ordered]
        hands: list[list[TopicPartition]] = [[] for _ in ordered]
        turn = 0
        for topic in sorted(frozenset[str]().union(*wanted) & topics.counts.keys()):
            # Maps each turn to the member that takes it; made once for each topic, not searched per partition.
            taker = _takers([topic in topics_wanted for topics_wanted in wanted])
            for partition in range(topics.counts[topic]):
                turn = taker[turn]
                hands[turn].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ordered)
        return {member.member_id: hand for member, hand in zip(ordered, hands, strict=True)}


def _takers(wants: Sequence[bool]) -> list[int]:
    """Return for each seat the next one, itself included, that wants the topic. At least one does."""
    takers = [0] * len(wants)
    following = wants.index(True)
    for seat in reversed(range(len(wants))):
        if wants[seat]:
            following = seat
        takers[seat] = following
    return takers
