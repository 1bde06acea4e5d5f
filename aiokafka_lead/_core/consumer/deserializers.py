"""From the bytes of keys and values to what the application works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._records import ConsumerRecord
from ...errors import RecordDeserializationError

__all__ = ["Deserializers"]

Record = ConsumerRecord[Any, Any]
Deserializer = Callable[[bytes], Any]


class Deserializers:
    """What makes the application's keys and values of bytes; None leaves them alone."""

    __slots__ = ("key", "value")

    def __init__(self, key: Deserializer | None = None, value: Deserializer | None = None) -> None:
        self.key = key
        self.value = value

    def apply(self, records: list[Record]) -> tuple[list[Record], RecordDeserializationError | None]:
        """The records with their content deserialized, up to the first that cannot be, and its error.

        Keys and values that are None stay None, as in Java.
        """
        key_of, value_of = self.key, self.value
        if key_of is None and value_of is None:
            return records, None
        done: list[Record] = []
        for record in records:
            key, value = record.key, record.value
            part = "key"
            try:
                if key_of is not None and key is not None:
                    key = key_of(key)
                part = "value"
                if value_of is not None and value is not None:
                    value = value_of(value)
            except Exception as cause:
                error = RecordDeserializationError(
                    f"the {part} of the record at offset {record.offset} of {record.topic}-{record.partition} "
                    f"cannot be deserialized: {cause!r}; seek past it to go on",
                    record=record,
                    part=part,
                )
                error.__cause__ = cause
                return done, error
            done.append(record.with_content(key, value))
        return done, None
