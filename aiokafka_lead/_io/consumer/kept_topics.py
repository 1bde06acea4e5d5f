"""Topics whose metadata is kept for a consumer."""

from __future__ import annotations

from collections.abc import Iterable

from ..._core.consumer.subscription import Subscription
from ..._core.metadata.types import ClusterSnapshot
from ...types import TopicPartition
from ..client import Client

BEYOND_ANY_PARTITION = 2**31


class KeptTopics:
    """Subscribed topics, and those whose partitions a group's leader has to know."""

    def __init__(self, client: Client, subscription: Subscription) -> None:
        self._client = client
        self._subscription = subscription
        self._interest: frozenset[str] = frozenset()
        """Topics that the group's leader needs to know."""
        self._topics: frozenset[str] = frozenset()
        """Topics whose metadata is kept now."""
        self._first_counts: dict[str, int] = {}
        """Number of partitions of each subscribed topic when it was first seen; only with a group."""

    def keep(self, interest: frozenset[str]) -> None:
        """Keep metadata of the subscription's topics and of these."""
        self._interest = interest
        before, self._topics = self._topics, self._subscription.topics | interest
        if before != self._topics:
            self._client.metadata.add_topics(self._topics - before)
            self._client.metadata.remove_topics(before - self._topics)

    def subscription_changed(self) -> None:
        """Keep the topics of the present subscription, and forget the partition counts of the earlier one."""
        self._first_counts.clear()
        self.keep(self._interest)

    def heard_of(self, topics: Iterable[str], snapshot: ClusterSnapshot) -> None:
        """Record the partition counts of those subscribed topics that the cluster has."""
        for topic in topics:
            if topic in snapshot.topics:
                self._first_counts.setdefault(topic, snapshot.partition_count(topic))

    def is_late(self, tp: TopicPartition) -> bool:
        """Return True if the partition was created while its topic was already being read."""
        return tp.partition >= self._first_counts.get(tp.topic, BEYOND_ANY_PARTITION)
