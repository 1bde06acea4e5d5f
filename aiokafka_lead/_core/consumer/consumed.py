"""The interfaces between a transaction and the consumer whose offsets it commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition


class Source(Protocol):
    """The consumer to which a part belongs."""

    def read_before(self, moment: float) -> bool:
        """Return True if the application had read from it before this moment (``time.monotonic()``)."""
        ...

    def go_back(self) -> None:
        """Return to the committed offsets: a transaction was aborted that may have included its records."""


class TransactionPart(Protocol):
    """Offsets that a transaction commits. `ended` must be called once."""

    @property
    def source(self) -> Source:
        """The consumer; the same for all parts of one consumer."""
        ...

    @property
    def offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The offset after each partition's last record."""
        ...

    @property
    def group(self) -> ConsumerGroupMetadata:
        """The membership that owned the partitions when the part was created."""
        ...

    def ended(self, *, committed: bool) -> None:
        """Record the end of the transaction. If it is not certainly committed, the consumer goes back."""


class Consumed(Protocol):
    """A consumer, or one of its batches."""

    def _transaction_part(self) -> TransactionPart:
        """Return the offsets for a transaction that is about to be committed. Internal.

        Raises `CommitFailedError` if the consumer no longer owns some partitions: the transaction must then be aborted.
        """
        ...
