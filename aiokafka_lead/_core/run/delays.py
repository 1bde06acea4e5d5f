"""Delays of retry topics, and the times at which their records are due."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from ..._values import NamedTuple
from ...errors import ConfigError, ConfigTypeError
from ...types import TopicPartition
from ..consumer.position import Position

TOGETHER_S = 0.5
"""Number of seconds within which due records are taken together."""

_DELAY = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Delay(NamedTuple):
    """The delay of a retry topic."""

    text: str
    """The delay as written in the topic's name."""
    ms: int


def delays(name: str, value: Any) -> tuple[Delay, ...]:
    """Parse delays such as "10s"."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigTypeError(f'{name} must be a list of delays such as ["10s", "1m"], not {value!r}')
    found: list[Delay] = []
    for text in value:
        match = _DELAY.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ConfigError(f'{name} must contain delays such as "10s", "1m" or "2h", not {text!r}')
        found.append(Delay(text, int(match[1]) * _UNITS_MS[match[2]]))
    if len({delay.text for delay in found}) < len(found):
        raise ConfigError(f"{name} must not contain a delay twice: each delay has a separate topic")
    return tuple(found)


_Times = tuple[float, float]
"""A time in Unix seconds, and in seconds of a monotonic clock."""


class Closed:
    """Partitions of retry topics whose next record is not due yet. Times are Unix seconds."""

    def __init__(self, due_ms: Callable[[Any, float], float], clock: Callable[[], float]) -> None:
        """Start without closed partitions.

        ``due_ms(record, now)`` returns the time at which the record is due. Both times are Unix times in milliseconds.
        ``clock`` is monotonic, because setting a wall clock back would keep partitions closed for too long.
        """
        self._due_ms = due_ms
        self._clock = clock
        self._until: dict[TopicPartition, tuple[int, _Times]] = {}
        """For each partition, the offset of a record that is not due, and the time until which it is not examined."""

    def is_closed(self, tp: TopicPartition, position: Position | None, now: float) -> bool:
        """Return True if no record of the partition is due from this position on."""
        # Records before that offset did not fit into the limits, or are delivered again after an abort.
        offset, until = self._until.get(tp, (0, (0.0, 0.0)))
        return self._left_s(until, now) > 0 and position is not None and position.offset >= offset

    def due(self, tp: TopicPartition, records: Sequence[Any], now: float) -> int:
        """Return the number of the partition's next records that are due.

        Close the partition if not all of its records are due.
        """
        for index, record in enumerate(records):
            due_at = self._due_ms(record, now * 1000) / 1000
            if due_at > now:
                left_s = max(due_at - now, TOGETHER_S)
                self._until[tp] = record.offset, (now + left_s, self._clock() + left_s)
                return index
        return len(records)

    def opens_in_s(self, now: float) -> float:
        """Return the seconds until the next partition opens, or infinity if all are open."""
        # Also forget partitions that were revoked or paused, because no later record opens them.
        self._until = {tp: closed for tp, closed in self._until.items() if self._left_s(closed[1], now) > 0}
        return min((self._left_s(until, now) for _, until in self._until.values()), default=math.inf)

    def _left_s(self, until: _Times, now: float) -> float:
        return min(until[0] - now, until[1] - self._clock())
