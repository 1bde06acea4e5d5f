"""Applying the application's deserializers to keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import CoroutineType
from typing import Any

from ..._options.serialization import Function, inspected
from ..._records import ConsumerRecord
from ...errors import RecordDeserializationError
from ...errors.shown import shown_cause
from ...types import Headers, SerializationContext

Record = ConsumerRecord[Any, Any]

SEEK_ON = "; seek past it to continue"
"""Advice in the error for a record that stops its partition."""


class Deserializers:
    """Applies the application's deserializers to keys and values. None leaves the bytes unchanged."""

    __slots__ = ("_asks", "awaited", "key", "plain", "value", "waits")

    def __init__(
        self,
        key: Callable[..., Any] | None = None,
        value: Callable[..., Any] | None = None,
        *,
        one_by_one: bool = False,
    ) -> None:
        """Inspect the deserializers.

        With ``one_by_one``, the reader must see each record that cannot be deserialized.
        """
        self.key = None if key is None else inspected("key_deserializer", key)
        self.value = None if value is None else inspected("value_deserializer", value)
        given = [one for one in (self.key, self.value) if one is not None]
        self.plain = not given
        """True if there are no deserializers."""
        self._asks = any(one.asks for one in given)
        self.awaited = any(one.waits for one in given)
        """True if a deserializer is a coroutine function."""
        self.waits = self.awaited or any(one_by_one or one.prepare is not None for one in given)
        """True if a reader has to await deserialization. In that case, `apply` leaves the records unchanged."""

    def apply(self, records: list[Record]) -> tuple[list[Record], RecordDeserializationError | None]:
        """Deserialize records. Return those before the first failure, and its error, or None if all succeeded."""
        return (records, None) if self.plain or self.waits else self.apply_prepared(records)

    def apply_prepared(self, records: list[Record]) -> tuple[list[Record], RecordDeserializationError | None]:
        """Do the same as `apply`, with deserializers that are `Prepared` for these records."""
        key_of = None if self.key is None else self.key.call
        value_of = None if self.value is None else self.value.call
        asks = self._asks
        done: list[Record] = []
        for record in records:
            key, value = record.key, record.value
            if asks:
                key_of = bound(self.key, record.topic, record.headers, is_key=True)
                value_of = bound(self.value, record.topic, record.headers, is_key=False)
            part = "key"
            try:
                if key_of is not None and key is not None:
                    key = key_of(key)
                part = "value"
                if value_of is not None and value is not None:
                    value = value_of(value)
            except Exception as cause:
                return done, cannot_be_deserialized(record, part, cause, SEEK_ON)
            done.append(record.with_content(key, value))
        if done and (isinstance(done[0].key, CoroutineType) or isinstance(done[0].value, CoroutineType)):
            part = "key" if isinstance(done[0].key, CoroutineType) else "value"
            wrong = never_awaited(content for record in done for content in (record.key, record.value))
            return [], cannot_be_deserialized(records[0], part, wrong, SEEK_ON)
        return done, None


def never_awaited(contents: Iterable[Any]) -> TypeError:
    """Return an error for coroutines in ``contents``, which a plain function returned, and close them."""
    for content in contents:
        if isinstance(content, CoroutineType):
            content.close()
    return TypeError("it returned a coroutine, but is not an async function")


def bound(one: Function | None, topic: str, headers: Headers, *, is_key: bool) -> Callable[[bytes], Any] | None:
    """Return a function that deserializes bytes from one record, or None if there is no deserializer.

    If the deserializer takes a `SerializationContext`, the function passes the context of this record.
    """
    if one is None or not one.asks:
        return None if one is None else one.call
    return partial(_with_context, one.call, SerializationContext(topic, headers, is_key))


def _with_context(call: Callable[..., Any], context: SerializationContext, content: bytes) -> Any:
    return call(content, context)


def bad_record(error: RecordDeserializationError) -> str:
    """Describe a bad record and its error for a log message, without the record's content."""
    where = f"{error.topic}-{error.partition}"
    kind = type(error.__cause__).__name__
    return f"the record at offset {error.offset} of {where}, whose {error.part} cannot be deserialized ({kind}),"


def cannot_be_deserialized(record: Record, part: str, cause: Exception, advice: str) -> RecordDeserializationError:
    """Return the error for a record whose key or value the application's deserializer could not process."""
    text = f"the {part} of the record at offset {record.offset} of {record.topic}-{record.partition} "
    text += f"cannot be deserialized: {shown_cause(cause)}"

    def made(text: str) -> RecordDeserializationError:
        error = RecordDeserializationError(text, record=record, part=part)
        error.__cause__ = cause
        return error

    error = made(text)
    return made(text + advice) if error.lasts else error
