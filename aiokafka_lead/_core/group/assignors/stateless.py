"""Assignors that depend on the subscriptions only: range and round-robin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from ....types import TopicPartition
from .types import Assignment, MemberSubscription, TopicPartitions, member_order, racks_matter

# --- range assignment -------------------------------------------------------------------------------------------------
#
# Consecutive partitions of each topic; the first members may get one more (Java: ``RangeAssignor``).
#
# Topics with the same number of partitions and the same members are co-partitioned: partition n of each goes to the
# same member. If members and replicas report their racks and not every rack has every partition, a member first gets
# partitions with a replica in its rack, as far as the sizes of the runs and the co-partitioning allow (KIP-881).


class RangeAssignor:
    """Gives each member in order consecutive partitions of each topic."""

    name = "range"
    cooperative = False

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        result: Assignment = {member.member_id: [] for member in members}
        subscribers: dict[str, list[MemberSubscription]] = {}
        for member in sorted(members, key=member_order):
            for topic in dict.fromkeys(member.topics):
                if topics.counts.get(topic):
                    subscribers.setdefault(topic, []).append(member)
        ranges = [_TopicRange(topic, topics, subscribers[topic], result) for topic in sorted(subscribers)]
        if any(each.racks_matter for each in ranges):
            _assign_within_racks(ranges)
        for each in ranges:
            each.assign()
        for partitions in result.values():
            partitions.sort()
        return result


class _TopicRange:
    """One topic: its unassigned partitions, and the number that each subscriber may still get."""

    def __init__(
        self, topic: str, topics: TopicPartitions, subscribers: Sequence[MemberSubscription], result: Assignment
    ) -> None:
        count = topics.counts[topic]
        self.count = count
        self.racks: Mapping[str, str | None] = {member.member_id: member.rack for member in subscribers}
        """Racks of the subscribers, in their order."""
        self.racks_matter = racks_matter(self.racks.values(), topics, (topic,))
        self._topic = topic
        self._topics = topics
        self._result = result
        self._unassigned = dict.fromkeys(range(count))
        """Unassigned partitions in order. A dict, because partitions are removed from the middle, too."""
        self._given = dict.fromkeys(self.racks, 0)
        self._quota, self._extras = divmod(count, len(subscribers))

    def room(self, member_id: str) -> int:
        return self._quota + (self._extras > 0) - self._given[member_id]

    def in_rack(self, member_id: str, partition: int) -> bool:
        """Return True if a replica is in the member's rack. A member without a rack is near every partition."""
        rack = self.racks[member_id]
        return rack is None or rack in self._topics.partition_racks(self._topic, partition)

    def give(self, member_id: str, partitions: Sequence[int]) -> None:
        self._result[member_id].extend(TopicPartition(self._topic, partition) for partition in partitions)
        self._given[member_id] += len(partitions)
        if self._given[member_id] > self._quota:
            self._extras -= 1
        for partition in partitions:
            del self._unassigned[partition]

    def assign(self, may_have: Callable[[str, int], bool] | None = None) -> None:
        """Fill up the subscribers in order, with all partitions or the partitions that each may have."""
        for member_id in self.racks:
            room = self.room(member_id)
            if room <= 0 or not self._unassigned:
                continue
            open_to_it = (
                partition for partition in self._unassigned if may_have is None or may_have(member_id, partition)
            )
            self.give(member_id, list(islice(open_to_it, room)))


def _assign_within_racks(ranges: Sequence[_TopicRange]) -> None:
    groups: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_TopicRange]] = {}
    for each in ranges:
        if any(each.racks.values()):
            groups.setdefault((tuple(each.racks.items()), each.count), []).append(each)
    for group in groups.values():
        if len(group) > 1:
            _assign_together(group)
        elif group[0].racks_matter:
            group[0].assign(group[0].in_rack)


def _assign_together(group: Sequence[_TopicRange]) -> None:
    """Give partition n of every topic to the same member below its limit with a replica of each in its rack, if any."""
    takers = list(group[0].racks)
    for partition in range(group[0].count):
        for member_id in takers:
            if all(each.room(member_id) > 0 and each.in_rack(member_id, partition) for each in group):
                for each in group:
                    each.give(member_id, (partition,))
                if all(each.room(member_id) <= 0 for each in group):
                    takers.remove(member_id)
                break


class RoundRobinAssignor:
    """Deals the sorted partitions of all topics to the members in turn, skipping members without the topic."""

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
    """Return for each member, by index, the first from there on that wants the topic. At least one member must."""
    takers = [0] * len(wants)
    following = wants.index(True)
    for seat in reversed(range(len(wants))):
        if wants[seat]:
            following = seat
        takers[seat] = following
    return takers
