"""`AIOKafkaProducer`, in a module of the same name as in aiokafka."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Self

from ..._core.producer.delivery import DeliveryBatch
from ..._io.client import Client
from ...errors import (
    ClientClosedError,
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaError,
    TransactionAbortedError,
)
from ...producer import Producer
from ...types import Header, TopicPartition
from .._options import is_default_partitioner, producer_options
from ..client import AIOKafkaClient, Life, client_of
from ..errors import IllegalOperation
from ..partitioner import DefaultPartitioner
from ..structs import OffsetAndMetadata, RecordMetadata
from ..util import commit_structure_validate, create_task, deprecated, native_offsets
from .futures import RecordFuture, fenced, new_batch_future, new_record_future
from .message_accumulator import BatchBuilder

__all__ = ["AIOKafkaProducer", "TransactionContext"]

_missing: Any = object()
"""Default of ``acks``, which marks it as not given. FastStream also uses this object."""
_DEFAULT_PARTITIONER = DefaultPartitioner()


class Sender:
    """The state of a producer for health checks, which in aiokafka read the task that sends records."""

    _sender_task: asyncio.Future[None] | None = None

    @property
    def sender_task(self) -> asyncio.Future[None] | None:
        """None before the start, and done once the producer has stopped or failed."""
        return self._sender_task

    def started(self, native: Client, loop: asyncio.AbstractEventLoop) -> None:
        """Set the state to running, until `stopped` is called or the producer fails."""
        self._sender_task = loop.create_future()
        native.on_fatal(lambda _: self.stopped())

    def stopped(self) -> None:
        """Set the state to stopped."""
        if self._sender_task is not None and not self._sender_task.done():
            self._sender_task.set_result(None)


class AIOKafkaProducer(Life):
    """Producer with the options, defaults and methods of aiokafka. Belongs to one asyncio event loop."""

    client: AIOKafkaClient
    """Connections of the producer. Tracers read its ``_bootstrap_servers`` and ``_client_id``."""
    _kind = "producer"

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | list[str] = "localhost",
        client_id: str | None = None,
        metadata_max_age_ms: int = 300_000,
        request_timeout_ms: int = 40_000,
        api_version: object = None,
        acks: Any = _missing,
        key_serializer: Callable[[Any], bytes] | None = None,
        value_serializer: Callable[[Any], bytes] | None = None,
        compression_type: str | None = None,
        max_batch_size: int = 16_384,
        partitioner: Callable[..., int] | None = _DEFAULT_PARTITIONER,
        max_request_size: int = 1_048_576,
        linger_ms: int = 0,
        retry_backoff_ms: int = 100,
        security_protocol: str = "PLAINTEXT",
        ssl_context: Any = None,
        connections_max_idle_ms: int | None = 540_000,
        enable_idempotence: bool = False,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: Any = None,
    ) -> None:
        """Check the options, without connecting. Raises ValueError or TypeError for an invalid option."""
        given = dict(locals())
        self._belongs_to(deprecated(loop, api_version), given)
        given["acks"] = 1 if acks is _missing else acks
        options = producer_options(given, acks is not _missing)
        self._key_serializer = key_serializer
        """Serializer of keys, which tracers and kstreams call."""
        self._value_serializer = value_serializer
        self._partitioner = _DEFAULT_PARTITIONER if is_default_partitioner(partitioner) else partitioner
        """Partitioner, which kstreams calls."""
        self._noack = options["acks"] == 0
        self._plain = key_serializer is None and value_serializer is None
        self._made_with = (bootstrap_servers, options)
        self._sender = Sender()
        """Shows if the producer is running; programs check its ``sender_task``."""
        self._unfinished: asyncio.Task[None] | None = None
        """Call of a transaction that continues although its caller was cancelled."""
        self._renew()
        self._closed = False

    def _renew(self) -> None:
        bootstrap_servers, options = self._made_with
        self._native = Producer(bootstrap_servers, **options)
        sequencing = self._native._engine.accumulator.transactional
        if sequencing is not None:
            sequencing.lenient = True
        self._append = self._native._append
        """Native method that accepts records without a coroutine if it need not wait."""
        self.client = client_of(self._native._client, bootstrap_servers, self._ssl_context)
        self._metadata = self.client.cluster
        """Metadata of the producer, which kstreams reads."""

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster. May be called again, even after a failure.

        Raises `KafkaConnectionError` if no bootstrap server can be used, and `ProducerClosed` after a stop.
        """
        self._check_loop()
        await self._start_native()
        if not self._begun:
            self._begun = True
            self._sender.started(self._native._client, self._loop)

    async def stop(self) -> None:
        """Send pending records, and close all connections. May be called again.

        First waits for a commit whose caller was cancelled.
        """
        if self._closed:
            return
        self._closed = True
        timeout_ms: float | None = 0  # if this is cancelled while it waits for the commit
        try:
            if self._unfinished is not None:
                await asyncio.wait([self._unfinished])
            timeout_ms = None
        finally:
            try:
                await self._native.stop(timeout_ms)
            finally:
                self._sender.stopped()

    async def flush(self) -> None:
        """Wait until all pending records are acknowledged or have failed.

        Returns immediately if the producer is not running.
        """
        if self._native._client.running:
            await self._native.flush()

    # --- records ------------------------------------------------------------------------------------------------------

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic.

        Raises `UnknownTopicOrPartitionError` if the topic does not exist within ``request_timeout_ms``.
        """
        return set(await self._native.partitions_for(topic))

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Sequence[Header] | None = None,
    ) -> RecordFuture:
        """Queue a record, and return a future of its `RecordMetadata`.

        Waits for metadata and free buffer memory. Raises `KafkaTimeoutError` after ``request_timeout_ms``.
        ``timestamp_ms`` is in milliseconds since 1970; None means now.
        """
        assert not (value is None and key is None), "Need at least one: key or value"
        if not self._plain:
            key, value = self._serialize(key, value)
        if partition is not None:
            await self._check_partition(topic, partition)
        if timestamp_ms is not None and type(timestamp_ms) is not int:
            timestamp_ms = math.trunc(timestamp_ms)
        if headers is not None and not isinstance(headers, (list, tuple)):
            headers = list(headers)  # another iterable, such as the items of a dict
        try:
            delivery = self._append(topic, value, key, partition, timestamp_ms, headers)
            if delivery is None:
                delivery = await self._native.send(topic, value, key, partition, timestamp_ms, headers)
        except IllegalStateError as error:
            raise self._outside(error) from None
        return new_record_future(delivery, self._noack, self._loop)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: float | None = None,
        headers: Sequence[Header] | None = None,
    ) -> RecordMetadata | None:
        """Send a record, and wait until it is acknowledged. Return its `RecordMetadata`, or None with ``acks=0``.

        Raises the errors of `send`, and the error of the record if it was not written.
        """
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch of up to ``max_batch_size`` bytes, which can be filled and passed to `send_batch`."""
        builder = self._native._engine.accumulator.new_builder(self._max_batch_size)
        return BatchBuilder(builder, self._key_serializer, self._value_serializer)

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int | None
    ) -> asyncio.Future[RecordMetadata | None]:
        """Queue the records of a batch, and return a future of the `RecordMetadata` of its first record.

        The future is done when all records are acknowledged. If ``partition`` is None, ``partitioner`` chooses it. The
        records form a single batch in the log, unless the broker rejects the batch as too large and it is split.
        """
        if partition is None:
            await self._native.partitions_for(topic)
            partition = self._partition(topic, None, None, None, None, None)
        else:
            await self._check_partition(topic, partition)
        batch.close()
        deliveries = DeliveryBatch()
        if batch.record_count():
            try:
                deliveries = await self._native._engine.sends.send_batch(topic, partition, batch.builder)
            except IllegalStateError as error:
                raise self._outside(error) from None
        future: asyncio.Future[RecordMetadata | None] = new_batch_future(deliveries, self._noack, self._loop)
        return future

    def _serialize(self, key: Any, value: Any) -> tuple[Any, Any]:
        key_bytes = key if self._key_serializer is None else self._key_serializer(key)
        value_bytes = value if self._value_serializer is None else self._value_serializer(value)
        return key_bytes, value_bytes

    async def _check_partition(self, topic: str, partition: int) -> None:
        count = self._native._client.metadata.snapshot.partition_count(topic)
        if not count:
            count = len(await self._native.partitions_for(topic))
        assert 0 <= partition < count, "Unrecognized partition"

    def _partition(
        self, topic: str, partition: int | None, key: Any, value: Any, serialized_key: Any, serialized_value: Any
    ) -> int:
        """Return the partition that ``partitioner`` chooses for a record of a known topic. Called by OpenTelemetry."""
        every = self._metadata.partitions_for_topic(topic) or set()
        if partition is not None:
            assert partition in every, "Unrecognized partition"
            return partition
        available = self._metadata.available_partitions_for_topic(topic) or set()
        assert self._partitioner is not None
        return self._partitioner(serialized_key, sorted(every), sorted(available))

    # --- transactions -------------------------------------------------------------------------------------------------

    async def begin_transaction(self) -> None:
        """Begin a transaction. Raises `IllegalOperation` without a ``transactional_id``.

        First waits for a commit whose caller was cancelled, and raises its error.
        """
        self._ensure_transactional()
        if self._unfinished is not None:
            await self._outcome(self._unfinished)
        await self._native.begin_transaction()

    async def commit_transaction(self) -> None:
        """Commit the transaction. If a record has failed, abort the transaction instead, and raise the record's error.

        The commit continues if the caller is cancelled. Raises `ProducerFenced` if another producer with the same
        ``transactional_id`` has started.
        """
        self._ensure_transactional()
        await self._to_the_end(self._commit())

    async def _commit(self) -> None:
        try:
            await self._native.commit_transaction()
        except TransactionAbortedError as error:
            cause = error.__cause__
            raise fenced(cause) if isinstance(cause, KafkaError) else error from None

    async def abort_transaction(self) -> None:
        """Abort the transaction and discard its records."""
        self._ensure_transactional()
        await self._native.abort_transaction()
        self._unfinished = None

    def transaction(self) -> TransactionContext:
        """Return an asynchronous context manager that commits a transaction, or aborts it if the block raises."""
        return TransactionContext(self)

    async def send_offsets_to_transaction(self, offsets: dict[TopicPartition, Any], group_id: str) -> None:
        """Commit offsets of a group in the open transaction. This continues if the caller is cancelled.

        Raises `IllegalOperation` if no transaction is open.
        """
        self._ensure_transactional()
        if not self._in_transaction():
            raise IllegalOperation("Not in the middle of a transaction")
        if not group_id or not isinstance(group_id, str):
            raise ValueError(group_id)
        await self._to_the_end(self._send_offsets(commit_structure_validate(offsets), group_id))

    async def _send_offsets(self, offsets: dict[TopicPartition, OffsetAndMetadata], group_id: str) -> None:
        try:
            await self._native.send_offsets_to_transaction(native_offsets(offsets), group_id)
        except InvalidProducerEpochError as error:
            raise fenced(error) from error

    async def _to_the_end(self, call: Coroutine[Any, Any, None]) -> None:
        """Carry out a call of a transaction, also if the caller is cancelled, as in aiokafka."""
        self._unfinished = create_task(call)
        await self._outcome(self._unfinished)

    async def _outcome(self, call: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(call)
        finally:
            if call.done():
                self._unfinished = None

    async def _leave_transaction(self) -> None:
        """Abort the open transaction because of an error, which then propagates, even if there is nothing to abort."""
        transactions = self._native._transactions
        if transactions is not None:
            await transactions.leave()

    def _ensure_transactional(self) -> None:
        if self._native.transactional_id is None:
            raise IllegalOperation("You need to configure transaction_id to use transactions")

    def _in_transaction(self) -> bool:
        return self._native.transaction_health().phase in ("open", "failed")

    def _outside(self, error: IllegalStateError) -> Exception:
        """Convert the error for a record outside of a transaction to aiokafka's class."""
        if isinstance(error, ClientClosedError) or self._native.transactional_id is None or self._in_transaction():
            return error
        return IllegalOperation("Can't send messages while not in transaction")


class TransactionContext:
    """Context manager that begins a transaction, and commits or aborts it."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        await self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._producer.commit_transaction()
        else:
            await self._producer._leave_transaction()
