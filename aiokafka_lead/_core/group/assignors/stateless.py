"""Assignors that depend only on the subscriptions: range and round-robin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from ....types import TopicPartition
from .types import Assignment, MemberSubscription, TopicPartitions, member_order, racks_matter

# --- range assignment -------------------------------------------------------------------------------------------------
#
# Each member gets consecutive partitions of each topic, and the first members may get one more (Java:
# ``RangeAssignor``).
#
# Topics with the same number of partitions and the same members are co-partitioned: the same member gets partition n of
# each. If members and replicas report racks, and some rack lacks some partitions, a member first gets partitions with a
# replica in its own rack. The sizes of the runs and the co-partitioning take precedence (KIP-881).


class RangeAssignor:
    """Assigns consecutive partitions of each topic to the members, in the order of the members."""

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
    """Assigns the partitions of one topic, and tracks how many more each subscriber may get."""

    def __init__(
        self, topic: str, topics: TopicPartitions, subscribers: Sequence[MemberSubscription], result: Assignment
    ) -> None:
        count = topics.counts[topic]
        self.count = count
        self.racks: Mapping[str, str | None] = {member.member_id: member.rack for member in subscribers}
        """The subscribers' racks, in the order of the subscribers."""
        self.racks_matter = racks_matter(self.racks.values(), topics, (topic,))
        self._topic = topic
        self._topics = topics
        self._result = result
        self._unassigned = dict.fromkeys(range(count))
        """The unassigned partitions in order. A dict, because partitions are also removed from the middle."""
        self._given = dict.fromkeys(self.racks, 0)
        self._quota, self._extras = divmod(count, len(subscribers))

    def room(self, member_id: str) -> int:
        return self._quota + (self._extras > 0) - self._given[member_id]

    def in_rack(self, member_id: str, partition: int) -> bool:
        """Return True if a replica is in the member's rack. A member without a rack matches every partition."""
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
        """Give unassigned partitions to the subscribers in order, each up to its remaining share.

        With ``may_have``, a subscriber gets only partitions for which ``may_have(member_id, partition)`` returns True.
        """
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
    """Assign partition n of every topic in the group to the same member.

    This is the first member below its limit that has a replica of each of these partitions in its rack. If there is
    none, the partitions are left unassigned for now.
    """
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
    """Assigns the sorted partitions of all topics to the members in turn. Skips members without the topic."""

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
            # For each turn, the member that takes it. Computed once for each topic instead of once for each partition.
            taker = _takers([topic in topics_wanted for topics_wanted in wanted])
            for partition in range(topics.counts[topic]):
                turn = taker[turn]
                hands[turn].append(TopicPartition(topic, partition))
                turn = (turn + 1) % len(ordered)
        return {member.member_id: hand for member, hand in zip(ordered, hands, strict=True)}


def _takers(wants: Sequence[bool]) -> list[int]:
    """Map the index of each member to the index of the member that takes the partition in its turn.

    A member that does not want the topic passes its turn to the next member that wants it, in a circle. At least one
    member must want it.
    """
    takers = [0] * len(wants)
    following = wants.index(True)
    for seat in reversed(range(len(wants))):
        if wants[seat]:
            following = seat
        takers[seat] = following
    return takers
