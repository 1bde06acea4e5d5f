"""The arguments of a record, checked: every mistake is named before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...errors import ConfigError, ConfigTypeError
from ...types import Header

__all__ = ["check_headers", "check_partition", "check_timestamp", "check_topic", "to_bytes"]

INT64_MAX = 2**63 - 1
ANY_PARTITION = -1

_LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Java: ``org.apache.kafka.common.internals.Topic``."""


def check_topic(topic: object) -> str:
    """The topic's name, if a topic can be called so."""
    if not isinstance(topic, str):
        raise ConfigTypeError(f"topic must be a str, not {type(topic).__name__}")
    if not topic:
        raise ConfigError("topic must not be empty")
    if topic in (".", "..") or _LEGAL_TOPIC.fullmatch(topic) is None:
        raise ConfigError(f"topic must be up to 249 of ASCII letters, digits, '.', '_' and '-', not {topic!r}")
    return topic


def check_partition(partition: object) -> int:
    """The partition's number, or -1 for None."""
    if partition is None:
        return ANY_PARTITION
    if isinstance(partition, bool) or not isinstance(partition, int):
        raise ConfigTypeError(f"partition must be an int or None, not {type(partition).__name__}")
    if partition < 0:
        raise ConfigError(f"partition must not be negative, not {partition}")
    return partition


def check_timestamp(timestamp_ms: object) -> int:
    """A time in milliseconds since 1970."""
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int):
        raise ConfigTypeError(f"timestamp_ms must be an int or None, not {type(timestamp_ms).__name__}")
    if not 0 <= timestamp_ms <= INT64_MAX:
        raise ConfigError(f"timestamp_ms must be from 0 to 2**63 - 1, not {timestamp_ms}")
    return timestamp_ms


def check_headers(headers: object) -> Sequence[Header]:
    """Pairs of a name and a value."""
    if headers is None:
        return ()
    if not isinstance(headers, (list, tuple)):
        raise ConfigTypeError(f"headers must be a list of (str, bytes) pairs, not {type(headers).__name__}")
    for header in headers:
        if not isinstance(header, (list, tuple)) or len(header) != 2:
            raise ConfigTypeError(f"headers must hold (str, bytes) pairs, not {header!r}")
        name, content = header
        if not isinstance(name, str):
            raise ConfigTypeError(f"headers must have str names, not {type(name).__name__}")
        if content is not None and not isinstance(content, (bytes, bytearray, memoryview)):
            raise ConfigTypeError(f"headers must have bytes or None as values, not {type(content).__name__}")
    return headers


def to_bytes(what: str, content: Any) -> bytes | None:
    """A key or a value as it is sent; ``what`` names it in the error."""
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, (bytearray, memoryview)):
        return bytes(content)
    raise ConfigTypeError(f"{what} must be bytes or None, not {type(content).__name__}; is {what}_serializer missing?")
