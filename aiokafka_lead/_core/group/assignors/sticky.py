"""Sticky assignment: as even as possible, and then with few moves (KIP-54). Eager, or cooperative (KIP-429).

If the members subscribe to different topics, "even" means that no series of moves would make the loads more even. The
result is at least as even as with Java's assignor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import groupby, pairwise

from ...._wire import Message, Struct, decode, encode
from ....errors import MalformedMessageError
from ....types import TopicPartition
from .consumer_protocol import partitions_by_topic
from .types import (
    NO_GENERATION,
    Assignment,
    Claim,
    Claims,
    MemberSubscription,
    TopicPartitions,
    member_order,
    racks_matter,
)

# --- user data --------------------------------------------------------------------------------------------------------
#
# A member's earlier partitions and their generation, in the format of Java's sticky assignors.
#
# The format has no version number. A member that uses "sticky" gives up all partitions before it joins, so it sends its
# last assignment and, since KIP-341, the generation. A member that uses "cooperative-sticky" sends only the generation,
# because its partitions are part of the subscription.


class _TopicAssignment(Struct):
    __slots__ = ("partitions", "topic")
    FIELDS = ("topic string 0+", "partitions []int32 0+")

    def __init__(self, *, topic: str = "", partitions: Sequence[int] = ()) -> None:
        self.topic = topic
        self.partitions = partitions


class _StickyUserData(Message):
    __slots__ = ("generation", "previous_assignment")
    FIELDS = ("previous_assignment []_TopicAssignment 0+", "generation int32 1+ = -1")
    NAME = "StickyAssignorUserData"
    MIN_VERSION = 0
    MAX_VERSION = 1

    def __init__(
        self, *, previous_assignment: Sequence[_TopicAssignment] = (), generation: int = NO_GENERATION
    ) -> None:
        self.previous_assignment = previous_assignment
        self.generation = generation


class _CooperativeUserData(Message):
    __slots__ = ("generation",)
    FIELDS = ("generation int32 0+ = -1",)
    NAME = "CooperativeStickyAssignorUserData"
    MIN_VERSION = 0
    MAX_VERSION = 0

    def __init__(self, *, generation: int = NO_GENERATION) -> None:
        self.generation = generation


def encode_sticky(owned: Sequence[TopicPartition], generation: int) -> bytes:
    topics = [_TopicAssignment(topic=topic, partitions=partitions) for topic, partitions in partitions_by_topic(owned)]
    return encode(_StickyUserData(previous_assignment=topics, generation=generation), _StickyUserData.MAX_VERSION)


def decode_sticky(user_data: bytes | None) -> tuple[list[TopicPartition], int]:
    """Decode a member's last assignment and its generation. Returns no partitions and -1 for unreadable data."""
    if not user_data:
        return [], NO_GENERATION
    for version in (1, 0):
        try:
            found = decode(_StickyUserData, version, user_data)
        except MalformedMessageError:
            continue
        partitions = [
            TopicPartition(assigned.topic, partition)
            for assigned in found.previous_assignment
            for partition in assigned.partitions
        ]
        return partitions, found.generation
    return [], NO_GENERATION


def encode_cooperative(generation: int) -> bytes:
    return encode(_CooperativeUserData(generation=generation), 0)


def decode_cooperative(user_data: bytes | None) -> int:
    """Decode the generation of a member's last assignment. Returns -1 for unreadable data."""
    try:
        return decode(_CooperativeUserData, 0, user_data or b"").generation
    except MalformedMessageError:
        return NO_GENERATION


# --- even and sticky assignment ---------------------------------------------------------------------------------------
#
# Decides which partitions stay, which members get the free partitions, and which partitions move.
#
# Members are represented by their index. First, members keep the partitions that they own. Then, each free partition
# goes to the least loaded member that wants it. Finally, partitions move along chains of members, each of which passes
# one partition to the next, while that makes the loads more even. The optimum of this "semi-matching" is reached when
# no chain leads to a member from one with at least two partitions more. The least loaded member is served first. Once
# no chain reaches a member, none will reach it later.


def balanced(members: Sequence[MemberSubscription], topics: TopicPartitions, claims: Claims) -> Assignment:
    """Return an assignment that is as even as possible, then has few moves, and then respects racks (KIP-881).

    Because of racks, partitions are moved only if this increases the number of partitions that are near their member.
    Repeated rebalances therefore reach a stable assignment.
    """
    sticky = Balance(members, topics, claims, NO_RACKS)
    assignment = sticky.assignment()
    racks = {member.member_id: member.rack for member in members if member.rack}
    if racks_matter(racks.values(), topics, sticky.topics):
        by_rack = Balance(members, topics, claims, racks).assignment()
        if _near(by_rack, topics, racks) > _near(assignment, topics, racks):
            return by_rack
    return assignment


