"""Records are deserialized as their turn comes, in the task of their handler."""

from __future__ import annotations

from typing import Any

from ..._core.consumer.deserializers import Deserializers
from ..._records import ConsumerRecord
from ...errors.shown import shown_cause
from ..consumer.deserializing import of_application

__all__ = ["deserialized", "waited_for_registry"]

Record = ConsumerRecord[Any, Any]


async def deserialized(record: Record, by: Deserializers) -> Record:
    """The record as the application gets it. Raises `RecordDeserializationError`."""
    if by.plain:
        return record
    if by.waits:
        return await of_application(record, by)
    records, error = by.apply([record])
    if error is not None:
        raise error
    return records[0]


def waited_for_registry(record: Record, error: BaseException) -> str:
    """Say that a record has waited for a schema registry for too long."""
    where = f"the record at offset {record.offset} of {record.topic}-{record.partition}"
    return f"{where} has waited for a schema registry for registry_patience_ms: {shown_cause(error)}"
