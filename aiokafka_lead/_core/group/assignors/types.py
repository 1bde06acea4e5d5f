"""Types of assignors, which are pure functions from members and partitions to an assignment, and members' claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...._cpython import naming
from ...._values import NamedTuple
from ....types import TopicPartition
from ...metadata.types import ClusterSnapshot

Assignment = dict[str, list[TopicPartition]]
"""Partitions by member id; every member has an entry."""

NO_GENERATION = -1
"""The generation of a member that has not been in any."""

_NO_RACKS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """Subscription of a group's member, as the member sends it and the leader gets it (Java: ``Subscription``)."""

    member_id: str
    topics: tuple[str, ...]
    """Subscribed topics; some may not exist."""
    owned: tuple[TopicPartition, ...] = ()
    """Partitions that it owns and would keep (KIP-429); empty if it gave up all partitions before it joined."""
    generation: int = NO_GENERATION
    """Generation in which it got the owned partitions (KIP-792); -1 if it reports none."""
    group_instance_id: str | None = None
    """``group_instance_id`` of a static member (KIP-345), else None."""
    user_data: bytes | None = None
    """Result of the member's `GroupAssignor.user_data`."""
    rack: str | None = None
    """Rack of the member (KIP-881): its ``client_rack``."""


naming.show_in("aiokafka_lead", MemberSubscription)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """The partitions to be assigned."""

    counts: Mapping[str, int]
    """Number of partitions by topic. A topic that is absent, or has 0 partitions, is not assigned."""
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)
    """Racks of the replicas, by topic and partition (KIP-881). Topics may be absent."""

    @classmethod
    def from_snapshot(cls, snapshot: ClusterSnapshot, topics: Iterable[str]) -> TopicPartitions:
        """Return these topics with their partitions in the client's metadata, without unknown topics."""
        rack_of = {node_id: broker.rack for node_id, broker in snapshot.brokers.items() if broker.rack}
        counts: dict[str, int] = {}
        racks: dict[str, list[frozenset[str]]] = {}
        # Few different sets of replicas are shared by many partitions.
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
        """Return the known racks of a partition's replicas."""
        racks = self.racks.get(topic, ())
        return racks[partition] if partition < len(racks) else _NO_RACKS


naming.show_in("aiokafka_lead", TopicPartitions)


class GroupAssignor(Protocol):
    """Assigns a classic group's partitions to its members; runs in the client that leads the group.

    ``partition_assignment_strategy`` accepts instances of your classes with these members, along with the built-in
    names. All members of a group need a name in common, and should have the same assignor under it.
    """

    @property
    def name(self) -> str:
        """Name under which members report to the coordinator that they support the assignor, such as "range"."""
        ...

    @property
    def cooperative(self) -> bool:
        """True if members keep their partitions during a rebalance (KIP-429).

        `assign` must then leave out a partition that another member still owns. It is assigned in the next rebalance,
        which that member requests once it has given the partition up.
        """
        ...

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return a member's message to the leader, or None; called before each JoinGroup.

        ``owned`` is the member's last assignment, even if it was given up, and ``generation`` the generation of that.
        """
        ...

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        """Return the partitions of every member, by member id.

        The result must depend only on the arguments, and not on the order of the members.
        """
        ...


naming.show_in("aiokafka_lead", GroupAssignor)


def java_order(text: str) -> bytes:
    """Return a key that sorts strings like Java, by UTF-16 units: all clients must see the same order."""
    return text.encode("utf-16-be", "surrogatepass")


def member_order(member: MemberSubscription) -> tuple[bool, bytes]:
    """Return a key that sorts members like Java's ``MemberInfo``: static members first, by instance id (KIP-345)."""
    if member.group_instance_id is not None:
        return False, java_order(member.group_instance_id)
    return True, java_order(member.member_id)


def racks_matter(members: Iterable[str | None], topics: TopicPartitions, names: Iterable[str]) -> bool:
    """Return True if members and replicas share racks, and not every rack has a replica of every partition."""
    member_racks = {rack for rack in members if rack}
    if not member_racks:
        return False
    sets = {topics.partition_racks(name, index) for name in names for index in range(topics.counts[name])}
    everywhere = frozenset[str]().union(*sets)
    return not everywhere.isdisjoint(member_racks) and sets != {everywhere}


class Claim(NamedTuple):
    """Partitions that a member reports to own, and its generation."""

    member_id: str
    partitions: Iterable[TopicPartition]
    generation: int = NO_GENERATION


class Claims:
    """Claims of all members.

    A member that returns after a while may claim partitions that other members have by now, so the claim of the newest
    generation counts (KIP-341). If two members claim a partition in the same generation, the partition counts as free.
    """

    def __init__(self, claims: Sequence[Claim], topics: TopicPartitions) -> None:
        self.owners: dict[TopicPartition, str] = {}
        """Owners of the claimed partitions, without partitions that do not exist or count as free."""
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
