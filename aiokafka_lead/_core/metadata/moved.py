"""The differences between successive snapshots, for listeners."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import TypeAlias

from .types import ClusterSnapshot, PartitionMetadata, TopicMetadata


class Moved:
    """The difference between two snapshots.

    It is computed lazily, once, and only for the topics that are queried: there may be thousands of other topics, and
    hundreds of clients that query.
    """

    __slots__ = ("_brokers", "_found", "_led", "_topics", "after", "before", "partitions")

    def __init__(
        self, before: ClusterSnapshot, after: ClusterSnapshot, partitions: Collection[tuple[str, int]] | None = None
    ) -> None:
        """Compare two snapshots; ``partitions`` lists the only ones that differ, if the caller knows."""
        self.before = before
        self.after = after
        self.partitions = after.moved_since(before) if partitions is None else partitions
        """The only partitions that may differ, by topic and number, after leader hints; None if `of` must compare."""
        self._found: dict[str, Collection[int]] = {}
        self._led: dict[str, Collection[int]] = {}
        self._brokers: frozenset[int] | None = None
        self._topics: bool | None = None

    @property
    def brokers(self) -> frozenset[int]:
        """Brokers that were added, removed, or have moved."""
        if self._brokers is None:
            before, after = self.before.brokers, self.after.brokers
            ids = () if before is after else before.keys() | after.keys()
            self._brokers = frozenset(node_id for node_id in ids if before.get(node_id) != after.get(node_id))
        return self._brokers

    @property
    def topics(self) -> bool:
        """True if more than partitions differs: a topic was added or removed, or has another id, error or size."""
        if self._topics is None:
            before, after = self.before.topics, self.after.topics
            self._topics = self.partitions is None and (
                before.keys() != after.keys()
                or any(_is_another(topic, after[name]) for name, topic in before.items() if topic is not after[name])
            )
        return self._topics

    def of(self, topic: str) -> Collection[int]:
        """Return the topic's partitions that differ: all, if the topic was created, deleted, or recreated."""
        found = self._found.get(topic)
        if found is None:
            found = self._found[topic] = self._look_for(topic, _whole)
        return found

    def led(self, topic: str) -> Collection[int]:
        """Return them like `of`, but existing partitions only if their leader or leader epoch differs.

        When a broker leaves or returns, the partitions of all its replicas differ in some way.
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
"""Called with each new snapshot, and its difference from the previous one."""


class _Listener:
    """A listener, and the snapshot with which it was last called."""

    __slots__ = ("call", "seen")

    def __init__(self, call: MetadataListener, seen: ClusterSnapshot) -> None:
        self.call = call
        self.seen = seen


class Listeners:
    """Calls each listener with every snapshot, and its difference from the last one that this listener saw."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._latest = snapshot
        self._listeners: list[_Listener] = []

    def add(self, call: MetadataListener) -> None:
        """Call this from the next snapshot on. A listener may be added several times."""
        self._listeners.append(_Listener(call, self._latest))

    def remove(self, call: MetadataListener) -> None:
        """Undo `add`."""
        self._listeners.remove(next(listener for listener in self._listeners if listener.call == call))

    def notify(self, snapshot: ClusterSnapshot, moved: Collection[tuple[str, int]] | None) -> None:
        """Call every listener; ``moved`` lists the only partitions that differ, if the caller knows."""
        differences = {self._latest.generation: Moved(self._latest, snapshot, moved)}
        self._latest = snapshot
        for listener in tuple(self._listeners):
            if self._latest is not snapshot:
                return  # an earlier listener has caused a newer one, with which all have been called
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
    """Return the indices at which two topics' partitions differ in ``what``."""
    pairs = enumerate(zip(before, after, strict=False))
    differ = {index for index, (old, new) in pairs if old is not new and what(old) != what(new)}
    shorter, longer = sorted((len(before), len(after)))
    return differ.union(range(shorter, longer))
