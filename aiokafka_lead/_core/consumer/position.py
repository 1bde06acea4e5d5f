"""A position in a partition's log.

Several positions are kept for each partition, and each response creates more. In compiled form, they are not tracked by
the garbage collector.
"""

from __future__ import annotations

from collections.abc import Iterator

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
