"""Immutable values that describe a cluster. Any task may keep and read them without a lock.

Each change replaces the `ClusterSnapshot` as a whole. Unchanged parts are the same objects in the old and the new
snapshot (``old.topics["a"] is new.topics["a"]``), so comparing two snapshots is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import TypeAlias, TypeVar
from uuid import UUID

from ..._values import NamedTuple
from ...errors import FencedLeaderEpochError, NotLeaderOrFollowerError
from ...errors.shown import shown

_K = TypeVar("_K")
_V = TypeVar("_V")

NO_LEADER = -1
"""Leader id of a partition without a known leader."""

NO_EPOCH = -1
"""Leader epoch of a partition if the cluster did not provide it."""

NO_TOPIC_ID = UUID(int=0)
"""Topic id if the cluster did not provide it (Metadata before version 10)."""


def is_another(topic_id: UUID, later: UUID) -> bool:
    """Return True if these are ids of different topics of the same name. An unknown id matches every id."""
    return NO_TOPIC_ID not in (topic_id, later) and topic_id != later


class Broker(NamedTuple):
    """A broker and its address. Bootstrap servers have negative ids, because their real ids are unknown."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def endpoint(self) -> tuple[str, int]:
        """Host and port of the broker."""
        return self.host, self.port

    def __str__(self) -> str:
        return f"{self.node_id} ({shown(self.host)}:{self.port})"


class PartitionMetadata(NamedTuple):
    """One partition in the client's metadata.

    It is a tuple because a single response may create thousands.
    """

    topic: str
    partition: int
    leader_id: int = NO_LEADER
    """Id of the leader, to which records are produced, or -1."""
    leader_epoch: int = NO_EPOCH
    """Number of the current leader within one topic id, or -1 if unknown."""
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0


class TopicMetadata(NamedTuple):
    """One topic in the client's metadata.

    ``partitions`` is indexed by partition number. It is empty if the cluster answered only with ``error_code``, for
    example for an unknown topic. If both are set, the error is recent and may come from a lagging broker.
    """

    name: str
    topic_id: UUID = NO_TOPIC_ID
    is_internal: bool = False
    partitions: tuple[PartitionMetadata, ...] = ()
    error_code: int = 0


class LeaderHint(NamedTuple):
    """The leader of a partition, as named by a broker that refused a request because it no longer leads it (KIP-951).

    ``topic_id`` identifies the topic of the refused request, even if a new topic has the same name. ``endpoint`` is the
    leader's entry in the response's ``NodeEndpoints``, or None.
    """

    topic: str
    topic_id: UUID
    partition: int
    leader_id: int
    leader_epoch: int
    endpoint: Broker | None
    error_code: int
    """One of `HINT_ERRORS`. With any other error, the hint is ignored."""


HINT_ERRORS = frozenset({NotLeaderOrFollowerError.code, FencedLeaderEpochError.code})
"""The only errors that come with a leader hint (KIP-951)."""


class ClusterSnapshot:
    """The client's metadata at one time. Immutable.

    In hot loops, call the methods instead of reading ``topics``. Recently moved leaders are stored separately and
    merged into ``topics`` when it is first read, so that one moved partition does not require copying thousands.
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
        """None until a broker has reported it."""
        self.controller_id = controller_id
        """The broker that handles requests for the controller, or -1 if unknown.

        In KRaft, it may be any broker, because brokers forward the requests.
        """
        self.brokers = _frozen(brokers)
        """Brokers by node id. Before the first response and during a rebootstrap, these are the bootstrap servers."""
        self.topic_names = _frozen(topic_names)
        """Topic names by topic id. Topics whose id is unknown are absent."""
        self._topics = _frozen(topics)
        self._moved = _frozen(moved)
        """Partitions by topic and number that replace entries in ``_topics``."""

    @property
    def topics(self) -> MappingProxyType[str, TopicMetadata]:
        """All topics for which a response has arrived, including topics with errors."""
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
        """Return True if the cluster has reported on the topic, and the topic or this partition does not exist."""
        return topic in self._topics and self.partition(topic, partition) is None

    def leader(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the partition's leader and leader epoch. Each is -1 if unknown."""
        found = self.partition(topic, partition)
        return (NO_LEADER, NO_EPOCH) if found is None else (found.leader_id, found.leader_epoch)

    def leading(self, nodes: Collection[int]) -> set[int]:
        """Return the brokers among ``nodes`` that lead a partition of any topic."""
        if not nodes:
            return set()
        leaders = {partition.leader_id for topic in self.topics.values() for partition in topic.partitions}
        return leaders.intersection(nodes)

    @property
    def has_rivals(self) -> bool:
        """True if several brokers may lead a partition: several are known, or an unknown broker has a replica."""
        if len(self.brokers) != 1:
            return True
        return any(set(p.replicas) - self.brokers.keys() for topic in self.topics.values() for p in topic.partitions)

    def partition_count(self, topic: str) -> int:
        """Return the topic's number of partitions, or 0 if unknown."""
        found = self._topics.get(topic)
        return 0 if found is None else len(found.partitions)

    def topic_id(self, topic: str) -> UUID:
        """Return the topic's id, or `NO_TOPIC_ID` if it is unknown."""
        found = self._topics.get(topic)
        return NO_TOPIC_ID if found is None else found.topic_id

    def moved_since(self, old: ClusterSnapshot) -> Collection[tuple[str, int]] | None:
        """Return all partitions that may differ from an earlier snapshot, or None if the topics must be compared."""
        return self._moved.keys() | old._moved.keys() if self._topics is old._topics else None

    def with_moved(
        self, moved: Mapping[tuple[str, int], PartitionMetadata], brokers: Mapping[int, Broker]
    ) -> ClusterSnapshot:
        """Return the next snapshot, in which these partitions are replaced. Their topics must be known."""
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
"""Number of moved partitions beyond which they are merged into a copy of the topics."""


