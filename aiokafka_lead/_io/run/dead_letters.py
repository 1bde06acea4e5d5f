"""Sends records to dead-letter and retry topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..._core.run.dead_letter import dead_letter_headers
from ..._records import ConsumerRecord
from ..._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ...config.run import DeadLetterProducer
from ...errors import TopicAuthorizationFailedError, UnsupportedVersionError

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery
    from ..client import Client

MISSING_AFTER_MS = 10_000.0
"""Time in milliseconds after which a topic that brokers do not have counts as missing."""

NOT_SAID = -(2**31)
READ, WRITE = 3, 4
"""Bits of these rights among a broker's authorized operations (`AclOperation`; KIP-430)."""

_NAMES = {READ: "read", WRITE: "write to"}


class DeadLetters:
    """Sends records to the dead-letter topic of a run."""

    def __init__(self, producer: DeadLetterProducer, topic: str, group_id: str | None) -> None:
        self._producer = producer
        self.topic = topic
        self._group_id = group_id

    async def check(self) -> None:
        """Raise an error if the topic is missing or not writable, before the first dead letter is sent."""
        client = getattr(self._producer, "_client", None)
        if client is None:
            await self._producer.partitions_for(self.topic)
        else:
            await check_writable(client, self.topic)

    async def send(self, record: ConsumerRecord[Any, Any], error: BaseException, attempts: int) -> Delivery:
        """Send a dead letter.

        Its timestamp is the present time, so that the topic's retention begins now. The record's timestamp is in the
        headers.
        """
        headers = dead_letter_headers(record, error, attempts, self._group_id)
        delivery: Delivery = await self._producer.send(self.topic, record.value, record.key, headers=headers)
        return delivery


async def check_writable(client: Client, topic: str) -> int:
    """Check that the client may write to a topic; return its number of partitions.

    Raises `UnknownTopicOrPartitionError` if the topic does not exist, and `TopicAuthorizationFailedError` if brokers
    report that the client may not write to it (Apache Kafka 2.3).
    """
    client.check()
    within_ms = min(MISSING_AFTER_MS, getattr(client.config, "max_block_ms", MISSING_AFTER_MS))
    known = await client.metadata.topic(topic, within_ms)
    for found in await described(client, [topic]):
        check_rights(found, WRITE)
    return len(known.partitions)


async def described(client: Client, topics: Iterable[str]) -> Sequence[MetadataResponseTopic]:
    """Return metadata of these topics, with the client's rights if brokers report them."""
    names = [MetadataRequestTopic(name=topic) for topic in topics]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    try:
        response = await client.request_any(request)
    except UnsupportedVersionError:
        response = await client.request_any(MetadataRequest(topics=names, allow_auto_topic_creation=False))
    return response.topics


def check_rights(found: MetadataResponseTopic, *wanted: int) -> None:
    """Raise `TopicAuthorizationFailedError` if brokers report that the client lacks any of these rights to a topic."""
    operations = found.topic_authorized_operations
    if operations != NOT_SAID and not all(operations >> right & 1 for right in wanted):
        rights = " and ".join(_NAMES[right] for right in wanted)
        raise TopicAuthorizationFailedError(f"run() may not {rights} {found.name}")
