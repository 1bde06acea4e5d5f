"""Which partitions are gone, of those that a coordinator takes no offsets of."""

from __future__ import annotations

import time
from collections.abc import Collection

from ..._core.metadata.absence import MissingPartitions
from ..._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ...errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError
from ...errors.shown import PARTITIONS_NAMED, some_of
from ...types import TopicPartition
from ..asking_around import ask_anyone
from ..client import Client
from ..connection.connection import Connection

__all__ = ["UNKNOWN", "Missing", "gone"]

UNKNOWN = (UnknownTopicIdError, UnknownTopicOrPartitionError)
"""Errors by which a coordinator says that a partition does not exist, as one does that has not heard of it yet."""


class Missing:
    """Asks other brokers about such partitions, whether this client has metadata of their topics or not."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._partitions = MissingPartitions()

    async def among(
        self, refused: Collection[TopicPartition], coordinator: int, timeout_ms: float | None = None
    ) -> set[TopicPartition]:
        """Return those that the cluster has not had for a while. Ask again for the others, at the coordinator first."""
        if not refused:
            return set()
        topics = [MetadataRequestTopic(name=name) for name in sorted({tp.topic for tp in refused})]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

        async def ask(connection: Connection) -> MetadataResponse:
            return await connection.request(request)

        try:
            _, response = await ask_anyone(self._client, (), ask, timeout_ms, avoid=(coordinator,))
        except KafkaError:
            return set()
        counts = {
            topic.name or "": len(topic.partitions)
            for topic in response.topics
            if not topic.error_code or topic.error_code == UnknownTopicOrPartitionError.code
        }
        return self._partitions.judge(refused, counts, time.monotonic())


def gone(partitions: Collection[TopicPartition]) -> KafkaError:
    """Why the offsets of these were given up."""
    names = some_of(sorted(partitions), PARTITIONS_NAMED)
    return UnknownTopicOrPartitionError(f"no offset of {names} was committed: the cluster does not have it any more")
