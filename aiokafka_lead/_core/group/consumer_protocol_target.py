"""What a KIP-848 coordinator wants a member to own: it names topics by their ids, which metadata has to explain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot

__all__ = ["Target"]


class _TopicPartitions(Protocol):
    topic_id: UUID
    partitions: list[int]


class Target:
    """One member's target assignment, as it was given last."""

    def __init__(self) -> None:
        self.known = False
        """Whether the coordinator has given one since `forget`."""
        self._partitions: dict[UUID, frozenset[int]] = {}
        self._snapshot = ClusterSnapshot(0)
        self._names: dict[UUID, str] = {}
        """Of the topics in the target, and of those that are owned: kept while metadata does not name them."""

    def aim(self, assignment: Iterable[_TopicPartitions], owned: Iterable[UUID]) -> None:
        """The coordinator tells a target; the member owns partitions of these topics."""
        self.known = True
        self._partitions = {entry.topic_id: frozenset(entry.partitions) for entry in assignment}
        self._learn_names(owned)

    def forget(self) -> None:
        """There is none until the coordinator tells one."""
        self.known = False
        self._partitions = {}

    def learn(self, snapshot: ClusterSnapshot, owned: Iterable[UUID]) -> None:
        """Topic ids may have names now."""
        self._snapshot = snapshot
        self._learn_names(owned)

    def _learn_names(self, owned: Iterable[UUID]) -> None:
        known = self._snapshot.topic_names
        names = {topic_id: known.get(topic_id) or self._names.get(topic_id) for topic_id in {*self._partitions, *owned}}
        self._names = {topic_id: name for topic_id, name in names.items() if name is not None}

    @property
    def empty(self) -> bool:
        """Whether there are no partitions in it, as far as it is known."""
        return not any(self._partitions.values())

    @property
    def unnamed(self) -> bool:
        """Whether there are partitions of topics that metadata does not name."""
        return any(topic_id not in self._names for topic_id in self._partitions)

    def resolved(self, *, internal: bool) -> Mapping[TopicPartition, UUID]:
        """The target as far as its topics have names, with or without internal topics. What is left comes with newer
        metadata."""
        return {
            TopicPartition(self._names[topic_id], partition): topic_id
            for topic_id, partitions in self._partitions.items()
            if topic_id in self._names and (internal or not self._is_internal(self._names[topic_id]))
            for partition in partitions
        }

    def _is_internal(self, name: str) -> bool:
        topic = self._snapshot.topics.get(name)
        return topic is not None and topic.is_internal
