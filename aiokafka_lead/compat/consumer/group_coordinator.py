"""`GroupCoordinator`, the state of a consumer in its group."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ...consumer import Consumer
from ...types import TopicPartition
from ..structs import OffsetAndMetadata
from ..util import native_offsets

__all__ = ["Consumed", "GroupCoordinator"]


class Consumed(dict[TopicPartition, OffsetAndMetadata]):
    """The positions of all assigned partitions, as offsets to commit."""


class GroupCoordinator:
    """The consumer's state in its group, which FastStream reads, and the method for commits, which ddtrace patches."""

    def __init__(self, native: Consumer[Any, Any], group_id: str) -> None:
        self._native = native
        self.group_id = group_id

    @property
    def coordinator_id(self) -> int | None:
        """Return the broker id of the coordinator, or None if it is not known. Read by kafkaesk."""
        membership = self._native._engine.membership
        return None if membership is None else membership.standing.coordinator

    @property
    def member_id(self) -> str:
        """Return the member id, or "" while the consumer is not a member."""
        return self._native.group_metadata().member_id

    @property
    def generation(self) -> int:
        """Return the generation of the group, or -1 while the consumer is not a member."""
        return self._native.group_metadata().generation_id

    async def commit_offsets(
        self, assignment: Set[TopicPartition], offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit these offsets. Raises `CommitFailedError` if the partitions now belong to other members."""
        if isinstance(offsets, Consumed):
            await self._native.commit()  # includes leader epochs, which ``offsets`` lacks
        else:
            await self._native.commit(native_offsets(offsets))