def merge_moved(
    topics: MappingProxyType[str, TopicMetadata], moved: Mapping[tuple[str, int], PartitionMetadata]
) -> dict[str, TopicMetadata]:
    """Return a copy of the topics in which the moved partitions are replaced."""
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


class Moved:
    """Finds the differences between two snapshots, for listeners to query.

    A topic's difference is computed once, when it is first queried, because there may be thousands of other topics and
    hundreds of listeners.
    """

    __slots__ = ("_brokers", "_found", "_led", "_topics", "after", "before", "partitions")

    def __init__(
        self, before: ClusterSnapshot, after: ClusterSnapshot, partitions: Collection[tuple[str, int]] | None = None
    ) -> None:
        """Compare two snapshots. ``partitions`` are all partitions that differ, or None if unknown."""
        self.before = before
        self.after = after
        self.partitions = after.moved_since(before) if partitions is None else partitions
        """All partitions that may differ after leader hints, as topic and number, or None if `of` must compare."""
        self._found: dict[str, Collection[int]] = {}
        self._led: dict[str, Collection[int]] = {}
        self._brokers: frozenset[int] | None = None
        self._topics: bool | None = None

    @property
    def brokers(self) -> frozenset[int]:
        """Brokers that were added or removed, or whose address has changed."""
        if self._brokers is None:
            before, after = self.before.brokers, self.after.brokers
            ids = () if before is after else before.keys() | after.keys()
            self._brokers = frozenset(node_id for node_id in ids if before.get(node_id) != after.get(node_id))
        return self._brokers

    @property
    def topics(self) -> bool:
        """True if more than partitions has changed: a topic was added or removed, or its id, error or size differs."""
        if self._topics is None:
            before, after = self.before.topics, self.after.topics
            self._topics = self.partitions is None and (
                before.keys() != after.keys()
                or any(_is_another(topic, after[name]) for name, topic in before.items() if topic is not after[name])
            )
        return self._topics

    def of(self, topic: str) -> Collection[int]:
        """Return the topic's partitions that differ in any way.

        If the topic was created, deleted or recreated, these are all its partitions.
        """
        found = self._found.get(topic)
        if found is None:
            found = self._found[topic] = self._look_for(topic, _whole)
        return found

    def led(self, topic: str) -> Collection[int]:
        """Return the topic's partitions that are new, or whose leader or leader epoch differs.

        Unlike `of`, this method ignores other differences, such as replicas. When a broker leaves or returns, every
        partition with a replica on it differs in some way.
        """
        found = self._led.get(topic)
        if found is None:
            found = self._led[topic] = self._look_for(topic, _leadership)
        return found

    def _look_for(self, topic: str, what: Callable[[PartitionMetadata], object]) -> Collection[int]:
        before, after = self.before.topics.get(topic), self.after.topics.get(topic)
        if before is after:
            return ()
        if before is None or after is None or before.topic_id != after.topic_id:
            return range(max(0 if known is None else len(known.partitions) for known in (before, after)))
        return _different(before.partitions, after.partitions, what)


MetadataListener: TypeAlias = Callable[[ClusterSnapshot, Moved], None]
"""Called with each new snapshot and its difference from the previous one."""


class _Listener:
    """A listener, and the snapshot with which it was last called."""

    __slots__ = ("call", "seen")

    def __init__(self, call: MetadataListener, seen: ClusterSnapshot) -> None:
        self.call = call
        self.seen = seen


class Listeners:
    """Calls each listener with every snapshot and its difference from the last one that the listener has received."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._latest = snapshot
        self._listeners: list[_Listener] = []

    def add(self, call: MetadataListener) -> None:
        """Call ``call`` with every later snapshot. A listener may be added several times."""
        self._listeners.append(_Listener(call, self._latest))

    def remove(self, call: MetadataListener) -> None:
        """Undo one call of `add` with this listener."""
        self._listeners.remove(next(listener for listener in self._listeners if listener.call == call))

    def notify(self, snapshot: ClusterSnapshot, moved: Collection[tuple[str, int]] | None) -> None:
        """Call every listener. ``moved`` contains all partitions that differ, or is None if unknown."""
        differences = {self._latest.generation: Moved(self._latest, snapshot, moved)}
        self._latest = snapshot
        for listener in tuple(self._listeners):
            if self._latest is not snapshot:
                # An earlier listener has caused a newer snapshot, with which all listeners have been called.
                return
            seen = listener.seen
            if seen.generation not in differences:
                differences[seen.generation] = Moved(seen, snapshot)
            listener.seen = snapshot
            listener.call(snapshot, differences[seen.generation])


_leadership = attrgetter("leader_id", "leader_epoch")


def _whole(partition: PartitionMetadata) -> object:
    return partition


def _is_another(before: TopicMetadata, after: TopicMetadata) -> bool:
    return (
        before.topic_id != after.topic_id
        or before.error_code != after.error_code
        or len(before.partitions) != len(after.partitions)
    )


def _different(
    before: Sequence[PartitionMetadata],
    after: Sequence[PartitionMetadata],
    what: Callable[[PartitionMetadata], object],
) -> set[int]:
    """Return the indices at which the partitions of two topics differ in the field ``what``."""
    pairs = enumerate(zip(before, after, strict=False))
    differ = {index for index, (old, new) in pairs if old is not new and what(old) != what(new)}
    shorter, longer = sorted((len(before), len(after)))
    return differ.union(range(shorter, longer))
