"""Checks, serializes and traces the records that `Intake.append` does not accept, and puts them into batches."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from copy import copy
from typing import Any, Self

from ..._core.producer.batches import Record
from ..._core.producer.delivery import Delivery, DeliveryBatch
from ..._core.producer.record import (
    ANY_PARTITION,
    Serializers,
    check_headers,
    check_partition,
    check_timestamp,
    check_topic,
    given_once,
    headers_for_each,
    one_for_each,
)
from ..._core.tracing import SendTracing
from ..._cpython.clock import wall_ms
from ..._options.arguments import entries
from ..._options.serialization import WithHeaders
from ..._records.encoder import BatchBuilder
from ...config import ProducerConfig
from ...errors import BufferFull, IllegalStateError, KafkaError
from ...types import Header, Headers
from ..deadline import Deadline
from .intake import Admission, Intake, all_bytes


class CheckedSends:
    """Implements `Producer.send` and similar methods: checks and serializes the arguments, and calls the intake."""

    __slots__ = ("_awaited", "_intake", "_prepares", "_serializers", "_topics", "as_they_come", "takes_bytes")

    def __init__(self, config: ProducerConfig, intake: Intake, topics: Container[str]) -> None:
        """Pass checked records to ``intake``.

        ``topics`` contains the topics of earlier records, whose names are known to be valid.
        """
        self._intake = intake
        self._topics = topics
        self._serializers = Serializers(config.key_serializer, config.value_serializer)
        self._awaited = self._serializers.awaited
        """The option names of serializers that must be awaited."""
        self._prepares = self._serializers.prepares
        self.takes_bytes = self._serializers.plain
        """True if keys and values are sent unchanged."""
        self.as_they_come = self.takes_bytes and config.partitioner is None
        """True if records can be appended unchanged."""

    def through(self, intake: Intake) -> Self:
        """Return a copy that passes its records to another intake."""
        other = copy(self)
        other._intake = intake
        return other

    async def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
        deadline: Deadline | None = None,
    ) -> Delivery:
        """Implement `Producer.send`. Without a deadline, it waits for at most ``max_block_ms``."""
        admission = self._intake.admission
        admission.check()
        try:
            if self._awaited or self._prepares:
                record = await self._serialized(admission, topic, value, key, partition, timestamp_ms, headers)
            else:
                record = self._record(topic, value, key, partition, timestamp_ms, headers)
            delivery = self._intake.try_now(record)
            if delivery is None:
                delivery = await self._intake.wait_in_line(record, admission, deadline)
            return delivery
        except KafkaError as error:
            admission.failed(error)
            raise

    def send_nowait(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
    ) -> Delivery:
        """Implement `Producer.send_nowait`."""
        admission = self._intake.admission
        admission.check()
        if self._awaited:
            raise IllegalStateError(f"send_nowait cannot await {self._awaited}, a coroutine function: use send")
        try:
            delivery = self._intake.put_nowait(self._record(topic, value, key, partition, timestamp_ms, headers))
        except KafkaError as error:
            admission.failed(error)
            raise
        if delivery is None:
            raise BufferFull
        return delivery

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        partition: int | None,
        headers: Sequence[Header] | Sequence[Sequence[Header] | None] | None,
        timestamps_ms: Iterable[int] | None,
        deadline: Deadline | None = None,
    ) -> DeliveryBatch:
        """Implement `Producer.send_many`. Without a deadline, each record waits for at most ``max_block_ms``."""
        contents = entries("values", values, "values")
        topic = check_topic(topic)
        target = check_partition(partition)
        now_ms = wall_ms()
        count = len(contents)
        every_key = None if keys is None else one_for_each("keys", keys, count)
        admission = self._intake.admission
        admission.check()
        if self.as_they_come and timestamps_ms is None and (headers is None or given_once(headers)):
            plain_keys = None if every_key is None else all_bytes("key", every_key)
            plain_values = all_bytes("value", contents)
            pairs = check_headers(headers)
            return await self._intake.put_plain(
                topic, plain_values, plain_keys, target, now_ms, pairs, admission, deadline
            )
        every_key = every_key or [None] * count
        every_headers = headers_for_each(headers, count)
        times = [now_ms] * count if timestamps_ms is None else one_for_each("timestamps_ms", timestamps_ms, count)
        every = zip(contents, every_key, times, every_headers, strict=True)
        try:
            if self._awaited or self._prepares:
                records = [
                    await self._serialized(admission, topic, value, key, partition, time_ms, some)
                    for value, key, time_ms, some in every
                ]
            else:
                records = [
                    self._record(topic, value, key, partition, time_ms, some) for value, key, time_ms, some in every
                ]
        except KafkaError as error:
            admission.failed(error)
            raise
        return await self._intake.put_all(records, admission, deadline)

    async def send_batch(self, topic: str, partition: int, builder: BatchBuilder) -> DeliveryBatch:
        """Accept a batch that the application has filled. Waits like `send`."""
        admission = self._intake.admission
        admission.check()
        try:
            return await self._intake.put_batch(check_topic(topic), partition, builder, admission)
        except KafkaError as error:
            admission.failed(error)
            raise

    def _record(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
    ) -> Record:
        """Check and serialize the arguments of a send. Return the record to put into a batch."""
        name = topic if type(topic) is str and topic in self._topics else check_topic(topic)
        pairs = () if headers is None else check_headers(headers)
        number = ANY_PARTITION if partition is None else check_partition(partition)
        time_ms = wall_ms() if timestamp_ms is None else check_timestamp(timestamp_ms)
        serializers = self._serializers
        key_bytes = serializers.key_bytes(key, name, pairs)
        value_bytes = serializers.value_bytes(value, name, pairs)
        if self._prepares:
            key_bytes, value_bytes, pairs = _with_headers(key_bytes, value_bytes, pairs)
        return Record(name, value_bytes, key_bytes, number, time_ms, pairs)

    async def _serialized(
        self,
        admission: Admission,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
    ) -> Record:
        """Check and serialize a record with serializers that must be awaited.

        Raises an error if the producer has become unusable.
        """
        name, number, pairs = check_topic(topic), check_partition(partition), check_headers(headers)
        time_ms = wall_ms() if timestamp_ms is None else check_timestamp(timestamp_ms)
        key_bytes = await self._serializers.await_key(key, name, pairs)
        value_bytes = await self._serializers.await_value(value, name, pairs)
        admission.check()
        key_bytes, value_bytes, pairs = _with_headers(key_bytes, value_bytes, pairs)
        return Record(name, value_bytes, key_bytes, number, time_ms, pairs)


def _with_headers(
    key: bytes | WithHeaders | None, value: bytes | WithHeaders | None, headers: Headers
) -> tuple[bytes | None, bytes | None, Headers]:
    """Return the key, the value and the headers of a record, including headers added by serializers."""
    if isinstance(key, WithHeaders):
        headers = (*headers, *key.headers)
        key = key.content
    if isinstance(value, WithHeaders):
        headers = (*headers, *value.headers)
        value = value.content
    return key, value, headers


class TracedSends(CheckedSends):
    """Adds spans, which end when the records are acknowledged or have failed.

    Records that `Intake.append` accepts at once are not sampled.
    """

    __slots__ = ("_tracing",)

    def __init__(self, config: ProducerConfig, intake: Intake, topics: Container[str], tracing: SendTracing) -> None:
        super().__init__(config, intake, topics)
        self._tracing = tracing

    async def send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
        deadline: Deadline | None = None,
    ) -> Delivery:
        """See `CheckedSends.send`. The span's context is added to the headers."""
        self._intake.admission.check()
        pairs = check_headers(headers)
        span = self._tracing.send(check_topic(topic), key, value, partition, pairs)
        try:
            delivery = await super().send(topic, value, key, partition, timestamp_ms, span.carry(pairs), deadline)
        except BaseException as error:
            span.failed(error)
            raise
        span.taken(delivery)
        return delivery

    def send_nowait(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Sequence[Header] | None,
    ) -> Delivery:
        """See `CheckedSends.send_nowait`. The span's context is added to the headers."""
        self._intake.admission.check()
        pairs = check_headers(headers)
        span = self._tracing.send(check_topic(topic), key, value, partition, pairs)
        try:
            delivery = super().send_nowait(topic, value, key, partition, timestamp_ms, span.carry(pairs))
        except BaseException as error:
            span.failed(error)
            raise
        span.taken(delivery)
        return delivery

    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None,
        partition: int | None,
        headers: Sequence[Header] | Sequence[Sequence[Header] | None] | None,
        timestamps_ms: Iterable[int] | None,
        deadline: Deadline | None = None,
    ) -> DeliveryBatch:
        """See `CheckedSends.send_many`. All records share a span, and its context is added to their headers."""
        self._intake.admission.check()
        contents = entries("values", values, "values")
        span = self._tracing.send_many(check_topic(topic), len(contents), partition)
        try:
            carried: Any
            if headers is None or given_once(headers):
                carried = span.carry(check_headers(headers)) or None
            else:
                carried = [span.carry(check_headers(each)) for each in headers_for_each(headers, len(contents))]
            batch = await super().send_many(topic, contents, keys, partition, carried, timestamps_ms, deadline)
        except BaseException as error:
            span.failed(error)
            raise
        span.taken(batch)
        return batch

    async def send_batch(self, topic: str, partition: int, builder: BatchBuilder) -> DeliveryBatch:
        # Encode the records again, because their headers contain the context of the span.
        records = builder.records()
        return await self.send_many(
            topic,
            [record.value for record in records],
            [record.key for record in records],
            partition,
            [record.headers for record in records],
            [record.timestamp_ms for record in records],
        )
