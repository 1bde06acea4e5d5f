"""Checks of call arguments, before any request is sent. As for options, they are functions of (name, value).

Every check raises `ConfigTypeError` for a value of the wrong type, and `ConfigError` for an invalid value. Both
messages begin with the name of the argument. A part of an argument has a name such as ``topics[1]`` or
``offsets[events-0]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import ConfigError, ConfigTypeError
from ..types import OffsetAndMetadata, TopicPartition
from .checks import INT64_MAX, Check, encodable, integer, milliseconds, optional

TIMEOUT = optional(milliseconds())
"""Check of a ``timeout_ms``, which may be None."""


def timeout_s(timeout_ms: float | None) -> float | None:
    """Return the ``timeout_ms`` of a call in seconds, or None if it is None."""
    given: float | None = TIMEOUT("timeout_ms", timeout_ms)
    return None if given is None else given / 1000


TIME_MS = integer(0, INT64_MAX)
"""Check of a time in milliseconds since 1970."""

_LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""The syntax of topic names. Java: ``org.apache.kafka.common.internals.Topic``."""


def string(name: str, value: Any) -> str:
    """Check that a value is a string that UTF-8 can encode, and return it. It may be empty."""
    if not isinstance(value, str):
        raise ConfigTypeError(f"{name} must be a str, not {type(value).__name__}")
    return exact_str(encodable(name, value))


def topic_name(name: str, value: Any) -> str:
    """Check a topic name and return it as a plain str."""
    if not isinstance(value, str):
        raise ConfigTypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value:
        raise ConfigError(f"{name} must not be empty")
    if value in (".", "..") or _LEGAL_TOPIC.fullmatch(value) is None:
        raise ConfigError(f"{name} must be up to 249 of ASCII letters, digits, '.', '_' and '-', not {value!r}")
    return exact_str(value)


def exact_str(value: str) -> str:
    """Return a plain `str` with the same characters. Unlike this, ``str()`` would call a method of a subclass."""
    return value if type(value) is str else str.__str__(value)


def topic_partition(name: str, value: Any) -> TopicPartition:
    """Return a `TopicPartition`. The value may also be a pair."""
    match value:
        case (str() as topic, int() as number) if not isinstance(number, bool):
            return TopicPartition(topic_name(f"{name}.topic", topic), _NUMBER(f"{name}.partition", number))
    raise ConfigTypeError(f"{name} must be a TopicPartition, not {value!r}")


_NUMBER = integer(0)
_OFFSET = integer(0, INT64_MAX)
_LEADER_EPOCH = optional(integer(0))


def offset(name: str, value: Any) -> OffsetAndMetadata:
    """Return a position in a partition as `OffsetAndMetadata`.

    The value may also be an offset or a pair of offset and metadata.
    """
    match value:
        case OffsetAndMetadata():
            found = value
        case int() if not isinstance(value, bool):
            found = OffsetAndMetadata(value)
        case (number, metadata):
            found = OffsetAndMetadata(number, metadata)
        case _:
            raise ConfigTypeError(f"{name} must be an int or OffsetAndMetadata, not {value!r}")
    _OFFSET(name, found.offset)
    string(f"{name}.metadata", found.metadata)
    _LEADER_EPOCH(f"{name}.leader_epoch", found.leader_epoch)
    return found


def entries(name: str, value: Any, called: str) -> list[Any]:
    """Return the items of an iterable that is not a string or a mapping.

    For a mapping by partition, these are its partitions.
    """
    if (
        not isinstance(value, Iterable)
        or isinstance(value, (str, bytes, bytearray, memoryview))
        or (isinstance(value, Mapping) and not all(isinstance(key, TopicPartition) for key in value))
    ):
        raise ConfigTypeError(f"{name} must be a list of {called}, not {type(value).__name__}")
    return list(value)


def list_of(called: str, item: Check) -> Check:
    """Return a check for a list (see `entries`) of items that ``item`` accepts."""

    def check(name: str, value: Any) -> list[Any]:
        return [item(f"{name}[{index}]", each) for index, each in enumerate(entries(name, value, called))]

    return check


def map_of(called: str, key: Check, item: Check) -> Check:
    """Return a check for a mapping from keys that ``key`` accepts to values that ``item`` accepts."""

    def check(name: str, value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise ConfigTypeError(f"{name} must be a dict of {called}, not {type(value).__name__}")
        found = {}
        for given, each in value.items():
            known = key(f"{name}'s key", given)
            found[known] = item(f"{name}[{known}]", each)
        return found

    return check


def byte_string(name: str, value: Any, *, hint: str = "") -> bytes | None:
    """Return None, or plain `bytes` from any bytes-like object."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(memoryview(value))
    raise ConfigTypeError(f"{name} must be bytes or None, not {type(value).__name__}{hint}")


def record_headers(name: str, value: Any) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a record as pairs of name and value, in the given order. None means no headers."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise ConfigTypeError(f"{name} must be a list of (str, bytes) pairs, not {type(value).__name__}")
    for header in value:
        if type(header) is not tuple or len(header) != 2:
            break
        key, content = header
        if type(key) is not str or not key.isascii() or (content is not None and type(content) is not bytes):
            break
    else:
        return tuple(value)
    return tuple([_header(name, header) for header in value])


def _header(name: str, header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, (list, tuple)) or len(header) != 2:
        raise ConfigTypeError(f"{name} must contain (str, bytes) pairs, not {header!r}")
    key, content = header
    if not isinstance(key, str):
        raise ConfigTypeError(f"{name} must have str names, not {type(key).__name__}")
    if content is not None and not isinstance(content, (bytes, bytearray, memoryview)):
        raise ConfigTypeError(f"{name} must have bytes or None as values, not {type(content).__name__}")
    return string(f"{name}: the name of a header", key), byte_string(name, content)


LISTENER_METHODS = ("on_partitions_revoked", "on_partitions_assigned", "on_partitions_lost")

TOPICS = list_of("str", topic_name)
PARTITIONS = list_of("TopicPartition", topic_partition)
OFFSETS = map_of("TopicPartition to offset", topic_partition, offset)
TIMES = map_of("TopicPartition to milliseconds", topic_partition, TIME_MS)
MAX_RECORDS = integer(1)
WAIT = milliseconds()


def pattern(name: str, value: Any) -> re.Pattern[str]:
    """Return the argument as a compiled regular expression for topic names."""
    if not isinstance(value, str) and not (isinstance(value, re.Pattern) and isinstance(value.pattern, str)):
        raise ConfigTypeError(f"{name} must be a str or a compiled pattern of str, not {type(value).__name__}")
    try:
        compiled = re.compile(value)
    except re.error as error:
        raise ConfigError(f"{name} is not a valid regular expression: {error}") from None
    encodable(name, compiled.pattern)
    return compiled


def listener(name: str, value: Any) -> Any:
    """Return the argument as a rebalance listener.

    It must have at least one of `LISTENER_METHODS`, and no method whose name is a misspelling of one of them.
    """
    for method in dir(value):
        if method.startswith("on_partition") and method not in LISTENER_METHODS:
            raise ConfigTypeError(
                f"{name} must not have {method}, which is never called: {type(value).__name__} may have "
                f"{', '.join(LISTENER_METHODS)}"
            )
    if not any(callable(getattr(value, method, None)) for method in LISTENER_METHODS):
        raise ConfigTypeError(
            f"{name} must have one of {', '.join(LISTENER_METHODS)}, which {type(value).__name__} does not"
        )
    return value
