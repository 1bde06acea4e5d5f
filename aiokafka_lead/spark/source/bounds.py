"""Which partitions a query reads, and from where to where, before the cluster is asked. Values alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ...types import TopicPartition

__all__ = [
    "EARLIEST",
    "LATEST",
    "AtOffsets",
    "AtTime",
    "AtTimes",
    "Bound",
    "End",
    "NoMatch",
    "Selection",
    "is_certain",
    "parse_offsets",
    "parse_partitions",
    "parse_times",
]

LATEST, EARLIEST = -1, -2
"""What stands for an end of a partition among numbers, as in Kafka's ListOffsets."""


class End(Enum):
    """One of a partition's two ends."""

    EARLIEST = EARLIEST
    LATEST = LATEST


class NoMatch(Enum):
    """What a start means in a partition without a record at or after its time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition; `LATEST` and `EARLIEST` are among them."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimes:
    """The first record at or after a time, in milliseconds since the epoch, for each partition."""

    times_ms: Mapping[TopicPartition, int]
    no_match: NoMatch


@dataclass(frozen=True)
class AtTime:
    """The same time for all partitions."""

    time_ms: int
    no_match: NoMatch


Bound = End | AtOffsets | AtTimes | AtTime


def is_certain(bound: Bound, found: Mapping[TopicPartition, int]) -> bool:
    """Whether the bound was at these offsets at any time before: given ones, and the beginnings of logs never cut."""
    match bound:
        case End():
            return bound is End.EARLIEST and not any(found.values())
        case AtOffsets(offsets):
            return all(at >= 0 or (at == EARLIEST and found.get(tp) == 0) for tp, at in offsets.items())
        case _:
            return False


@dataclass(frozen=True)
class Selection:
    """What is read; exactly one of these is set."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression; a topic whose name has a match anywhere in it is read."""
    partitions: tuple[TopicPartition, ...] = ()


def _numbers(text: str, example: str) -> dict[TopicPartition, int]:
    """``{"topic": {"0": 23}}``; ValueError with an example for anything else."""
    try:
        found = json.loads(text)
        return {
            TopicPartition(topic, int(partition)): _integer(number)
            for topic, partitions in found.items()
            for partition, number in partitions.items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise ValueError(f"expected e.g. {example}, got {text}") from None


def _integer(number: object) -> int:
    """As the connector takes numbers from JSON: fractions are dropped, text is no number."""
    if not isinstance(number, (int, float)) or isinstance(number, bool):
        raise TypeError
    return int(number)


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Offsets by partition."""
    return _numbers(text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}')


def parse_times(text: str) -> dict[TopicPartition, int]:
    """Times by partition, in milliseconds since the epoch."""
    return _numbers(text, '{"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}')


def parse_partitions(text: str) -> tuple[TopicPartition, ...]:
    """``{"topic": [0, 1]}``."""
    try:
        found = json.loads(text)
        return tuple(
            TopicPartition(topic, _integer(partition))
            for topic, partitions in found.items()
            for partition in partitions
        )
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise ValueError(f'expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None
