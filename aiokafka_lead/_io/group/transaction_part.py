"""A consumer's offsets in a transaction."""

from __future__ import annotations

from ...types import ConsumerGroupMetadata
from .commits import Commits, Offsets

__all__ = ["GroupPart"]


class GroupPart:
    """The offsets of a group's member; see `TransactionPart`."""

    def __init__(self, commits: Commits, offsets: Offsets | None = None) -> None:
        """``offsets`` None: behind everything that was handed out. Raises `CommitFailedError`."""
        self.source = commits
        self.group: ConsumerGroupMetadata = commits.standing.metadata
        self.offsets: Offsets = commits.begin_part(self, offsets)

    def ended(self, *, committed: bool) -> None:
        """The transaction is committed; or it is not, or that is not known: then the consumer goes back."""
        self.source.end_part(self, self.offsets, committed=committed)
