"""A place in a partition's log."""

from __future__ import annotations

from typing import NamedTuple

from ...types import OffsetAndMetadata

__all__ = ["Position"]


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the record before it (-1: not known)."""

    offset: int
    leader_epoch: int = -1

    def to_commit(self) -> OffsetAndMetadata:
        """As it is committed."""
        return OffsetAndMetadata(self.offset, leader_epoch=None if self.leader_epoch < 0 else self.leader_epoch)
