"""Cluster metadata in aiokafka's form."""

from __future__ import annotations

from collections.abc import Mapping

from .._core.metadata.types import NO_LEADER, TopicMetadata
from .._io.client import Client
from ..types import TopicPartition
from .structs import BrokerMetadata

__all__ = ["AssignableCluster", "ClusterMetadata"]


class AssignableCluster:
    """The partitions of a group's topics, in the form that an assignor receives."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic, or None for an unknown topic."""
        count = self._counts.get(topic)
        return None if count is None else set(range(count))

    def topics(self) -> set[str]:
        """Return the known topics."""
        return set(self._counts)


class ClusterMetadata:
    """Latest metadata of a client, with the methods of aiokafka."""

    def __init__(self, client: Client, topics: Mapping[str, TopicMetadata] | None = None) -> None:
        """Create a view of these topics, or if ``topics`` is None, of the client's latest metadata."""
        self._client = client
        self._topics = topics

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, or None until a broker has reported it."""
        return self._client.metadata.snapshot.cluster_id

    @property
    def controller(self) -> BrokerMetadata | None:
        """Broker that accepts requests for the controller, or None if it is unknown."""
        return self.broker_metadata(self._client.metadata.snapshot.controller_id)

    def brokers(self) -> set[BrokerMetadata]:
        """Return all known brokers."""
        return {BrokerMetadata(*broker) for broker in self._client.metadata.snapshot.brokers.values()}

    def broker_metadata(self, broker_id: int) -> BrokerMetadata | None:
        """Return the broker with an id, or None if it is unknown."""
        broker = self._client.metadata.snapshot.brokers.get(broker_id)
        return None if broker is None else BrokerMetadata(*broker)

    def _known(self) -> Mapping[str, TopicMetadata]:
        return self._client.metadata.snapshot.topics if self._topics is None else self._topics

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Return the topics in this metadata."""
        return {
            topic.name
            for topic in self._known().values()
            if topic.partitions and not (exclude_internal_topics and topic.is_internal)
        }

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic, or None for a topic that is not in the metadata."""
        found = self._known().get(topic)
        return set(range(len(found.partitions))) if found is not None and found.partitions else None

    def available_partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic that have a leader, or None for a topic that is not in the metadata."""
        partitions = self.partitions_for_topic(topic)
        if partitions is None:
            return None
        return {number for number in partitions if self._known()[topic].partitions[number].leader_id != NO_LEADER}

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        """Return the id of a partition's leader, -1 if it has none, or None for an unknown partition."""
        found = self._known().get(partition.topic)
        if found is None or not 0 <= partition.partition < len(found.partitions):
            return None
        return found.partitions[partition.partition].leader_id

    def partitions_for_broker(self, broker_id: int) -> set[TopicPartition] | None:
        """Return the partitions that a broker leads, or None if there are none."""
        led = {
            TopicPartition(topic.name, number)
            for topic in self._known().values()
            for number, partition in enumerate(topic.partitions)
            if partition.leader_id == broker_id
        }
        return led or None
