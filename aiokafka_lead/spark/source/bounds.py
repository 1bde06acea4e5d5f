"""A query's partitions, start and end as given in the options. Pure values, which the cluster has not resolved yet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from ..._options.checks import INT32_MAX, INT64_MAX
from ...types import TopicPartition

LATEST, EARLIEST = -1, -2
"""Numbers for the ends of a partition, as in Kafka's ListOffsets."""


class End(Enum):
    """One of a partition's two ends."""

    EARLIEST = EARLIEST
    LATEST = LATEST


class NoMatch(Enum):
    """Meaning of a start in a partition without a record at or after its time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition, possibly `LATEST` or `EARLIEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimes:
    """The first record at or after a time, in milliseconds since the epoch, for each partition."""

    times_ms: Mapping[TopicPartition, int]
    no_match: NoMatch


@dataclass(frozen=True)
class AtTime:
    """The first record at or after the same time, in milliseconds since the epoch, for all partitions."""

    time_ms: int
    no_match: NoMatch


Bound = End | AtOffsets | AtTimes | AtTime


def is_beginning(bound: Bound, tp: TopicPartition) -> bool:
    """Return True if the bound is the beginning of this partition's log, which retention moves."""
    return bound is End.EARLIEST or (isinstance(bound, AtOffsets) and bound.offsets.get(tp) == EARLIEST)


def is_certain(bound: Bound, found: Mapping[TopicPartition, int]) -> bool:
    """Return True if the bound always had these offsets: given offsets, and the beginnings of logs never truncated."""
    match bound:
        case End():
            return bound is End.EARLIEST and not any(found.values())
        case AtOffsets(offsets):
            return all(at >= 0 or (at == EARLIEST and found.get(tp) == 0) for tp, at in offsets.items())
        case _:
            return False


@dataclass(frozen=True)
class Selection:
    """The partitions to read: exactly one of ``topics``, ``pattern`` and ``partitions`` is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression; a topic whose name has a match anywhere in it is read."""
    partitions: tuple[TopicPartition, ...] = ()
    numbers: tuple[range, ...] = ()
    """Restricts the selection to partitions with these numbers. Empty for all."""

    def of(self, found: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return the selected partitions among these."""
        if self.partitions:
            return set(self.partitions).intersection(found)
        topics = set(self.of_topics({tp.topic for tp in found}))
        return {
            tp
            for tp in found
            if tp.topic in topics and (not self.numbers or any(tp.partition in numbers for numbers in self.numbers))
        }

    def of_topics(self, names: Iterable[str]) -> set[str]:
        """Return the selected topics among these."""
        if self.pattern:
            pattern = re.compile(self.pattern)
            return {name for name in names if pattern.search(name)}
        return {*self.topics, *(tp.topic for tp in self.partitions)}.intersection(names)


T = TypeVar("T")
_NUMBERS = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_LONGEST_QUOTE = 200
"""Number of characters of an option's text that an error repeats."""


def parse_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """Parse offsets by partition, or `LATEST` and `EARLIEST`. Raises ValueError, which names the option."""
    found = _from_json(name, text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}', _numbers)
    return _in_range(name, found, "offset", EARLIEST)


def parse_times(name: str, text: str) -> dict[TopicPartition, int]:
    """Parse times by partition, in milliseconds since the epoch."""
    found = _from_json(name, text, '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}', _numbers)
    return _in_range(name, found, "time", 0)


def parse_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse ``{"topic": [0, 1]}``."""
    found = _from_json(name, text, '{"topicA":[0,1],"topicB":[0,1]}', _partitions)
    for tp in found:
        _check_partition(name, tp)
    return found


def parse_numbers(name: str, text: str) -> tuple[range, ...]:
    """Parse partition numbers, such as ``0,2,5-7``, which apply to every topic. Raises ValueError."""
    found = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"option '{name}': expected e.g. 0,2,5-7, got '{text}'")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if not first <= last <= INT32_MAX:
            raise ValueError(f"option '{name}': '{part.strip()}' is no range from 0 to {INT32_MAX}")
        found.append(range(first, last + 1))
    return tuple(found)


def _from_json(name: str, text: str, example: str, convert: Callable[[Any], T]) -> T:
    """Return the JSON converted by ``convert``; raise ValueError with an example if that fails."""
    try:
        return convert(json.loads(text))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        quote = text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
        raise ValueError(f"option '{name}': expected e.g. {example}, got {quote}") from None


def _numbers(found: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, _partition(key)): _integer(number)
        for topic, partitions in found.items()
        for key, number in partitions.items()
    }


def _partitions(found: Any) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, _integer(number)) for topic, numbers in found.items() for number in numbers)


def _partition(key: str) -> int:
    """Return a partition's number, parsed as in Java: without the blanks, underscores and other digits of Python."""
    if not key.isascii() or not key.removeprefix("-").isdigit():
        raise ValueError
    return int(key)


def _integer(number: object) -> int:
    """Return a JSON number like the connector does: fractions are dropped, text is not a number."""
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise TypeError
    return int(number)


def _in_range(name: str, found: dict[TopicPartition, int], what: str, low: int) -> dict[TopicPartition, int]:
    for tp, number in found.items():
        _check_partition(name, tp)
        if not low <= number <= INT64_MAX:
            raise ValueError(f"option '{name}': the {what} of {tp} must be from {low} to {INT64_MAX}, not {number}")
    return found


def _check_partition(name: str, tp: TopicPartition) -> None:
    if not 0 <= tp.partition <= INT32_MAX:
        raise ValueError(
            f"option '{name}': a partition of topic '{tp.topic}' must be from 0 to {INT32_MAX}, not {tp.partition}"
        )
