"""What a client knows about its cluster: immutable values that any task may keep and read without a lock.

A `ClusterSnapshot` is replaced as a whole whenever something was learnt. What did not change is the same object in the
old and the new snapshot (``old.topics["a"] is new.topics["a"]``), so that a listener finds out cheaply what moved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar
from uuid import UUID

from ...errors import FencedLeaderEpochError, NotLeaderOrFollowerError
from ...errors.shown import shown

_K = TypeVar("_K")
_V = TypeVar("_V")

NO_LEADER = -1
"""The leader id of a partition that has no leader, as far as the client knows."""

NO_EPOCH = -1
"""The leader epoch of a partition whose epoch the cluster did not tell."""

NO_TOPIC_ID = UUID(int=0)
"""The topic id of a topic whose id the cluster did not tell (Metadata before version 10)."""


def is_another(topic_id: UUID, later: UUID) -> bool:
    """Return True if a topic's name stands for another topic later. An id that is not known says nothing."""
    return NO_TOPIC_ID not in (topic_id, later) and topic_id != later


class Broker(NamedTuple):
    """A broker and where it listens. Negative ids are bootstrap servers, whose real ids are not known yet."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.node_id} ({shown(self.host)}:{self.port})"


class PartitionMetadata(NamedTuple):
    """One partition as the client sees it (a tuple, because thousands of them are made in one go)."""

    topic: str
    partition: int
    leader_id: int = NO_LEADER
    """The node to produce to, or -1 while there is none."""
    leader_epoch: int = NO_EPOCH
    """Counts the partition's leaders within one topic id; -1 where it is not known."""
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


class TopicMetadata(NamedTuple):
    """One topic as the client sees it.

    ``partitions`` is indexed by the partition's number. It is empty where the cluster answered with nothing but
    ``error_code`` (an unknown topic, say); it may also be filled while ``error_code`` is set, when the error is recent
    and may be the view of a broker that lags behind.
    """

    name: str
    topic_id: UUID = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[PartitionMetadata, ...] = ()
    error_code: int = 0


class LeaderHint(NamedTuple):
    """What a broker that no longer leads a partition says about its leader (KIP-951).

    ``topic_id`` is the incarnation that the refused request was sent for. ``endpoint`` is the leader's entry in the
    response's ``NodeEndpoints``, or None where it has none.
    """

    topic: str
    topic_id: UUID
    partition: int
    leader_id: int
    leader_epoch: int
    endpoint: Broker | None
    error_code: int
    """One of `HINT_ERRORS`, else the hint does not count."""


HINT_ERRORS = frozenset({NotLeaderOrFollowerError.code, FencedLeaderEpochError.code})
"""The only errors that come with a hint (KIP-951)."""


