"""What the application asked to read, and which partitions that is now.

Without a group a subscription takes every partition of its topics. With one, the group decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum

from ...errors import KafkaError, UnknownTopicOrPartitionError, error_for_code
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot, TopicMetadata

__all__ = ["Subscription", "SubscriptionKind"]

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


REFUSALS_APART_S = 1.0
"""A refusal is not reported more often than this, however often the application asks."""


class SubscriptionKind(Enum):
    """What decides which partitions are read."""

    NONE = "none"
    ASSIGNED = "assigned"
    """The application names partitions."""
    TOPICS = "topics"
    """The application names topics."""
    PATTERN = "pattern"
    """Topics whose name matches."""


class Subscription:
    """One kind at a time; `assign`, `topics` and `pattern` replace what was there."""

    def __init__(self, *, exclude_internal_topics: bool, patience_s: float) -> None:
        self.kind = SubscriptionKind.NONE
        self.topics: frozenset[str] = frozenset()
        """In TOPICS: the names; in ASSIGNED: those of the partitions."""
        self.assigned: tuple[TopicPartition, ...] = ()
        """In ASSIGNED: the partitions."""
        self.pattern: re.Pattern[str] | None = None
        self.listener: object | None = None
        """The application's listener, if there is one: called at a group's rebalances."""
        self._exclude_internal = exclude_internal_topics
        self._patience_s = patience_s
        """How long a topic may be unknown until that is an error."""
        self._tell_at: dict[str, float] = {}
        """When a topic that is not there becomes, or again becomes, an error."""

    @property
    def by_topics(self) -> bool:
        """Whether topics or a pattern are subscribed to, and not partitions."""
        return self.kind in (SubscriptionKind.TOPICS, SubscriptionKind.PATTERN)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions."""
        self._become(SubscriptionKind.ASSIGNED)
        self.assigned = tuple(dict.fromkeys(partitions))
        self.topics = frozenset(tp.topic for tp in self.assigned)

    def subscribe(self, topics: Iterable[str], listener: object | None = None) -> None:
        """Read these topics."""
        self._become(SubscriptionKind.TOPICS)
        self.listener = listener
        self.topics = frozenset(topics)

    def match(self, pattern: re.Pattern[str], listener: object | None = None) -> None:
        """Read the topics whose whole name matches, now and later."""
        self._become(SubscriptionKind.PATTERN)
        self.listener = listener
        self.pattern = pattern

    def clear(self) -> None:
        """Read nothing."""
        self._become(SubscriptionKind.NONE)

    def _become(self, kind: SubscriptionKind) -> None:
        self.kind = kind
        self.topics = frozenset()
        self.assigned = ()
        self.pattern = None
        self.listener = None
        self._tell_at.clear()

    def matched(self, snapshot: ClusterSnapshot) -> list[str]:
        """The topics that are subscribed to and known."""
        if self.kind is SubscriptionKind.TOPICS:
            return [name for name in sorted(self.topics) if name in snapshot.topics]
        if self.pattern is None:
            return []
        return [topic.name for topic in snapshot.topics.values() if self._matches(self.pattern, topic)]

    def _matches(self, pattern: re.Pattern[str], topic: TopicMetadata) -> bool:
        if self._exclude_internal and (topic.is_internal or topic.name in INTERNAL_TOPICS):
            return False
        return pattern.fullmatch(topic.name) is not None

    def partitions(self, snapshot: ClusterSnapshot) -> tuple[TopicPartition, ...]:
        """What to read now: the application's partitions, or all of the topics'."""
        if self.kind is SubscriptionKind.ASSIGNED:
            return self.assigned
        return tuple(
            TopicPartition(name, partition.partition)
            for name in self.matched(snapshot)
            for partition in snapshot.topics[name].partitions
        )

    def problems(self, snapshot: ClusterSnapshot, now: float) -> list[tuple[str, KafkaError]]:
        """Topics, and partitions of other topics, that cannot be read, with the reason.

        They may be unknown for a while, for they may be about to be made; what the cluster refuses is reported at
        once. Either is reported again while it lasts.
        """
        former, self._tell_at = self._tell_at, {}
        found: list[tuple[str, KafkaError]] = []
        for name, kind in self._unreadable(snapshot):
            patience_s, apart_s = (self._patience_s,) * 2 if kind.retriable else (0.0, REFUSALS_APART_S)
            tell_at = former.get(name, now + patience_s)
            if now >= tell_at:
                tell_at = now + apart_s
                waited = f" (it was waited for {patience_s:g} s)" if patience_s else ""
                found.append((name, kind(f"{name} cannot be read: {kind.__doc__}{waited}")))
            self._tell_at[name] = tell_at
        return found

    def _unreadable(self, snapshot: ClusterSnapshot) -> Iterator[tuple[str, type[KafkaError]]]:
        for name in sorted(self.topics):
            topic = snapshot.topics.get(name)
            if topic is None or not topic.partitions:
                yield f"topic {name!r}", error_for_code(3 if topic is None else topic.error_code or 3)
        for tp in self.assigned:
            if snapshot.partition(*tp) is None and snapshot.partition_count(tp.topic):
                yield str(tp), UnknownTopicOrPartitionError

    def next_problem(self) -> float | None:
        """When `problems` may have something, whatever happens."""
        return min(self._tell_at.values(), default=None)
