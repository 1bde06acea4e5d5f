"""What listeners get beside a new snapshot: where it differs from the one that they got before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import TypeAlias

from .types import ClusterSnapshot, PartitionMetadata, TopicMetadata

__all__ = ["MetadataListener", "Moved"]


class Moved:
    """The difference between two snapshots.

    It is looked for when it is asked for, once, and in the topics that are asked about: there may be thousands of
    others, and hundreds of clients that ask.
    """

    __slots__ = ("_brokers", "_found", "_led", "_topics", "after", "before", "partitions")

    def __init__(
        self, before: ClusterSnapshot, after: ClusterSnapshot, partitions: Collection[tuple[str, int]] | None = None
    ) -> None:
        """``partitions``: the only ones that differ, where the caller knows."""
        self.before = before
        self.after = after
        self.partitions = after.moved_since(before) if partitions is None else partitions
        """The only partitions that may differ, by topic and number, after leader hints; None where `of` has to look."""
        self._found: dict[str, Collection[int]] = {}
        self._led: dict[str, Collection[int]] = {}
        self._brokers: frozenset[int] | None = None
        self._topics: bool | None = None

    @property
    def brokers(self) -> frozenset[int]:
        """The brokers that came, went, or are elsewhere."""
        if self._brokers is None:
            before, after = self.before.brokers, self.after.brokers
            ids = () if before is after else before.keys() | after.keys()
            self._brokers = frozenset(node_id for node_id in ids if before.get(node_id) != after.get(node_id))
        return self._brokers

    @property
    def topics(self) -> bool:
        """Whether more differs than where partitions are: a topic came or went, or has another id, error or size."""
        if self._topics is None:
            before, after = self.before.topics, self.after.topics
            self._topics = self.partitions is None and (
                before.keys() != after.keys()
                or any(_is_another(topic, after[name]) for name, topic in before.items() if topic is not after[name])
            )
        return self._topics

    def of(self, topic: str) -> Collection[int]:
        """The topic's partitions that differ: all of a topic that was made, deleted, or made anew."""
        found = self._found.get(topic)
        if found is None:
            found = self._found[topic] = self._look_for(topic, _whole)
        return found

    def led(self, topic: str) -> Collection[int]:
        """As `of`, but of partitions that are still there only those with another leader or leader epoch.

        When a broker leaves, or is back, every other replica's partition differs in something.
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
"""Called with each new snapshot, and how it differs from the one before."""


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
    """The indices at which two topics' partitions differ in this."""
    pairs = enumerate(zip(before, after, strict=False))
    differ = {index for index, (old, new) in pairs if old is not new and what(old) != what(new)}
    shorter, longer = sorted((len(before), len(after)))
    return differ.union(range(shorter, longer))
