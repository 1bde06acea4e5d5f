"""Positions in partitions' logs, and the entries of Fetch requests.

Several are kept for each partition, and each request and response creates more. In compiled form, they are not tracked
by the garbage collector."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from ...types import OffsetAndMetadata


class Position:
    """The offset of the next record, and the leader epoch of the record before it (-1 if unknown). Immutable."""

    __slots__ = ("leader_epoch", "offset")

    def __init__(self, offset: int, leader_epoch: int = -1) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch

    def __iter__(self) -> Iterator[int]:
        return iter((self.offset, self.leader_epoch))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Position) and self._is(other)

    def _is(self, other: Position) -> bool:
        return self.offset == other.offset and self.leader_epoch == other.leader_epoch

    def __hash__(self) -> int:
        return hash((self.offset, self.leader_epoch))

    def __repr__(self) -> str:
        return f"Position({self.offset}, {self.leader_epoch})"

    def to_commit(self) -> OffsetAndMetadata:
        """Return the position as an offset to commit."""
        return OffsetAndMetadata(self.offset, leader_epoch=None if self.leader_epoch < 0 else self.leader_epoch)


class PartitionFetch:
    """The entry for one partition in a Fetch request, which the broker keeps in a fetch session. Immutable."""

    __slots__ = ("fetch_offset", "last_fetched_epoch", "leader_epoch", "topic_id")

    def __init__(self, topic_id: UUID, fetch_offset: int, last_fetched_epoch: int, leader_epoch: int) -> None:
        self.topic_id = topic_id
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.leader_epoch = leader_epoch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionFetch) and self._is(other)

    def _is(self, other: PartitionFetch) -> bool:
        return (
            self.fetch_offset == other.fetch_offset
            and self.last_fetched_epoch == other.last_fetched_epoch
            and self.leader_epoch == other.leader_epoch
            and (self.topic_id is other.topic_id or self.topic_id == other.topic_id)
        )

    def __hash__(self) -> int:
        return hash((self.topic_id, self.fetch_offset, self.last_fetched_epoch, self.leader_epoch))

    def __repr__(self) -> str:
        where = f"offset {self.fetch_offset}, epochs {self.last_fetched_epoch} and {self.leader_epoch}"
        return f"<PartitionFetch of {self.topic_id}: {where}>"
