"""Parts that the calls of all areas share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeVar

from .._io.admin import Calls
from .._options.arguments import list_of, topic_name, topic_partition
from .._options.checks import optional, short_text
from ..errors import KafkaError
from ..types import TopicPartition

K = TypeVar("K")
P = TypeVar("P")
T = TypeVar("T")
V = TypeVar("V")

NAMED_TOPICS = list_of("topic names", topic_name)
TOPICS = optional(NAMED_TOPICS)
NAMED_PARTITIONS = list_of("TopicPartition", topic_partition)
PARTITIONS = optional(NAMED_PARTITIONS)
GROUP_ID = short_text
GROUP_IDS = list_of("group ids", short_text)


class AdminArea:
    """Base class for the calls of one area. `AdminClient` inherits from all of these classes."""

    _calls: Calls


def by_topic(
    items: Mapping[TopicPartition, V], partition: Callable[[int, V], P], topic: Callable[[str, list[P]], T]
) -> list[T]:
    """Return a list of topics for a request, each with its partitions.

    ``partition`` converts a partition number and its item, and ``topic`` the name and the converted partitions.
    """
    nested: dict[str, list[P]] = {}
    for where, item in items.items():
        nested.setdefault(where.topic, []).append(partition(where.partition, item))
    return [topic(name, partitions) for name, partitions in nested.items()]


def indexes_by_topic(partitions: Iterable[TopicPartition], topic: Callable[[str, list[int]], T]) -> list[T]:
    """Return a list of topics for a request, each with its partition numbers. ``topic`` converts one of them."""
    return by_topic(dict.fromkeys(partitions), lambda partition, _: partition, topic)


class _TopicPartitions(Protocol):
    topic_name: str
    partitions: list[int]


def partitions_of(topics: Iterable[_TopicPartitions]) -> tuple[TopicPartition, ...]:
    """Return the partitions in an assignment of a response."""
    return tuple(TopicPartition(topic.topic_name, partition) for topic in topics for partition in topic.partitions)


def called(group_id: str) -> str:
    """Return the text that names a group in errors."""
    return f"group {group_id!r}"


async def outcomes_of(call: Awaitable[Mapping[K, V]]) -> dict[K, V | KafkaError]:
    """Await an admin call that returns a dict, and return a dict with the value or the error of each item.

        outcomes = await outcomes_of(admin.describe_consumer_groups(["a", "b"]))

    The error of an item is not raised, but is the value of the item. An error of the whole call, such as a lost
    connection, is raised. For a call that returns None, such as `delete_topics`, catch the error and read its
    ``outcomes``.
    """
    try:
        return dict(await call)
    except KafkaError as error:
        if error.outcomes is None:
            raise
        return dict(error.outcomes)
