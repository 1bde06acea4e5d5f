"""A client's knowledge of its cluster, as immutable values that any task may keep and read without a lock.

A `ClusterSnapshot` is replaced as a whole with each change. Unchanged parts are the same objects in the old and the new
snapshot (``old.topics["a"] is new.topics["a"]``), so that a listener finds changes cheaply.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

from ..._values import NamedTuple
from ...errors import FencedLeaderEpochError, NotLeaderOrFollowerError
from ...errors.shown import shown

_K = TypeVar("_K")
_V = TypeVar("_V")

NO_LEADER = -1
"""The leader id of a partition without a leader, as far as the client knows."""

NO_EPOCH = -1
"""The leader epoch of a partition whose epoch the cluster did not provide."""

NO_TOPIC_ID = UUID(int=0)
"""The topic id of a topic whose id the cluster did not provide (Metadata before version 10)."""


def is_another(topic_id: UUID, later: UUID) -> bool:
    """Return True if a name refers to different topics by these ids. An unknown id means no difference."""
    return NO_TOPIC_ID not in (topic_id, later) and topic_id != later


class Broker(NamedTuple):
    """A broker and its address. Negative ids are bootstrap servers, whose real ids are unknown."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def endpoint(self) -> tuple[str, int]:
        """Its host and port."""
        return self.host, self.port

    def __str__(self) -> str:
        return f"{self.node_id} ({shown(self.host)}:{self.port})"


class PartitionMetadata(NamedTuple):
    """One partition in the client's view (a tuple, because thousands are created at a time)."""

    topic: str
    partition: int
    leader_id: int = NO_LEADER
    """The node to produce to, or -1 if there is none."""
    leader_epoch: int = NO_EPOCH
    """Counts the partition's leaders within one topic id; -1 if unknown."""
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


class TopicMetadata(NamedTuple):
    """One topic in the client's view.

    ``partitions`` is indexed by the partition's number. It is empty if the cluster answered with only ``error_code``
    (for example for an unknown topic); it may also be filled while ``error_code`` is set, if the error is recent and
    may be the view of a lagging broker.
    """

    name: str
    topic_id: UUID = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[PartitionMetadata, ...] = ()
    error_code: int = 0


class LeaderHint(NamedTuple):
    """A statement about a partition's leader by a broker that no longer leads it (KIP-951).

    ``topic_id`` is the incarnation that the refused request was sent for. ``endpoint`` is the leader's entry in the
    response's ``NodeEndpoints``, or None if there is none.
    """

    topic: str
    topic_id: UUID
    partition: int
    leader_id: int
    leader_epoch: int
    endpoint: Broker | None
    error_code: int
    """One of `HINT_ERRORS`; otherwise the hint does not count."""


HINT_ERRORS = frozenset({NotLeaderOrFollowerError.code, FencedLeaderEpochError.code})
"""The only errors that come with a hint (KIP-951)."""


class ClusterSnapshot:
    """The client's knowledge of the cluster at one moment; immutable.

    Hot loops use the methods: recently moved leaders are kept apart from ``topics`` and merged into it on its first
    access, so that one moved partition does not copy thousands.
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
        """Increases with every snapshot."""
        self.cluster_id = cluster_id
        """None until a broker has sent it."""
        self.controller_id = controller_id
        """Target of requests for the controller: in KRaft any broker, which forwards them. -1 while unknown."""
        self.brokers = _frozen(brokers)
        """Brokers by node id. Bootstrap servers (ids -1, -2, ...) until the first answer and during a rebootstrap."""
        self.topic_names = _frozen(topic_names)
        """Names by topic id, of topics with an id."""
        self._topics = _frozen(topics)
        self._moved = _frozen(moved)
        """Partitions that replace those in ``_topics``, by topic and partition."""

    @property
    def topics(self) -> MappingProxyType[str, TopicMetadata]:
        """Every topic that was requested and answered, including errors."""
        if self._moved:
            self._topics, self._moved = _frozen(merge_moved(self._topics, self._moved)), _frozen(None)
        return self._topics

    def partition(self, topic: str, partition: int) -> PartitionMetadata | None:
        """Return the partition, or None if it or its topic is unknown."""
        if self._moved:
            moved = self._moved.get((topic, partition))
            if moved is not None:
                return moved
        found = self._topics.get(topic)
        if found is None or not 0 <= partition < len(found.partitions):
            return None
        return found.partitions[partition]

    def lacks(self, topic: str, partition: int) -> bool:
        """Return True if the cluster was asked for the topic and lacks it, or this partition."""
        return topic in self._topics and self.partition(topic, partition) is None

    def leader(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the partition's leader and leader epoch; -1 each if unknown."""
        found = self.partition(topic, partition)
        return (NO_LEADER, NO_EPOCH) if found is None else (found.leader_id, found.leader_epoch)

    def leading(self, nodes: Collection[int]) -> set[int]:
        """Return the nodes among these that lead a partition of any topic."""
        if not nodes:
            return set()
        leaders = {partition.leader_id for topic in self.topics.values() for partition in topic.partitions}
        return leaders.intersection(nodes)

    @property
    def has_rivals(self) -> bool:
        """True if a broker other than the only known one might lead a partition: another is known, or has a replica."""
        if len(self.brokers) != 1:
            return True
        return any(set(p.replicas) - self.brokers.keys() for topic in self.topics.values() for p in topic.partitions)

    def partition_count(self, topic: str) -> int:
        """Return the topic's number of partitions; 0 if unknown."""
        found = self._topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def topic_id(self, topic: str) -> UUID:
        """Return the topic's id, or `NO_TOPIC_ID`."""
        found = self._topics.get(topic)
        return NO_TOPIC_ID if found is None else found.topic_id

    def moved_since(self, old: ClusterSnapshot) -> Collection[tuple[str, int]] | None:
        """Return the only partitions that may differ from an earlier snapshot, if known; else None: compare topics."""
        return self._moved.keys() | old._moved.keys() if self._topics is old._topics else None

    def with_moved(
        self, moved: Mapping[tuple[str, int], PartitionMetadata], brokers: Mapping[int, Broker]
    ) -> ClusterSnapshot:
        """Return the next snapshot, with these partitions replaced; their topics must be known."""
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
"""Beyond this number of moved partitions, copying the topics is cheaper than carrying them along."""


def merge_moved(
    topics: MappingProxyType[str, TopicMetadata], moved: Mapping[tuple[str, int], PartitionMetadata]
) -> dict[str, TopicMetadata]:
    """Return a copy of the topics with the moved partitions in place."""
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
