"""Deserialization and decompression that must be awaited or run in a thread."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import anyio

from ..._core.consumer.chunk import Chunk
from ..._core.consumer.deserializers import SEEK_ON, Deserializers, bound, cannot_be_deserialized
from ..._core.consumer.record_batch import Bury, RecordBatch
from ..._options.serialization import Function
from ..._records import BatchView, ConsumerRecord, MessageSet
from ...errors import BatchTooLargeError, CorruptRecordError, RecordDeserializationError
from ...types import Headers
from ..loop import CodecThreads

Record = ConsumerRecord[Any, Any]

TOGETHER = 512
"""Maximum number of records to deserialize together, even if fewer were requested. The rest stay in the chunk."""


async def of_application(record: Record, by: Deserializers) -> Record:
    """Return the record with its key and value deserialized by the application's deserializers.

    Raises `RecordDeserializationError`.
    """
    key = await _part(record, by.key, "key", SEEK_ON)
    return record.with_content(key, await _part(record, by.value, "value", SEEK_ON))


async def make_ready(chunk: Chunk, by: Deserializers, limit: int | None, within_s: float) -> None:
    """Deserialize the chunk's next record, and up to ``limit`` records within ``within_s`` seconds.

    Raises `RecordDeserializationError` if the first record fails. The error of a later record is raised when it is that
    record's turn. After a cancellation, the finished records stay in the chunk.
    """
    first = at = chunk.handed_out()
    until = time.monotonic() + within_s
    if not by.awaited:
        await _make_ready_together(chunk, by, until)
        return
    end = len(chunk.records) if limit is None else min(len(chunk.records), first + limit)
    while at < end and (at == first or time.monotonic() < until):
        if at >= chunk.ready:
            try:
                record = await of_application(chunk.records[at], by)
            except RecordDeserializationError:
                if at == first:
                    raise
                return
            chunk.deserialized(at, record)
        at += 1


async def _make_ready_together(chunk: Chunk, by: Deserializers, until: float) -> None:
    first = at = chunk.handed_out()
    while at < len(chunk.records) and (at == first or time.monotonic() < until):
        raw = chunk.records[at : at + TOGETHER]
        await _prepare(raw, by)
        made, failure = by.apply_prepared(raw)
        for record in made:
            chunk.deserialized(at, record)
            at += 1
        if failure is not None:
            if at == first:
                raise failure
            return


async def _prepare(records: Sequence[Record], by: Deserializers) -> None:
    """Wait until the deserializers can be called for the first records, at least one. All records are of one topic."""
    topic, headers = records[0].topic, [record.headers for record in records]
    await prepared(by.key, [record.key for record in records], headers, topic, is_key=True)
    await prepared(by.value, [record.value for record in records], headers, topic, is_key=False)


async def prepared(
    one: Function | None, contents: Sequence[Any], headers: Sequence[Headers], topic: str, *, is_key: bool
) -> None:
    """Wait until the deserializer can be called for these keys (``is_key``) or values of a topic.

    It may have to fetch schemas first, for example. ``one`` is the deserializer, or None.
    """
    if one is not None and one.prepare is not None:
        waiting = one.prepare(contents, headers, topic, is_key)
        if waiting is not None:
            await waiting


async def fill_batch(batch: RecordBatch[Any, Any], by: Deserializers, bury: Bury | None) -> bool:
    """Deserialize a batch before it is handed out. Return False if it contains no more records.

    If ``bury`` is None, the error of a record is raised when its column is read. Otherwise, ``bury`` is awaited with
    all errors, and their records are omitted. A temporary error is raised at once, and the batch is not handed out.
    """
    if bury is not None:
        return await _fill_with_readable(batch, by, bury)
    if by.awaited:
        batch.fill(await _column(batch.raw(), by.key, "key"), await _column(batch.raw(), by.value, "value"))
    else:
        for one, is_key in ((by.key, True), (by.value, False)):
            if one is not None and one.prepare is not None:
                await prepared(one, batch.raw_column(is_key=is_key), batch.headers, batch.topic, is_key=is_key)
    for name in ("keys", "values"):
        try:
            getattr(batch, name)
        except RecordDeserializationError as error:
            if not error.lasts:
                raise
    return True


async def _fill_with_readable(batch: RecordBatch[Any, Any], by: Deserializers, bury: Bury) -> bool:
    """Deserialize a batch without the records that cannot be deserialized, whose errors are passed to ``bury``.

    Returns False if no record is left. Raises a temporary error, after which the batch is unchanged.
    """
    raw = list(batch.raw())
    made: list[Record] = []
    rows: list[int] = []
    failures: list[RecordDeserializationError] = []
    at = 0
    while at < len(raw):
        some = raw[at : at - at % TOGETHER + TOGETHER]
        failure: RecordDeserializationError | None = None
        if by.awaited:
            try:
                found = [await of_application(some[0], by)]
            except RecordDeserializationError as error:
                found, failure = [], error
        else:
            if at % TOGETHER == 0:
                await _prepare(some, by)
            found, failure = by.apply_prepared(some)
        made += found
        rows += range(at, at + len(found))
        at += len(found)
        if failure is not None:
            if not failure.lasts:
                raise failure
            failures.append(failure)
            at += 1
    if failures:
        await bury(failures)
        batch.leave_only(rows)
    batch.fill([record.key for record in made], [record.value for record in made])
    return bool(rows)


async def _column(records: Iterable[Record], one: Function | None, part: str) -> list[Any] | RecordDeserializationError:
    try:
        return [await _part(record, one, part, "") for record in records]
    except RecordDeserializationError as error:
        return error


async def _part(record: Record, one: Function | None, part: str, advice: str) -> Any:
    is_key = part == "key"
    content = record.key if is_key else record.value
    make = bound(one, record.topic, record.headers, is_key=is_key)
    if make is None or one is None or content is None:
        return content
    await prepared(one, (content,), (record.headers,), record.topic, is_key=is_key)
    try:
        return await make(content) if one.waits else make(content)
    except Exception as cause:
        raise cannot_be_deserialized(record, part, cause, advice) from cause


_threads = CodecThreads("decompression")


class Loading:
    """Decompresses a consumer's batches one at a time, so that the memory for several partitions does not add up."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()

    async def load(self, view: BatchView | MessageSet) -> None:
        """Decompress the batch. Errors are raised later, when its records are read.

        A cancellation waits for the thread, because no other code may use the batch before it ends.
        """
        async with self._lock:
            if not view.is_loaded:
                await _threads.run(_load, view)


def _load(view: BatchView | MessageSet) -> None:
    try:
        view.load()
    except (BatchTooLargeError, CorruptRecordError):
        return  # the batch keeps the error
