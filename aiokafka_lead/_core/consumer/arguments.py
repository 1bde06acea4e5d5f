"""Checks of arguments that the application passes to a consumer."""

from __future__ import annotations

import re
from typing import Any

from ..._options.arguments import TIME_MS, list_of, map_of, offset, topic_name, topic_partition
from ..._options.checks import encodable, integer, milliseconds
from ...errors import ConfigError, ConfigTypeError

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
