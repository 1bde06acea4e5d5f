"""Converts the application's keys and values to bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._options.arguments import byte_string
from ..._options.serialization import Function, WithHeaders, inspected
from ...errors import RecordSerializationError
from ...errors.shown import shown_cause
from ...types import Headers, SerializationContext

Made = bytes | WithHeaders | None
"""A serialized key or value."""

ToBytes = Callable[[Any, str, Headers], Any]
"""Converts content, given topic and headers, to `Made`, which has headers only if `Serializers.prepares`.

(Without such a serializer it returns bytes or None; the type is Any to spare each record a type check.)
"""


class Serializers:
    """The serializers of the application's keys and values; None is left alone."""

    __slots__ = ("_key", "_value", "key_bytes", "value_bytes")

    def __init__(self, key: Callable[..., Any] | None, value: Callable[..., Any] | None) -> None:
        self._key = None if key is None else inspected("key_serializer", key)
        self._value = None if value is None else inspected("value_serializer", value)
        self.key_bytes = _to_bytes("key", self._key)
        """Converts a key to bytes, unless its serializer is awaited; raises `RecordSerializationError`."""
        self.value_bytes = _to_bytes("value", self._value)
        """The same for a value."""

    @property
    def plain(self) -> bool:
        """True if there are no serializers."""
        return self._key is None and self._value is None

    @property
    def awaited(self) -> str:
        """Names of the options that are coroutine functions; empty if there are none."""
        parts = (("key_serializer", self._key), ("value_serializer", self._value))
        return " and ".join(name for name, one in parts if one is not None and one.waits)

    @property
    def prepares(self) -> bool:
        """True if one of them is `Prepared`: it is awaited before it can be called, and may add headers."""
        return any(one is not None and one.prepare is not None for one in (self._key, self._value))

    async def await_key(self, key: Any, topic: str, headers: Headers) -> Made:
        """Convert a key like ``key_bytes``, with any kind of serializer."""
        return await _wait_for_bytes("key", self._key, self.key_bytes, key, topic, headers)

    async def await_value(self, value: Any, topic: str, headers: Headers) -> Made:
        """Convert a value like ``value_bytes``, with any kind of serializer."""
        return await _wait_for_bytes("value", self._value, self.value_bytes, value, topic, headers)


def _to_bytes(part: str, one: Function | None) -> ToBytes:
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
        return byte_string(f"{part}_serializer's result", made)

    return serialize


async def _wait_for_bytes(
    part: str, one: Function | None, at_once: ToBytes, content: Any, topic: str, headers: Headers
) -> Made:
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
    return byte_string(f"{part}_serializer's result", awaited)


def _failed(part: str, topic: str, cause: Exception) -> RecordSerializationError:
    return RecordSerializationError(
        f"the {part} of a record for {topic} cannot be serialized: {shown_cause(cause)}", topic=topic, part=part
    )
