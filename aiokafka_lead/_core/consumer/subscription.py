"""Topics or partitions chosen by the application, and the resulting partitions.

A subscription without a group includes every partition of its topics. With a group, the group assigns the partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum

from ...errors import KafkaError, UnknownTopicOrPartitionError, error_for_code
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot, TopicMetadata

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


REFUSALS_APART_S = 1.0
"""Minimum number of seconds between reports of the same refusal, regardless of how often the application reads."""


class SubscriptionKind(Enum):
    """Ways of choosing the partitions to read."""

    NONE = "none"
    ASSIGNED = "assigned"
    """The application named partitions."""
    TOPICS = "topics"
    """The application named topics."""
    PATTERN = "pattern"
    """The application gave a pattern for topic names."""


_INLINE_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
"""Flags that brokers accept inside a pattern (RE2)."""

_WITHOUT_EFFECT = re.UNICODE | re.ASCII | re.DEBUG
"""Flags that make no difference, because topic names are ASCII."""


def for_brokers(pattern: re.Pattern[str]) -> str | None:
    """Return the pattern as text for brokers to match (KIP-848), including its flags.

    Returns None if a flag has no equivalent in RE2, so only Python can match the pattern.
    """
    flags = pattern.flags & ~_WITHOUT_EFFECT
    inline = "".join(letter for flag, letter in _INLINE_FLAGS.items() if flags & flag)
    if flags & ~sum(_INLINE_FLAGS):
        return None
    return f"(?{inline}){pattern.pattern}" if inline else pattern.pattern


class Subscription:
    """Tracks which topics or partitions the application has chosen.

    `assign`, `subscribe` and `match` each replace the previous choice.
    """

    def __init__(self, *, exclude_internal_topics: bool, patience_s: float) -> None:
        self.kind = SubscriptionKind.NONE
        self.topics: frozenset[str] = frozenset()
        """In TOPICS, the names. In ASSIGNED, the topics of the partitions."""
        self.assigned: tuple[TopicPartition, ...] = ()
        """The partitions in ASSIGNED. Empty in the other kinds."""
        self.pattern: re.Pattern[str] | None = None
        self.listener: object | None = None
        """The application's rebalance listener, or None."""
        self.waits_for_topics = False
        """True if missing topics are never reported as errors."""
        self._exclude_internal = exclude_internal_topics
        self._patience_s = patience_s
        """Seconds for which a topic may be missing before it is reported as an error."""
        self._tell_at: dict[str, float] = {}
        """Time at which a missing topic becomes an error, or is reported again."""

    @property
    def by_topics(self) -> bool:
        """True if the application subscribed to topics or to a pattern."""
        return self.kind in (SubscriptionKind.TOPICS, SubscriptionKind.PATTERN)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions from now on."""
        self._become(SubscriptionKind.ASSIGNED)
        self.assigned = tuple(dict.fromkeys(partitions))
        self.topics = frozenset(tp.topic for tp in self.assigned)

    def subscribe(self, topics: Iterable[str], listener: object | None = None) -> None:
        """Read all partitions of these topics from now on, or those that the group assigns."""
        self._become(SubscriptionKind.TOPICS)
        self.listener = listener
        self.topics = frozenset(topics)

    def match(self, pattern: re.Pattern[str], listener: object | None = None) -> None:
        """Replace the subscription by all present and future topics whose full name matches the pattern."""
        self._become(SubscriptionKind.PATTERN)
        self.listener = listener
        self.pattern = pattern

    def clear(self) -> None:
        """Remove the subscription or assignment, so that there is nothing to read."""
        self._become(SubscriptionKind.NONE)

    def _become(self, kind: SubscriptionKind) -> None:
        self.kind = kind
        self.topics = frozenset()
        self.assigned = ()
        self.pattern = None
        self.listener = None
        self._tell_at.clear()

    def matched(self, snapshot: ClusterSnapshot) -> list[str]:
        """Return the topics in the metadata that are subscribed to, by name or by pattern."""
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
        """Return the partitions to read now: the assigned partitions, or all partitions of the subscribed topics."""
        if self.kind is SubscriptionKind.ASSIGNED:
            return self.assigned
        return tuple(
            TopicPartition(name, partition.partition)
            for name in self.matched(snapshot)
            for partition in snapshot.topics[name].partitions
        )

    def problems(self, snapshot: ClusterSnapshot, now: float) -> list[tuple[str, KafkaError]]:
        """Return the topics and partitions that cannot be read now, each with an error.

        A topic or partition that does not exist is reported only after some time, because it may be about to be
        created. Errors returned by the cluster are reported immediately. Both are reported repeatedly while they last.
        """
        former, self._tell_at = self._tell_at, {}
        found: list[tuple[str, KafkaError]] = []
        for name, kind in self._unreadable(snapshot):
            if kind.retriable and self.waits_for_topics:
                continue
            patience_s, apart_s = (self._patience_s,) * 2 if kind.retriable else (0.0, REFUSALS_APART_S)
            tell_at = former.get(name, now + patience_s)
            if now >= tell_at:
                tell_at = now + apart_s
                waited = f" (after waiting {patience_s:g} s)" if patience_s else ""
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
        """Return the time at which the result of `problems` may change unless an event occurs first, or None."""
        return min(self._tell_at.values(), default=None)