NO_RACKS: Mapping[str, str] = {}


def _near(assignment: Assignment, topics: TopicPartitions, racks: Mapping[str, str]) -> int:
    return sum(
        racks[member_id] in topics.partition_racks(*partition)
        for member_id in racks
        for partition in assignment[member_id]
    )


class Balance:
    """Builds one assignment, beginning with the partitions that members already own.

    ``racks`` maps member ids to racks, and is empty if racks are ignored. Invariant: ``_loads[m]`` is the number of
    partitions in ``_held[m]``. Each topic in ``_held[m]`` has at least one partition.
    """

    def __init__(
        self,
        members: Sequence[MemberSubscription],
        topics: TopicPartitions,
        claims: Claims,
        racks: Mapping[str, str],
    ) -> None:
        self._members = sorted(members, key=member_order)
        self._topics = topics
        self._claims = claims
        wanted = [frozenset(member.topics) & topics.counts.keys() for member in self._members]
        self._wanted = wanted
        self._numbers = {member.member_id: number for number, member in enumerate(self._members)}
        self._loads = [0] * len(self._members)
        self._held: list[dict[str, list[int]]] = [{} for _ in self._members]
        """Each member's partitions by topic. Partitions that it owned before come first."""
        self._kept: list[dict[str, int]] = [{} for _ in self._members]
        """The number of partitions that each member owned before and kept, by topic."""
        self._racks = [racks.get(member.member_id) for member in self._members]
        self._has_racks = bool(racks)
        self.topics = frozenset[str]().union(*wanted)
        """The topics that at least one member wants."""
        self._subscribers: dict[str, tuple[int, ...]] = {
            topic: tuple(number for number, theirs in enumerate(wanted) if topic in theirs) for topic in self.topics
        }

    def assignment(self) -> Assignment:
        free = self._keep_owned()
        if self._has_racks:
            free = self._give_within_racks(free)
            free = self._give_back(free)
        self._give_to_least_loaded(free)
        self._even_out()
        return {
            member.member_id: [
                TopicPartition(topic, partition) for topic in sorted(held) for partition in sorted(held[topic])
            ]
            for member, held in zip(self._members, self._held, strict=True)
        }

    # --- kept and free partitions ------------------------------------------------------------------------------------

    def _keep_owned(self) -> list[TopicPartition]:
        """Let members keep the partitions that they own in their rack.

        Return the others, beginning with the least wanted topics.
        """
        free: list[TopicPartition] = []
        owners = self._claims.owners
        for topic in sorted(self._subscribers, key=lambda name: (len(self._subscribers[name]), name)):
            for index in range(self._topics.counts[topic]):
                partition = TopicPartition(topic, index)
                owner = self._numbers[owners[partition]] if partition in owners else None
                if owner is not None and topic in self._wanted[owner] and self._is_near(owner, partition):
                    self._give(owner, partition)
                    self._kept[owner][topic] = self._kept[owner].get(topic, 0) + 1
                else:
                    free.append(partition)
        return free

    def _give(self, member: int, partition: TopicPartition) -> None:
        self._held[member].setdefault(partition.topic, []).append(partition.partition)
        self._loads[member] += 1

    def _give_to_least_loaded(self, free: Iterable[TopicPartition]) -> None:
        for topic, partitions in groupby(free, key=lambda partition: partition.topic):
            heap = [(self._loads[member], member) for member in self._subscribers[topic]]
            heapify(heap)
            for partition in partitions:
                member = heap[0][1]
                self._give(member, partition)
                heapreplace(heap, (self._loads[member], member))

    # --- racks (KIP-881) ---------------------------------------------------------------------------------------------

    def _is_near(self, member: int, partition: TopicPartition) -> bool:
        rack = self._racks[member]
        return rack is None or rack in self._topics.partition_racks(*partition)

    def _give_within_racks(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Give partitions to members in the same rack, up to equal shares. Return the others.

        Partitions that are near the fewest members come first.
        """
        by_rack: dict[str, list[int]] = {}
        for number, of_member in enumerate(self._racks):
            if of_member is not None:
                by_rack.setdefault(of_member, []).append(number)
        near = {
            partition: [
                member
                for rack in sorted(self._topics.partition_racks(*partition))
                for member in by_rack.get(rack, ())
                if partition.topic in self._wanted[member]
            ]
            for partition in free
        }
        share, extras = divmod(sum(self._topics.counts[topic] for topic in self.topics), len(self._members))
        extras -= sum(load > share for load in self._loads)
        left: list[TopicPartition] = []
        for partition in sorted(free, key=lambda partition: len(near[partition])):
            nearest = min(near[partition], key=lambda member: (self._loads[member], member), default=None)
            if nearest is None or self._loads[nearest] >= share + (extras > 0):
                left.append(partition)
                continue
            extras -= self._loads[nearest] == share
            self._give(nearest, partition)
        return left

    def _give_back(self, free: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Give each partition to its owner, if the owner still subscribes to the topic. Return the others.

        No member in the rack of these partitions is below its share.
        """
        left: list[TopicPartition] = []
        for partition in free:
            owner = self._claims.owners.get(partition)
            if owner is not None and partition.topic in self._wanted[self._numbers[owner]]:
                self._give(self._numbers[owner], partition)
            else:
                left.append(partition)
        return left

    # --- moves -------------------------------------------------------------------------------------------------------

    def _even_out(self) -> None:
        open_members = [number for number, topics in enumerate(self._wanted) if topics]
        while open_members:
            # The most loaded members come first. Equally loaded members keep their order.
            open_members.sort(key=lambda member: (-self._loads[member], member))
            least = open_members[-1]
            if self._loads[open_members[0]] <= self._loads[least] + 1:
                return
            chain, reached = self._find_chain(least, open_members)
            for giver, taker in pairwise(chain):
                self._move(giver, taker)
            if not chain:
                open_members = [member for member in open_members if member not in reached]

    def _find_chain(self, least: int, candidates: Sequence[int]) -> tuple[list[int], Iterable[int]]:
        """Return the shortest chain of moves to ``least`` from a member with at least two partitions more.

        If there is none, returns all visited members.
        """
        successor = {least: least}
        frontier = [least]
        enough = self._loads[least] + 2
        while frontier:
            reached: list[int] = []
            for taker in frontier:
                wanted = self._wanted[taker]
                for giver in candidates:
                    if giver in successor or wanted.isdisjoint(self._held[giver]):
                        continue
                    successor[giver] = taker
                    if self._loads[giver] >= enough:
                        chain = [giver]
                        while chain[-1] != least:
                            chain.append(successor[chain[-1]])
                        return chain, ()
                    reached.append(giver)
            frontier = reached
        return [], successor

    def _move(self, giver: int, taker: int) -> None:
        topic, place = self._best_to_move(giver, taker)
        held = self._held[giver][topic]
        kept = self._kept[giver].get(topic, 0)
        index = held.pop(place)
        if place < kept:
            self._kept[giver][topic] = kept - 1
        if not held:
            del self._held[giver][topic]
        self._loads[giver] -= 1
        self._give(taker, TopicPartition(topic, index))

    def _best_to_move(self, giver: int, taker: int) -> tuple[str, int]:
        """Return the partition that ``giver`` should pass to ``taker``, as a topic and an index in the giver's list.

        A partition in the taker's rack is preferred, then a partition that the giver did not own before, then a
        partition of the topic of which the giver has the largest surplus.
        """
        theirs, kept, wanted = self._held[taker], self._kept[giver], self._wanted[taker]
        best: tuple[bool, bool, int, str, int] | None = None
        for topic, held in self._held[giver].items():
            if topic not in wanted:
                continue
            owned = kept.get(topic, 0)
            surplus = len(held) - (len(theirs[topic]) if topic in theirs else 0)
            if self._has_racks:
                for place, index in enumerate(held):
                    is_far = not self._is_near(taker, TopicPartition(topic, index))
                    rank = (is_far, place < owned, -surplus, topic, place)
                    if best is None or rank < best:
                        best = rank
            elif best is None or (len(held) == owned, -surplus, topic) < best[1:4]:
                best = (False, len(held) == owned, -surplus, topic, len(held) - 1)
        assert best is not None, "the giver has no partition that the taker wants"
        return best[3], best[4]


class StickyAssignor:
    """The eager variant. Members give up all partitions in a rebalance and get most of them back."""

    name = "sticky"
    cooperative = False

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Encode the last assignment and its generation, even though the assignment has been given up.

        Returns None if there is no last assignment.
        """
        return None if generation == NO_GENERATION else encode_sticky(owned, generation)

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        claims = [Claim(member.member_id, *decode_sticky(member.user_data)) for member in members]
        return balanced(members, topics, Claims(claims, topics))


class CooperativeStickyAssignor:
    """The cooperative variant.

    Members keep their partitions during a rebalance. A second rebalance assigns the partitions that had to be given up.
    """

    name = "cooperative-sticky"
    cooperative = True

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return encode_cooperative(generation)

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        claims = Claims([Claim(member.member_id, member.owned, _generation(member)) for member in members], topics)
        return claims.withhold(balanced(members, topics, claims))


def _generation(member: MemberSubscription) -> int:
    return member.generation if member.generation >= 0 else decode_cooperative(member.user_data)
