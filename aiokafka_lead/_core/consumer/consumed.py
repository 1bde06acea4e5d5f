"""The interface between a transaction and the consumer whose offsets it commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition


class Source(Protocol):
    """The consumer to which a part of a transaction belongs."""

    def read_before(self, moment: float) -> bool:
        """Return True if the application had read from the consumer before this moment (``time.monotonic()``)."""
        ...

    def go_back(self) -> None:
        """Return to the committed offsets, because a transaction with the consumer's records was aborted."""


class TransactionPart(Protocol):
    """The offsets of one consumer that a transaction commits. `ended` must be called exactly once."""

    @property
    def source(self) -> Source:
        """The consumer, as the same object for all of its parts."""
        ...

    @property
    def offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The offset to commit for each partition: the offset after its last record."""
        ...

    @property
    def group(self) -> ConsumerGroupMetadata:
        """The group membership that owned the partitions when the part was created."""
        ...

    def ended(self, *, committed: bool) -> None:
        """Inform the consumer that the transaction has ended. It goes back unless the commit is certain."""


class Consumed(Protocol):
    """A consumer, or one of its batches, as passed to `Transaction.commit_batch` and similar calls."""

    def _transaction_part(self) -> TransactionPart:
        """Return the offsets for a transaction that is about to be committed. Internal.

        Raises `CommitFailedError` if the consumer no longer owns some of the partitions. The transaction must then be
        aborted.
        """
        ...
