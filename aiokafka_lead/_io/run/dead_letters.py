"""Dead-letter topics, and the producer for all records that a run sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from ..._core.run.dead_letter import dead_letter_headers
from ..._records import ConsumerRecord
from ..._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ...config.run import DeadLetterProducer
from ...errors import TopicAuthorizationFailedError, UnsupportedVersionError
from ...types import Header

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery
    from ..client import Client

MISSING_AFTER_MS = 10_000.0
"""Milliseconds after which a topic that brokers do not know counts as missing."""

NOT_SAID = -(2**31)
READ, WRITE = 3, 4
"""Bits of these permissions in a broker's authorized operations (`AclOperation`; KIP-430)."""

_NAMES = {READ: "read", WRITE: "write to"}

LARGE_BYTES = 64 * 1024
"""Size in bytes from which records are compressed. Otherwise, they might be too large for the topic."""


class BySize:
    """Sends small records with one producer, and large records with another that compresses them."""

    def __init__(self, small: Any, begin_large: Callable[[], Awaitable[Any]]) -> None:
        """Send small records with ``small``. ``begin_large`` is called once, for the first large record."""
        self._client = small._client
        self._small = small
        self._begin_large = begin_large
        self._large: Any = None
        self._beginning = anyio.Lock()
        self.partitions_for = small.partitions_for

    async def sender(self, size: int) -> Any:
        """Return the producer for records, given the size in bytes of the largest one."""
        if size < LARGE_BYTES:
            return self._small
        async with self._beginning:
            if self._large is None:
                self._large = await self._begin_large()
        return self._large

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: list[Header] | None = None,
    ) -> Delivery:
        """Send a record. See `Producer.send`."""
        size = len(value or b"") + len(key or b"") + sum(len(content or b"") for _, content in headers or ())
        sender = await self.sender(size)
        delivery: Delivery = await sender.send(topic, value, key, partition, timestamp_ms, headers)
        return delivery


class DeadLetters:
    """Sends records to the dead-letter topic of a run."""

    def __init__(self, producer: DeadLetterProducer, topic: str, group_id: str | None) -> None:
        self._producer = producer
        self.topic = topic
        self._group_id = group_id

    async def check(self) -> None:
        """Raise an error if the topic is missing or not writable. Call this before the first dead letter is sent."""
        client = getattr(self._producer, "_client", None)
        if client is None:
            await self._producer.partitions_for(self.topic)
        else:
            await check_writable(client, self.topic)

    async def send(
        self, record: ConsumerRecord[Any, Any], error: BaseException, attempts: int, *, brief: bool = False
    ) -> Delivery:
        """Send a dead letter, and return its delivery.

        With ``brief``, the dead letter describes the error only by its class. Its timestamp is the current time, so
        that the topic's retention begins now. The headers contain the record's timestamp.
        """
        headers = dead_letter_headers(record, error, attempts, self._group_id, brief=brief)
        delivery: Delivery = await self._producer.send(self.topic, record.value, record.key, headers=headers)
        return delivery


async def check_writable(client: Client, topic: str) -> int:
    """Check that the client may write to a topic. Return the topic's number of partitions.

    Raises `UnknownTopicOrPartitionError` if the topic does not exist, and `TopicAuthorizationFailedError` if brokers
    report that the client may not write to it (from Apache Kafka 2.3 on).
    """
    client.check()
    within_ms = min(MISSING_AFTER_MS, getattr(client.config, "max_block_ms", MISSING_AFTER_MS))
    known = await client.metadata.topic(topic, within_ms)
    for found in await described(client, [topic]):
        check_rights(found, WRITE)
    return len(known.partitions)


async def described(client: Client, topics: Iterable[str]) -> Sequence[MetadataResponseTopic]:
    """Return the metadata of these topics. It includes the client's permissions if brokers report them."""
    # Import these here, because most runs need neither dead letters nor retry topics.
    from ..admin import Calls
    from ..admin_requests import Route

    names = [MetadataRequestTopic(name=topic) for topic in topics]
    request = MetadataRequest(topics=names, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    calls = Calls(client, client.config.request_timeout_ms)
    deadline = calls.deadline(None)
    try:
        response = await calls.call(Route.ANY, request, deadline)
    except UnsupportedVersionError:
        request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
        response = await calls.call(Route.ANY, request, deadline)
    return response.topics


def check_rights(found: MetadataResponseTopic, *wanted: int) -> None:
    """Raise `TopicAuthorizationFailedError` if brokers report that the client lacks any of these permissions."""
    operations = found.topic_authorized_operations
    if operations != NOT_SAID and not all(operations >> right & 1 for right in wanted):
        rights = " and ".join(_NAMES[right] for right in wanted)
        raise TopicAuthorizationFailedError(f"run() is not authorized to {rights} {found.name}")
