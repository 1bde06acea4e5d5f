"""Asks other brokers about partitions whose offsets a coordinator refuses, as of a topic that was deleted."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from types import MappingProxyType
from uuid import UUID

from ..._core.metadata.absence import MissingPartitions
from ..._core.metadata.types import NO_TOPIC_ID, is_another
from ..._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ...errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError
from ...errors.shown import PARTITIONS_NAMED, some_of
from ...types import TopicPartition
from ..asking_around import ask_anyone
from ..client import Client
from ..connection.connection import Connection

UNKNOWN = (UnknownTopicIdError, UnknownTopicOrPartitionError)
"""A coordinator's errors for partitions that do not exist, or of which it has not learnt yet."""

_NO_IDS: Mapping[str, UUID] = MappingProxyType({})


class Missing:
    """Asks other brokers about partitions that are missing according to a coordinator."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._partitions = MissingPartitions()

    async def among(
        self,
        refused: Collection[TopicPartition],
        coordinator: int,
        timeout_ms: float | None = None,
        topic_ids: Mapping[str, UUID] = _NO_IDS,
    ) -> set[TopicPartition]:
        """Return those that the cluster has not had for a while. Ask again for the others, at the coordinator first.

        A topic of another id than that in ``topic_ids`` is another topic.
        """
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
            name: 0 if is_another(topic_ids.get(name, NO_TOPIC_ID), topic.topic_id) else len(topic.partitions)
            for topic in response.topics
            for name in (topic.name or "",)
            if not topic.error_code or topic.error_code == UnknownTopicOrPartitionError.code
        }
        return self._partitions.judge(refused, counts, time.monotonic())


def gone(partitions: Collection[TopicPartition]) -> KafkaError:
    """Return the reason for giving up the offsets of these partitions."""
    names = some_of(sorted(partitions), PARTITIONS_NAMED)
    return UnknownTopicOrPartitionError(f"no offset of {names} was committed: the cluster does not have it any more")
