"""Cluster metadata in aiokafka's form."""

from __future__ import annotations

from collections.abc import Mapping

from .._core.metadata.types import NO_LEADER
from .._io.client import Client
from ..types import TopicPartition
from .structs import BrokerMetadata

__all__ = ["AssignableCluster", "ClusterMetadata"]


class AssignableCluster:
    """The partitions of a group's topics, for an assignor."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the topic's partitions, or None for an unknown topic."""
        count = self._counts.get(topic)
        return None if count is None else set(range(count))

    def topics(self) -> set[str]:
        """Return the known topics."""
        return set(self._counts)


class ClusterMetadata:
    """A native client's latest metadata, with aiokafka's methods."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def cluster_id(self) -> str | None:
        """Return the cluster's id, or None until a broker has reported it."""
        return self._client.metadata.snapshot.cluster_id

    @property
    def controller(self) -> BrokerMetadata | None:
        """Return the broker that accepts requests for the controller, or None."""
        return self.broker_metadata(self._client.metadata.snapshot.controller_id)

    def brokers(self) -> set[BrokerMetadata]:
        """Return every known broker."""
        return {BrokerMetadata(*broker) for broker in self._client.metadata.snapshot.brokers.values()}

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """Return a broker by its id, or None."""
        broker = self._client.metadata.snapshot.brokers.get(broker_id)
        return None if broker is None else BrokerMetadata(*broker)

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Return the topics in this client's metadata."""
        return {
            topic.name
            for topic in self._client.metadata.snapshot.topics.values()
            if topic.partitions and not (exclude_internal_topics and topic.is_internal)
        }

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the topic's partitions, or None for a topic that is not in the metadata."""
        count = self._client.metadata.snapshot.partition_count(topic)
        return set(range(count)) if count else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the topic's partitions that have a leader, or None for a topic that is not in the metadata."""
        partitions = self.partitions_for_topic(topic)
        if partitions is None:
            return None
        leader = self._client.metadata.snapshot.leader
        return {number for number in partitions if leader(topic, number)[0] != NO_LEADER}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Return the partition's leader, -1 if it has none, or None for an unknown partition."""
        snapshot = self._client.metadata.snapshot
        if not 0 <= partition.partition < snapshot.partition_count(partition.topic):
            return None
        return snapshot.leader(*partition)[0]
