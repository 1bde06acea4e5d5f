"""Publishing of a shard's batches, at least once or exactly once."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio

from .. import errors
from .._io.cancellation import tasks_of_block
from .._options.checks import INT32_MAX
from ..client import Client
from ..producer import Delivery, Producer
from ..types import Headers, OffsetAndMetadata, TopicPartition
from .store import Batch, Row

_REFUSALS = (
    errors.ConfigError,
    errors.ConfigTypeError,
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.InvalidTopicError,
    errors.MessageTooLargeError,
    errors.RecordListTooLargeError,
)
"""Errors that would be the same in every retry of the record. `Producer.send` raises the first two for invalid
arguments.
"""


class NotPublishedError(Exception):
    """A row of a batch failed with ``error``, so the batch was published partially or not at all."""

    def __init__(self, done: list[int], before: int, row: Row, error: errors.KafkaError, *, is_certain: bool) -> None:
        """Create the error for a batch whose rows were not all published.

        ``done`` are the ids of the rows that were published. ``before`` is the number of unpublished rows before
        ``row``, and ``error`` is the error of ``row``. ``is_certain`` is True if ``row`` itself caused the error.
        Otherwise another row of the batch may be the cause, because brokers reject all records of a batch together.
        """
        super().__init__(f"row {row.id}, a record for topic {row.topic!r}: {error}")
        self.done = done
        """Ids of the published rows, which may follow the failed row."""
        self.before = before
        """Number of unpublished rows before the failed row."""
        self.row = row
        self.error = error
        self.is_final = is_certain and isinstance(error, _REFUSALS)
        """True if every retry fails until the row or the topic is changed."""


class ShardProducer:
    """Publishes the batches of one shard. Used in the block of `running`."""

    def __init__(self, client: Client, options: Mapping[str, Any], transactional_id: str | None) -> None:
        if transactional_id is None:
            # Without a timeout, because later records of the same key would overtake a record that has timed out.
            given = {"delivery_timeout_ms": INT32_MAX, **options}
        else:
            given = {**options, "transactional_id": transactional_id}
        self._client = client
        self._producer: Producer[bytes, bytes] = client.producer(**given)
        self._transactional_id = transactional_id

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the producer during a block. After the block, no record is in flight, even if the block is cancelled.

        A separate task starts and stops the producer. A commit ignores the cancellation of its own task, and ends only
        when the producer stops.
        """
        async with tasks_of_block() as tasks:
            await tasks.start(self._live)
            yield self
            tasks.cancel_scope.cancel()

    async def _live(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        try:
            await self._producer.start()
            task_status.started()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self._producer.stop(0)

    def problems(self) -> tuple[str, ...]:
        """Return the reasons why the producer makes no progress."""
        return self._producer.health().problems

    async def published(self) -> set[str]:
        """Return the names of published batches, which are the metadata of the shard's committed offsets.

        The set is empty without a ``transactional_id``. Otherwise, it includes the last batch of any earlier
        producer of the shard. All earlier producers have been fenced, so they can no longer commit.
        """
        group = self._transactional_id
        if group is None:
            return set()
        async with self._client.admin() as admin:
            offsets = await admin.list_consumer_group_offsets(group, require_stable=True)
        return {offset.metadata for offset in offsets.values() if offset is not None}

    async def publish(self, batch: Batch) -> None:
        """Publish a batch. Raises `NotPublishedError` if a row failed, or another `KafkaError`."""
        if self._transactional_id is None:
            deliveries, failure = await self._send(self._producer, batch)
            await self._producer.flush()
            _check(batch, deliveries, failure)
            return
        deliveries, failure = [], None
        try:
            async with self._producer.transaction() as transaction:
                deliveries, failure = await self._send(transaction, batch)
                if failure is not None:
                    raise failure
                place = TopicPartition(batch.rows[0].topic, 0)
                offset = OffsetAndMetadata(batch.rows[-1].id, batch.name)
                await transaction.send_offsets({place: offset}, self._transactional_id)
        except errors.KafkaError:
            _check(batch, deliveries, failure, transactional=True)
            raise

    async def _send(self, producer: Any, batch: Batch) -> tuple[list[Delivery], errors.KafkaError | None]:
        """Send rows until the producer rejects one. Return the deliveries, and the rejected row's error, if any."""
        deliveries: list[Delivery] = []
        for row in batch.rows:
            try:
                headers, timestamp_ms = _parsed(row)
                sent = await producer.send(row.topic, row.value, row.key, timestamp_ms=timestamp_ms, headers=headers)
            except errors.KafkaError as error:
                return deliveries, error
            deliveries.append(sent)
        return deliveries, None


def _parsed(row: Row) -> tuple[Headers, int]:
    """Return the headers and the timestamp in milliseconds of a row's record. Raises `InvalidRecordError`."""
    try:
        pairs = json.loads(row.headers)
        headers = [(name, None if content is None else _decoded(content)) for name, content in pairs]
        return tuple(headers), int(row.created * 1000)
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise errors.InvalidRecordError(
            "the column headers must be a JSON list of [name, base64 or null] pairs, and the column created a time:"
            f" {error}"
        ) from None


def _decoded(content: str) -> bytes:
    """Decode base64, which may have line breaks, as in the output of PostgreSQL's ``encode``."""
    return base64.b64decode("".join(content.split()), validate=True)


def _check(
    batch: Batch, deliveries: list[Delivery], failure: errors.KafkaError | None, *, transactional: bool = False
) -> None:
    """Raise `NotPublishedError` for the first row with an error, if any.

    ``failure`` is the error with which the producer rejected the row after ``deliveries``, or None.
    """
    failures = [delivery.exception() if delivery.done() else None for delivery in deliveries]
    rows = list(zip(batch.rows, deliveries, failures, strict=False))
    done = [row.id for row, delivery, error in rows if delivery.done() and error is None and not transactional]
    before = 0
    for row, _, error in rows:
        if error is not None and not error.collateral and not isinstance(error, errors.TransactionAbortedError):
            raise NotPublishedError(done, before, row, error, is_certain=len(batch.rows) == 1)
        before += row.id not in done
    if failure is not None:
        raise NotPublishedError(done, before, batch.rows[len(deliveries)], failure, is_certain=True)
