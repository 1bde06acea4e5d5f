"""Writing in a Spark task, which sends Arrow batches in bulk and waits for all acknowledgements."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from ...config import ProducerConfig
from ...errors import KafkaError
from ...producer import DeliveryBatch, Producer
from ...schema import SchemaSerializer
from ...types import RecordMetadata, SerializationContext
from ..client_loop import ClientLoop, client_loop, freeze_imports
from ..kafka_options import bootstrap_servers, configuration, kafka_settings, producer_options
from ..schemas import LATEST, Typed, registry_of
from .bulks import Bulk, RecordColumns, RowError, bulks, pieces


class Encoder:
    """Encodes typed keys and values in Avro. Must be used on the event loop."""

    def __init__(self, typed: Typed) -> None:
        registry = registry_of(typed)
        self._serializers: dict[str, SchemaSerializer[Any]] = {}
        for column, given in typed.schemas.items():

            def subject(topic: str, is_key: bool, record: str | None, column: str = column) -> str:
                return typed.subject(column, topic)

            schema = None if given == LATEST else given
            self._serializers[column] = registry.avro_serializer(schema, subject=subject)

    async def encoded(self, bulk: Bulk) -> Bulk:
        """Return the records with encoded keys and values.

        Raises `RowError` if the schema cannot be found, or if a record does not match it.
        """
        made: dict[str, Any] = {}
        for column, serializer in self._serializers.items():
            contents = bulk.keys if column == "key" else bulk.values
            if contents is None:
                continue
            is_key = column == "key"
            context = SerializationContext(bulk.topic, (), is_key)
            encoded: list[Any] = []
            try:
                await serializer.ready(bulk.topic, is_key=is_key)
            except KafkaError as error:
                why = f"not written to {bulk.topic}, because the schema of the {column} cannot be found: {error}"
                raise RowError(bulk.indices[0], why) from None
            try:
                for content in contents:
                    encoded.append(None if content is None else serializer(content, context))
            except KafkaError as error:
                why = f"the {column} does not match its schema: {error}"
                raise RowError(bulk.indices[len(encoded)], why) from None
            made["keys" if is_key else "values"] = encoded
        return bulk._replace(**made)


UNCONFIRMED_ROWS = 100_000
"""Number of unacknowledged rows beyond which a task waits for acknowledgements."""


class WriteError(Exception):
    """A row could not be written. The message contains all details, because Spark shows only the message."""


def write_rows(options: Mapping[str, str], columns: RecordColumns, batches: Iterable[pa.RecordBatch]) -> int:
    """Write all rows, wait until they are acknowledged, and return their number. Raises `WriteError` if a row fails."""
    freeze_imports()
    loop = client_loop()
    servers, given = bootstrap_servers(options), producer_options(options)
    within_ms = configuration(options, ProducerConfig, given).delivery_timeout_ms
    key = ("producer", *sorted(kafka_settings(options).items()))
    with loop.borrow(lambda: Producer(servers, **given), key, within_ms) as producer:
        return Sending(producer, place()).write(loop, batches, columns)


def place() -> str:
    """Return a description of this task for messages, including the query and micro-batch if it is streaming."""
    context = TaskContext.get()
    if context is None:
        return "row"
    task = f"task {context.partitionId()}, row"
    batch = context.getLocalProperty("streaming.sql.batchId")
    if batch is None:
        return task
    return f"query {context.getLocalProperty('sql.streaming.queryId')}, batch {batch}, {task}"


class Sending:
    """Sends the rows of one task. Must be used on the event loop, except for `write`."""

    def __init__(self, producer: Producer, place: str) -> None:
        self._producer = producer
        self._place = place
        self._pending: deque[tuple[DeliveryBatch, Bulk, int]] = deque()
        """Unacknowledged records, oldest first, each with the row number in the task of the first row of its Arrow
        batch.
        """
        self._encoder: Encoder | None = None
        self._unconfirmed = 0
        """Number of records in `_pending`."""

    def write(self, loop: ClientLoop, batches: Iterable[pa.RecordBatch], columns: RecordColumns) -> int:
        """Send all rows, wait until they are acknowledged, and return their number. Called in the task's thread."""
        rows = 0
        for batch in batches:
            for piece in pieces(batch):
                loop.run(self.send, piece, columns, rows)
                rows += piece.num_rows
        loop.run(self.finish)
        return rows

    async def send(self, batch: pa.RecordBatch, columns: RecordColumns, first_row: int) -> None:
        """Send the rows of a batch, the first of which is row ``first_row`` of the task.

        Waits while the producer's buffer is full, or too many rows are unacknowledged. Raises `WriteError` for a row
        that cannot be sent.
        """
        try:
            if columns.typed is not None and self._encoder is None:
                self._encoder = Encoder(columns.typed)
            for bulk in bulks(batch, columns):
                encoded = bulk if self._encoder is None else await self._encoder.encoded(bulk)
                await self._send(encoded, first_row)
        except RowError as error:
            raise self._failed(first_row + error.index, error.why) from None
        while self._pending and (self._pending[0][0].done() or self._unconfirmed > UNCONFIRMED_ROWS):
            await self._confirm()

    async def _send(self, bulk: Bulk, first_row: int) -> None:
        try:
            sent = await self._producer.send_many(
                bulk.topic, bulk.values, keys=bulk.keys, partition=bulk.partition, headers=bulk.headers
            )
        except (KafkaError, ValueError, TypeError) as error:
            raise RowError(bulk.indices[0], _description(bulk, error)) from None
        # Drop the contents, which would occupy memory until the acknowledgement.
        self._pending.append((sent, bulk._replace(values=[], keys=None, headers=None), first_row))
        self._unconfirmed += len(sent)

    async def finish(self) -> None:
        """Flush the producer, and wait until every record is acknowledged. Raises `WriteError` if a row has failed."""
        await self._producer.flush()
        while self._pending:
            await self._confirm()

    async def _confirm(self) -> None:
        """Wait until the oldest records are acknowledged. Raises `WriteError` for the first failed row."""
        sent, bulk, first_row = self._pending.popleft()
        self._unconfirmed -= len(sent)
        outcomes = await sent
        if not {RecordMetadata}.issuperset(map(type, outcomes)):
            failed = [(index, error) for index, error in enumerate(outcomes) if isinstance(error, KafkaError)]
            index, error = next((each for each in failed if not each[1].collateral), failed[0])
            raise self._failed(first_row + bulk.indices[index], _description(bulk, error))

    def _failed(self, row: int, why: str) -> WriteError:
        return WriteError(f"{self._place} {row}: {why}")


def _description(bulk: Bulk, error: Exception) -> str:
    """Return a one-line description of the error, with the topic or partition."""
    target = bulk.topic if bulk.partition is None else f"{bulk.topic}-{bulk.partition}"
    return f"not written to {target}: {type(error).__name__}: {error}"
