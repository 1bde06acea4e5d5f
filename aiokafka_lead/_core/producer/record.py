"""Checks the arguments of a record, so that every mistake is reported before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..._options.arguments import TIME_MS, byte_string, entries, record_headers, topic_name
from ..._options.checks import INT32_MAX
from ...errors import ConfigError, ConfigTypeError
from ...types import Headers

ANY_PARTITION = -1


def check_topic(topic: object) -> str:
    """Return the topic's name, if it is legal."""
    return topic_name("topic", topic)


def check_partition(partition: object) -> int:
    """Return the partition's number, or -1 for None."""
    if partition is None:
        return ANY_PARTITION
    if isinstance(partition, bool) or not isinstance(partition, int):
        raise ConfigTypeError(f"partition must be an int or None, not {type(partition).__name__}")
    if not 0 <= partition <= INT32_MAX:
        raise ConfigError(f"partition must not be negative or beyond {INT32_MAX}, not {partition}")
    return partition


def check_timestamp(timestamp_ms: object) -> int:
    """Return a time in milliseconds since 1970."""
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int):
        raise ConfigTypeError(f"timestamp_ms must be an int or None, not {type(timestamp_ms).__name__}")
    return int(TIME_MS("timestamp_ms", timestamp_ms))


def check_headers(headers: object) -> Headers:
    """Return pairs of a name and a value."""
    return record_headers("headers", headers)


def to_bytes(what: str, content: Any) -> bytes | None:
    """Return a key or a value as bytes; ``what`` names it in the error."""
    return byte_string(what, content, hint=f"; is {what}_serializer missing?")


def one_for_each(name: str, given: Iterable[Any], count: int) -> list[Any]:
    """Return the given entries, one per value."""
    found = entries(name, given, "one entry for each value")
    if len(found) != count:
        raise ConfigError(f"{name} must have one entry for each of the {count} values, not {len(found)}")
    return found


def headers_for_each(headers: Any, count: int) -> list[Any]:
    """Return one entry per value: the same headers for all if they were given once."""
    if headers is None or given_once(headers):
        return [headers] * count
    return one_for_each("headers", headers, count)


def given_once(headers: Any) -> bool:
    """Return True if these are the headers of one record, and not of several."""
    return isinstance(headers, (list, tuple)) and bool(headers) and _is_pair(headers[0])


def _is_pair(header: Any) -> bool:
    """Return True if this is a single header, and not the headers of a record."""
    return isinstance(header, (list, tuple)) and bool(header) and isinstance(header[0], str)
