"""Selection of partitions and bounds of a query, as given in the options and not yet resolved to offsets."""

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
"""Numbers in place of offsets, as in Kafka's ListOffsets request."""


class End(Enum):
    """Beginning or end of a partition."""

    EARLIEST = EARLIEST
    LATEST = LATEST


class NoMatch(Enum):
    """Action if a partition has no record at or after the starting time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True)
class AtOffsets:
    """Bound with an offset for each partition, which may be `LATEST` or `EARLIEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimes:
    """Bound at the first record at or after a time, in ms since 1970, for each partition."""

    times_ms: Mapping[TopicPartition, int]
    no_match: NoMatch


@dataclass(frozen=True)
class AtTime:
    """Bound at the first record at or after a time, in ms since 1970, that is the same for all partitions."""

    time_ms: int
    no_match: NoMatch


Bound = End | AtOffsets | AtTimes | AtTime


def is_beginning(bound: Bound, tp: TopicPartition) -> bool:
    """Return True if the bound is the beginning of this partition's log, which retention may move."""
    return bound is End.EARLIEST or (isinstance(bound, AtOffsets) and bound.offsets.get(tp) == EARLIEST)


def is_certain(bound: Bound, found: Mapping[TopicPartition, int]) -> bool:
    """Return True if the bound had the same offsets at any earlier time.

    This is the case for explicit offsets, and for the beginning of a log that still begins at offset 0.
    """
    match bound:
        case End():
            return bound is End.EARLIEST and not any(found.values())
        case AtOffsets(offsets):
            return all(at >= 0 or (at == EARLIEST and found.get(tp) == 0) for tp, at in offsets.items())
        case _:
            return False


@dataclass(frozen=True)
class Selection:
    """Selection of the partitions to read. Exactly one of ``topics``, ``pattern`` and ``partitions`` is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    """Regular expression that must match some part of a topic's name."""
    partitions: tuple[TopicPartition, ...] = ()
    numbers: tuple[range, ...] = ()
    """Numbers of the only partitions to select; empty for all partitions."""

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
"""Maximum number of characters of an option's text in an error."""


def parse_offsets(name: str, text: str) -> dict[TopicPartition, int]:
    """Parse offsets by partition from JSON such as ``{"orders": {"0": 23, "1": -1}}``.

    Offsets may be `LATEST` or `EARLIEST`. Raises ValueError, which names the option, for invalid text.
    """
    found = _from_json(name, text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}', _numbers)
    return _in_range(name, found, "offset", EARLIEST)


def parse_times(name: str, text: str) -> dict[TopicPartition, int]:
    """Parse times in ms since 1970 by partition. Raises ValueError for invalid text."""
    found = _from_json(name, text, '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}', _numbers)
    return _in_range(name, found, "time", 0)


def parse_partitions(name: str, text: str) -> tuple[TopicPartition, ...]:
    """Parse partitions from JSON such as ``{"orders": [0, 1]}``. Raises ValueError for invalid text."""
    found = _from_json(name, text, '{"topicA":[0,1],"topicB":[0,1]}', _partitions)
    for tp in found:
        _check_partition(name, tp)
    return found


def parse_numbers(name: str, text: str) -> tuple[range, ...]:
    """Parse partition numbers such as ``0,2,5-7``. Raises ValueError for invalid text."""
    found = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"option '{name}': expected e.g. 0,2,5-7, got '{text}'")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if not first <= last <= INT32_MAX:
            raise ValueError(f"option '{name}': '{part.strip()}' is not a range of numbers from 0 to {INT32_MAX}")
        found.append(range(first, last + 1))
    return tuple(found)


def _from_json(name: str, text: str, example: str, convert: Callable[[Any], T]) -> T:
    """Parse and convert JSON. Raises ValueError with an example if either fails."""
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
    """Parse a partition number as Java does, which accepts no blanks, underscores or non-ASCII digits."""
    if not key.isascii() or not key.removeprefix("-").isdigit():
        raise ValueError
    return int(key)


def _integer(number: object) -> int:
    """Return a JSON number as an integer, without its fraction as in Spark's connector. Raises TypeError for text."""
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
