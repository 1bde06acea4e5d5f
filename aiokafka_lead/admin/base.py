"""Shared parts of the calls of all areas."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

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
    """The calls of one area, which `AdminClient` inherits."""

    _calls: Calls


def by_topic(
    items: Mapping[TopicPartition, V], partition: Callable[[int, V], P], topic: Callable[[str, list[P]], T]
) -> list[T]:
    """Group the items of partitions by topic, as in requests."""
    nested: dict[str, list[P]] = {}
    for where, item in items.items():
        nested.setdefault(where.topic, []).append(partition(where.partition, item))
    return [topic(name, partitions) for name, partitions in nested.items()]


def indexes_by_topic(partitions: Iterable[TopicPartition], topic: Callable[[str, list[int]], T]) -> list[T]:
    """Group the indexes of partitions by topic, as in requests."""
    return by_topic(dict.fromkeys(partitions), lambda partition, _: partition, topic)


def called(group_id: str) -> str:
    """Return the name of a group for errors."""
    return f"group {group_id!r}"


async def outcomes_of(call: Awaitable[Mapping[K, V]]) -> dict[K, V | KafkaError]:
    """Return the outcome of each item of an admin call that returns a dict: the item's value or its error.

    ``await outcomes_of(admin.describe_consumer_groups(["a", "b"]))`` raises only errors of the whole call. For calls
    that return None, such as `delete_topics`, catch the error and read its ``outcomes``.
    """
    try:
        return dict(await call)
    except KafkaError as error:
        if error.outcomes is None:
            raise
        return dict(error.outcomes)
