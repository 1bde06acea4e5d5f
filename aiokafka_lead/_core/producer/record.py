"""Checks and serialization of a record's arguments. All mistakes are reported before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..._options.arguments import TIME_MS, byte_string, entries, record_headers, topic_name
from ..._options.checks import INT32_MAX
from ..._options.serialization import Function, WithHeaders, inspected
from ...errors import ConfigError, ConfigTypeError, RecordSerializationError
from ...errors.shown import shown_cause
from ...types import Headers, SerializationContext

ANY_PARTITION = -1
_ENCODE = "; call encode() on it"


def check_topic(topic: object) -> str:
    """Return the topic name if it is valid, or raise an error."""
    return topic_name("topic", topic)


def check_partition(partition: object) -> int:
    """Return the partition's number, or -1 for None, which means that the producer chooses it."""
    if partition is None:
        return ANY_PARTITION
    if isinstance(partition, bool) or not isinstance(partition, int):
        raise ConfigTypeError(f"partition must be an int or None, not {type(partition).__name__}")
    if not 0 <= partition <= INT32_MAX:
        raise ConfigError(f"partition must be from 0 to {INT32_MAX}, not {partition}")
    return partition


def check_timestamp(timestamp_ms: object) -> int:
    """Return the timestamp, in milliseconds since 1970. Raises an error if it is invalid."""
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int):
        raise ConfigTypeError(f"timestamp_ms must be an int or None, not {type(timestamp_ms).__name__}")
    return int(TIME_MS("timestamp_ms", timestamp_ms))


def check_headers(headers: object) -> Headers:
    """Return the headers as pairs of name and value. Raises an error if they are invalid."""
    return record_headers("headers", headers)


def to_bytes(what: str, content: Any) -> bytes | None:
    """Return a key or a value as bytes. ``what`` is "key" or "value", for the error."""
    return byte_string(what, content, hint=f"; is {what}_serializer missing?")


def one_for_each(name: str, given: Iterable[Any], count: int) -> list[Any]:
    """Return the given entries, one for each value. Their number must equal the number of values."""
    found = entries(name, given, "one entry for each value")
    if len(found) != count:
        raise ConfigError(f"{name} must have one entry for each of the {count} values, not {len(found)}")
    return found


def headers_for_each(headers: Any, count: int) -> list[Any]:
    """Return the headers for each value. Headers that are given once apply to all values."""
    if headers is None or given_once(headers):
        return [headers] * count
    return one_for_each("headers", headers, count)


def given_once(headers: Any) -> bool:
    """Return True if these are the headers of a single record, and not one entry for each record."""
    return isinstance(headers, (list, tuple)) and bool(headers) and _is_pair(headers[0])


def _is_pair(header: Any) -> bool:
    """Return True if this is a single header, which begins with its name."""
    return isinstance(header, (list, tuple)) and bool(header) and isinstance(header[0], str)


Made = bytes | WithHeaders | None
"""A serialized key or value."""

ToBytes = Callable[[Any, str, Headers], Any]
"""Converts content to `Made`, given the topic and the headers.

The result has headers only if `Serializers.prepares` is True. Otherwise, it is bytes or None. The type is Any, because
a type check for each record would take time.
"""


class Serializers:
    """Applies the application's serializers to keys and values. A key or value that is None is not serialized."""

    __slots__ = ("_key", "_value", "key_bytes", "value_bytes")

    def __init__(self, key: Callable[..., Any] | None, value: Callable[..., Any] | None) -> None:
        self._key = None if key is None else inspected("key_serializer", key)
        self._value = None if value is None else inspected("value_serializer", value)
        self.key_bytes = _to_bytes("key", self._key)
        """Converts a key to bytes, if its serializer is not asynchronous. Raises `RecordSerializationError`."""
        self.value_bytes = _to_bytes("value", self._value)
        """Converts a value to bytes, if its serializer is not asynchronous. Raises `RecordSerializationError`."""

    @property
    def plain(self) -> bool:
        """True if there are no serializers."""
        return self._key is None and self._value is None

    @property
    def awaited(self) -> str:
        """The names of the options that are coroutine functions, or an empty string."""
        parts = (("key_serializer", self._key), ("value_serializer", self._value))
        return " and ".join(name for name, one in parts if one is not None and one.waits)

    @property
    def prepares(self) -> bool:
        """True if a serializer is `Prepared`: it must be awaited before it can be called, and may add headers."""
        return any(one is not None and one.prepare is not None for one in (self._key, self._value))

    async def await_key(self, key: Any, topic: str, headers: Headers) -> Made:
        """Serialize a key, and await the serializer if necessary."""
        return await _wait_for_bytes("key", self._key, self.key_bytes, key, topic, headers)

    async def await_value(self, value: Any, topic: str, headers: Headers) -> Made:
        """Serialize a value, and await the serializer if necessary."""
        return await _wait_for_bytes("value", self._value, self.value_bytes, value, topic, headers)


def _to_bytes(part: str, one: Function | None) -> ToBytes:
    """Return a function that converts keys or values (``part``) to bytes, with a serializer or without one."""
    if one is None:
        hint = f"; is {part}_serializer missing?"

        def check(content: Any, topic: str, headers: Headers) -> bytes | None:
            if content is None or type(content) is bytes:
                return content
            return byte_string(part, content, hint=hint)

        return check
    call, asks = one.call, one.asks
    is_key = part == "key"
    prepared = one.prepare is not None

    def serialize(content: Any, topic: str, headers: Headers) -> Made:
        if content is None:
            return None
        try:
            made = call(content, SerializationContext(topic, headers, is_key)) if asks else call(content)
        except Exception as cause:
            raise _failed(part, topic, cause) from cause
        if type(made) is bytes or (prepared and type(made) is WithHeaders):
            return made
        return byte_string(f"{part}_serializer's result", made, hint=_ENCODE if isinstance(made, str) else "")

    return serialize


async def _wait_for_bytes(
    part: str, one: Function | None, at_once: ToBytes, content: Any, topic: str, headers: Headers
) -> Made:
    """Serialize a key or a value with a serializer that may have to wait.

    Raises `RecordSerializationError` if the serializer raises an exception.
    """
    if one is not None and one.prepare is not None and content is not None:
        try:
            waiting = one.prepare((content,), (headers,), topic, part == "key")
            if waiting is not None:
                await waiting
        except Exception as cause:
            raise _failed(part, topic, cause) from cause
    if one is None or not one.waits or content is None:
        made: Made = at_once(content, topic, headers)
        return made
    context = (SerializationContext(topic, headers, part == "key"),) if one.asks else ()
    try:
        awaited = await one.call(content, *context)
    except Exception as cause:
        raise _failed(part, topic, cause) from cause
    return byte_string(f"{part}_serializer's result", awaited, hint=_ENCODE if isinstance(awaited, str) else "")


def _failed(part: str, topic: str, cause: Exception) -> RecordSerializationError:
    return RecordSerializationError(
        f"the {part} of a record for {topic} cannot be serialized: {shown_cause(cause)}", topic=topic, part=part
    )
