"""Sending a run's records to dead-letter and retry topics."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from ..._core.run.failures import dead_letter_headers
from ..._core.run.options import Verdict
from ..._records import ConsumerRecord
from ..._values import NamedTuple
from ..._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from ...config.run import DeadLetterProducer
from ...errors import TopicAuthorizationFailedError, UnsupportedVersionError
from ...types import Header
from ..cancellation import face_cancellation, outlives_cancellation
from ..loop import Signal

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery
    from ..client import Client

S = TypeVar("S")

TOGETHER_S = 0.1
"""Seconds for which records wait to be sent together, because a request costs more than the records in it."""

AT_ONCE = 200
"""Number of records that are sent at once, without waiting for more."""


class Sending(NamedTuple):
    """A record to be sent to another topic.

    It keeps its slot, so it stays in hand until it has been written there.
    """

    slot: Any
    """The record's slot. None in a transaction, whose records are finished at its end."""
    record: Any
    verdict: Verdict
    error: BaseException | None = None
    """The handler's exception, or None for a record that was not handled because it follows another record."""
    attempts: int = 0
    brief: bool = False
    """True for a dead letter that was too large with the full description of its error."""


Sent = tuple[Sending, "Delivery"]


class Outgoing(Generic[S]):
    """Sends records to other topics, several at a time. The records stay in hand until they are written."""

    def __init__(
        self,
        send: Callable[[Sending], Awaitable[Delivery]],
        refused: Callable[[Sending, Exception], None],
        answered: Callable[[], None],
    ) -> None:
        """Send records with ``send``.

        ``refused`` is called with an error of ``send``. ``answered`` is called when `answers` has new entries.
        """
        self._send = send
        self._refused = refused
        self._on_answer = answered
        self.slots: set[S] = set()
        """The slots of these records."""
        self.answers: deque[Sent] = deque()
        """Records that brokers have accepted or refused."""
        self._sent: dict[object, list[Sent]] = {}
        """The sent records, by partition.

        In each list, the first record has a callback for the whole list.
        """
        self._waiting: list[Sending] = []
        """Records that have not been sent yet."""
        self._send_at = math.inf
        """Time at which the waiting records are sent (``time.monotonic()``)."""
        self._changed = Signal()
        """Set when this time has changed."""

    def add(self, sending: Sending) -> None:
        """Send a record at once, or together with others within `TOGETHER_S`."""
        self.slots.add(sending.slot)
        self._waiting.append(sending)
        # Records without an error are sent one by one for each key, so waits for more records would add up.
        if sending.error is None or len(self._waiting) >= AT_ONCE:
            self.hurry()
        elif len(self._waiting) == 1:
            self._send_at = time.monotonic() + TOGETHER_S
            self._changed.set()

    def hurry(self) -> None:
        """Send the waiting records at once, because there may be no more."""
        if self._waiting:
            self._send_at = 0.0
            self._changed.set()

    async def run(self) -> None:
        """Send records when they are due, until cancelled. Does not wait until they are written."""
        while True:
            left_s = self._send_at - time.monotonic()
            if left_s > 0:
                await self._changed.wait(None if left_s == math.inf else left_s)
                continue
            leaving, self._waiting, self._send_at = self._waiting, [], math.inf
            for sending in leaving:
                await self.send(sending)

    async def send(self, sending: Sending) -> None:
        """Send a record now. If the task is cancelled during the call, the record may be sent twice."""
        try:
            while True:
                try:
                    delivery = await self._send(sending)
                    await face_cancellation()
                    break
                except asyncio.CancelledError:
                    if not await outlives_cancellation():
                        raise
        except Exception as refusal:
            self._refused(sending, refusal)
        else:
            self._expect_answer(_way(sending), sending, delivery)

    def _expect_answer(self, way: object, sending: Sending, delivery: Delivery) -> None:
        sent = self._sent.get(way)
        if sent is None:
            sent = self._sent[way] = []
            delivery.add_done_callback(partial(self._answered, way))
        sent.append((sending, delivery))

    def _answered(self, way: object, first: Delivery) -> None:
        """Wake the task that processes answers. A connection calls this outside of tasks."""
        for sending, delivery in self._sent.pop(way):
            if delivery.done():
                self.answers.append((sending, delivery))
            else:
                self._expect_answer(way, sending, delivery)
        self._on_answer()


def _way(sending: Sending) -> object:
    """Return an object that is equal for records with the same target partition, which are answered together."""
    if sending.verdict.fate != "later":
        return sending.slot
    return sending.record.topic, sending.record.partition, sending.verdict


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
    """Sends records that could not be handled to a run's dead-letter topic."""

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
