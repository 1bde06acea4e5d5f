"""Types for assignors, which are pure functions from members and partitions to an assignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...._cpython import naming
from ...._values import NamedTuple
from ....types import TopicPartition
from ...metadata.types import ClusterSnapshot

Assignment = dict[str, list[TopicPartition]]
"""The partitions by member id. Every member has an entry."""

NO_GENERATION = -1
"""Generation of a member that has never been in a generation."""

_NO_RACKS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """The subscription of one group member, as the member sends it to the leader (Java: ``Subscription``)."""

    member_id: str
    topics: tuple[str, ...]
    """The subscribed topics. Some may not exist."""
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that the member owns and would keep (KIP-429).

    Empty if it gave up all partitions before it joined.
    """
    generation: int = NO_GENERATION
    """The generation in which the member got its owned partitions (KIP-792), or -1 if it reports none."""
    group_instance_id: str | None = None
    """The ``group_instance_id`` of a static member (KIP-345), otherwise None."""
    user_data: bytes | None = None
    """The result of the member's `GroupAssignor.user_data`."""
    rack: str | None = None
    """The member's rack: its option ``client_rack`` (KIP-881), or None."""


naming.show_in("aiokafka_lead", MemberSubscription)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """The partitions of the subscribed topics, which an assignor assigns, and the racks of their replicas."""

    counts: Mapping[str, int]
    """The number of partitions by topic. Topics that are absent, or have 0 partitions, are not assigned."""
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)
    """The racks of the replicas, by topic and partition (KIP-881). Topics may be absent."""

    @classmethod
    def from_snapshot(cls, snapshot: ClusterSnapshot, topics: Iterable[str]) -> TopicPartitions:
        """Return these topics with their partitions from the client's metadata. Unknown topics are omitted."""
        rack_of = {node_id: broker.rack for node_id, broker in snapshot.brokers.items() if broker.rack}
        counts: dict[str, int] = {}
        racks: dict[str, list[frozenset[str]]] = {}
        # Many partitions have the same set of replicas, so compute the racks of each set only once.
        known: dict[tuple[int, ...], frozenset[str]] = {}
        for topic in sorted(set(topics)):
            found = snapshot.topics.get(topic)
            if found is None or not found.partitions:
                continue
            counts[topic] = len(found.partitions)
            if rack_of:
                for partition in found.partitions:
                    if partition.replicas not in known:
                        known[partition.replicas] = frozenset(rack_of[n] for n in partition.replicas if n in rack_of)
                racks[topic] = [known[partition.replicas] for partition in found.partitions]
        return cls(counts, racks)

    def partition_racks(self, topic: str, partition: int) -> frozenset[str]:
        """Return the racks of a partition's replicas, or an empty set if they are unknown."""
        racks = self.racks.get(topic, ())
        return racks[partition] if partition < len(racks) else _NO_RACKS


naming.show_in("aiokafka_lead", TopicPartitions)


class GroupAssignor(Protocol):
    """The interface of an assignor, which assigns a classic group's partitions to its members.

    ``partition_assignment_strategy`` accepts objects with these members, and the names of built-in assignors. The
    assignor runs in the client that leads the group. All members of a group must share at least one name, and should
    use the same assignor under this name. For example, this assignor suits a group whose members all subscribe to the
    same topics::

        class FirstMemberTakesAll:
            name = "first-takes-all"
            cooperative = False

            def user_data(self, topics, owned, generation):
                return None

            def assign(self, members, topics):
                first = min(member.member_id for member in members)
                everything = [TopicPartition(t, p) for t, count in topics.counts.items() for p in range(count)]
                return {m.member_id: everything if m.member_id == first else [] for m in members}

    If a method raises an error, the member's next read raises `AssignorError`.
    """

    @property
    def name(self) -> str:
        """Name of the assignor in JoinGroup requests, such as "range"."""
        ...

    @property
    def cooperative(self) -> bool:
        """True if members keep their partitions during a rebalance (KIP-429).

        `assign` must then leave out a partition that another member still owns. After giving it up, that member
        requests another rebalance, in which the partition is assigned.
        """
        ...

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return data that this member sends to the leader, or None. Called before each JoinGroup.

        ``owned`` is the member's last assignment, even if it was given up, and ``generation`` is the generation of that
        assignment.
        """
        ...

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        """Return the partitions of each member, by member id.

        The result must depend only on the arguments, and not on the order of the members.
        """
        ...


naming.show_in("aiokafka_lead", GroupAssignor)


def java_order(text: str) -> bytes:
    """Return a key that sorts strings in Java's order, by UTF-16 units. All clients must sort in the same way."""
    return text.encode("utf-16-be", "surrogatepass")


def member_order(member: MemberSubscription) -> tuple[bool, bytes]:
    """Return a key that sorts members like Java's ``MemberInfo``: static members first, by instance id (KIP-345)."""
    if member.group_instance_id is not None:
        return False, java_order(member.group_instance_id)
    return True, java_order(member.member_id)


def racks_matter(members: Iterable[str | None], topics: TopicPartitions, names: Iterable[str]) -> bool:
    """Return True if assigning by rack can make a difference to these topics.

    That is the case if a member and a replica share a rack, and some rack lacks a replica of some partition.
    ``members`` contains the rack of each member, or None.
    """
    member_racks = {rack for rack in members if rack}
    if not member_racks:
        return False
    sets = {topics.partition_racks(name, index) for name in names for index in range(topics.counts[name])}
    everywhere = frozenset[str]().union(*sets)
    return not everywhere.isdisjoint(member_racks) and sets != {everywhere}


class Claim(NamedTuple):
    """A member's claim to own partitions, and the generation in which it got them."""

    member_id: str
    partitions: Iterable[TopicPartition]
    generation: int = NO_GENERATION


class Claims:
    """Decides which member owns which partition, from the claims of all members.

    A member that was away may claim partitions that others have received since then. Only the claim of the newest
    generation counts (KIP-341). If two members claim a partition in the same generation, neither of them owns it.
    """

    def __init__(self, claims: Sequence[Claim], topics: TopicPartitions) -> None:
        self.owners: dict[TopicPartition, str] = {}
        """The owner of each claimed partition. Partitions that do not exist or have no owner are omitted."""
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
        """Return True if another member must give up a partition before the member ``by`` may have it."""
        others = self._claimants.get(partition, set()) - {by}
        return bool(others) and self.owners.get(partition) != by

    def withhold(self, assignment: Assignment) -> Assignment:
        """Return the assignment without the partitions that their owners must give up first (KIP-429)."""
        return {
            member_id: [partition for partition in partitions if not self.must_be_given_up(partition, member_id)]
            for member_id, partitions in assignment.items()
        }
