"""Types of assignors, which are pure functions from members and partitions to an assignment; members' claims."""

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
"""The generation of a member that has not been in one."""

_NO_RACKS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """Member of the group as its leader sees it, or as a member describes itself (Java: ``Subscription``)."""

    member_id: str
    topics: tuple[str, ...]
    """Topics it wants; unknown ones may be among them."""
    owned: tuple[TopicPartition, ...] = ()
    """Partitions it owns and would keep (KIP-429); empty if it gave up all of them before it joined."""
    generation: int = NO_GENERATION
    """Generation in which it got these (KIP-792), -1 if it reports none."""
    group_instance_id: str | None = None
    """Set for a static member (KIP-345)."""
    user_data: bytes | None = None
    """The assignor's own bytes."""
    rack: str | None = None
    """Rack of the member (KIP-881): its ``client_rack``."""


naming.show_in("aiokafka_lead", MemberSubscription)


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """The partitions to be assigned."""

    counts: Mapping[str, int]
    """Number of partitions by topic; a topic that is absent here, or has none, is not assigned."""
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)
    """Racks of the replicas, by topic and partition (KIP-881); topics may be absent here."""

    @classmethod
    def from_snapshot(cls, snapshot: ClusterSnapshot, topics: Iterable[str]) -> TopicPartitions:
        """Return these topics as the client's metadata shows them, without unknown ones."""
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
        """Return the racks of a partition's replicas, as far as they are known."""
        racks = self.racks.get(topic, ())
        return racks[partition] if partition < len(racks) else _NO_RACKS


naming.show_in("aiokafka_lead", TopicPartitions)


class GroupAssignor(Protocol):
    """Decides which member gets which partitions; the client of the group's leader runs it.

    Your own class with these members may stand in ``partition_assignment_strategy`` beside the built-in names. All
    members of a group need one name in common, and should do the same under it.
    """

    @property
    def name(self) -> str:
        """Name by which members tell the coordinator that they support it, such as "range"."""
        ...

    @property
    def cooperative(self) -> bool:
        """True if members keep their partitions through a rebalance (KIP-429).

        `assign` then must leave out a partition that another member still owns: it is assigned in the next rebalance,
        which the client requests once it has given partitions up.
        """
        ...

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return a member's message to the leader, made from its topics, its last assignment and its generation."""
        ...

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> Assignment:
        """Return each member's partitions. Pure: the same result for the same input, in any order of the members."""
        ...


naming.show_in("aiokafka_lead", GroupAssignor)


def java_order(text: str) -> bytes:
    """Return a key that sorts strings as Java does, by UTF-16 units: all clients must see the same order."""
    return text.encode("utf-16-be", "surrogatepass")


def member_order(member: MemberSubscription) -> tuple[bool, bytes]:
    """Return a key that sorts members as Java's ``MemberInfo`` does: static ones first, by instance id (KIP-345)."""
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