class ClusterSnapshot:
    """Everything that the client knows about the cluster at one moment; never changes.

    Hot loops use the methods: leaders that moved lately are kept apart from ``topics`` and are merged into it when it
    is first looked at, so that one moved partition does not cost a copy of thousands.
    """

    __slots__ = ("_moved", "_topics", "brokers", "cluster_id", "controller_id", "generation", "topic_names")

    def __init__(
        self,
        generation: int = 0,
        cluster_id: str | None = None,
        controller_id: int = -1,
        brokers: Mapping[int, Broker] | None = None,
        topics: Mapping[str, TopicMetadata] | None = None,
        topic_names: Mapping[UUID, str] | None = None,
        moved: Mapping[tuple[str, int], PartitionMetadata] | None = None,
    ) -> None:
        self.generation = generation
        """Grows with every snapshot, whatever changed."""
        self.cluster_id = cluster_id
        """None until a broker has said it."""
        self.controller_id = controller_id
        """Where requests for the controller go: in KRaft any broker, which forwards them. -1 while unknown."""
        self.brokers = _frozen(brokers)
        """By node id. Bootstrap servers (ids -1, -2, ...) until the first answer and during a rebootstrap."""
        self.topic_names = _frozen(topic_names)
        """Names by topic id, of topics that have one."""
        self._topics = _frozen(topics)
        self._moved = _frozen(moved)
        """Partitions that replace those in ``_topics``, by topic and partition."""

    @property
    def topics(self) -> MappingProxyType[str, TopicMetadata]:
        """Every topic that was asked for and answered, those with errors too."""
        if self._moved:
            self._topics, self._moved = _frozen(merge_moved(self._topics, self._moved)), _frozen(None)
        return self._topics

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """The partition, or None if the topic is not known or does not have it."""
        if self._moved:
            moved = self._moved.get((topic, partition))
            if moved is not None:
                return moved
        found = self._topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def lacks(self, topic: str, partition: int) -> bool:
        """Return True if the cluster was asked for the topic and does not have it, or not this partition."""
        return topic in self._topics and self.partition(topic, partition) is None

    def leader(self, topic: str, partition: int) -> tuple[int, int]:
        """The partition's leader and leader epoch; -1 each where it is not known."""
        found = self.partition(topic, partition)
        return (NO_LEADER, NO_EPOCH) if found is None else (found.leader_id, found.leader_epoch)

    def leading(self, nodes: Collection[int]) -> set[int]:
        """Those of these nodes that lead a partition of any topic."""
        if not nodes:
            return set()
        leaders = {partition.leader_id for topic in self.topics.values() for partition in topic.partitions}
        return leaders.intersection(nodes)

    @property
    def has_rivals(self) -> bool:
        """Whether another broker than the one that is known might lead a partition: one is known, or has a replica."""
        if len(self.brokers) != 1:
            return True
        return any(set(p.replicas) - self.brokers.keys() for topic in self.topics.values() for p in topic.partitions)

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; 0 if it is not known."""
        found = self._topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def topic_id(self, topic: str) -> UUID:
        """The topic's id, or `NO_TOPIC_ID`."""
        found = self._topics.get(topic)
        return NO_TOPIC_ID if found is None else found.topic_id

    def moved_since(self, old: ClusterSnapshot) -> Collection[tuple[str, int]] | None:
        """The only partitions that may differ from an earlier snapshot, where that is known; else compare topics."""
        return self._moved.keys() | old._moved.keys() if self._topics is old._topics else None

    def with_moved(
        self, moved: Mapping[tuple[str, int], PartitionMetadata], brokers: Mapping[int, Broker]
    ) -> ClusterSnapshot:
        """The next snapshot, with these partitions instead of the present ones; their topics must be known."""
        topics, so_far = self._topics, self._moved
        if len(so_far) + len(moved) > MOVED_AT_MOST:
            topics, so_far = self.topics, _frozen(None)
        return ClusterSnapshot(
            self.generation + 1,
            self.cluster_id,
            self.controller_id,
            brokers,
            topics,
            self.topic_names,
            {**so_far, **moved},
        )

    def __repr__(self) -> str:
        return (
            f"ClusterSnapshot(generation={self.generation}, cluster_id={self.cluster_id!r}, "
            f"brokers={[str(broker) for broker in self.brokers.values()]}, topics={sorted(self._topics)})"
        )


MOVED_AT_MOST = 128
"""Beyond this many moved partitions a copy of the topics is cheaper than dragging them along."""


def merge_moved(
    topics: MappingProxyType[str, TopicMetadata], moved: Mapping[tuple[str, int], PartitionMetadata]
) -> dict[str, TopicMetadata]:
    """A copy of the topics with the moved partitions in their places."""
    merged = topics.copy()
    edits: dict[str, list[PartitionMetadata]] = {}
    for (name, partition), entry in moved.items():
        if name not in edits:
            edits[name] = list(topics[name].partitions)
        edits[name][partition] = entry
    for name, partitions in edits.items():
        merged[name] = topics[name]._replace(partitions=tuple(partitions))
    return merged


def _frozen(mapping: Mapping[_K, _V] | None) -> MappingProxyType[_K, _V]:
    return mapping if isinstance(mapping, MappingProxyType) else MappingProxyType(mapping or {})
