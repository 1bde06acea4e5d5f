"""Deserializers of the application that are coroutine functions: awaited before anything is handed out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ..._core.consumer.chunk import Chunk
from ..._core.consumer.deserializers import SEEK_ON, Deserializers, bound, cannot_be_deserialized
from ..._core.consumer.record_batch import RecordBatch
from ..._options.serialization import Function
from ..._records import ConsumerRecord
from ...errors import RecordDeserializationError

__all__ = ["fill_batch", "make_ready", "of_application"]

Record = ConsumerRecord[Any, Any]


async def of_application(record: Record, by: Deserializers) -> Record:
    """The record as the application gets it. Raises `RecordDeserializationError`."""
    key = await _part(record, by.key, "key", SEEK_ON)
    return record.with_content(key, await _part(record, by.value, "value", SEEK_ON))


async def make_ready(chunk: Chunk, by: Deserializers, limit: int | None, within_s: float) -> None:
    """Deserialize what the chunk hands out next: one record, and more, up to the limit, while there is time.

    Raises `RecordDeserializationError` of the first one; that of a later one comes when it is the first. What is done
    stays in the chunk when this is cancelled.
    """
    first = at = chunk.handed_out()
    end = len(chunk.records) if limit is None else min(len(chunk.records), first + limit)
    until = time.monotonic() + within_s
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


async def fill_batch(batch: RecordBatch[Any, Any], by: Deserializers) -> None:
    """Deserialize a batch; an error is raised where its column is read."""
    batch.fill(await _column(batch.raw(), by.key, "key"), await _column(batch.raw(), by.value, "value"))


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
    try:
        return await make(content) if one.waits else make(content)
    except Exception as cause:
        raise cannot_be_deserialized(record, part, cause, advice) from cause
