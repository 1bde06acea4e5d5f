"""What a transaction and a consumer know of each other, when the one commits the offsets of the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["Consumed", "Source", "TransactionPart"]


class Source(Protocol):
    """The consumer that a part is of."""

    def read_before(self, moment: float) -> bool:
        """Whether the application had read of it before this moment (``time.monotonic()``)."""
        ...

    def go_back(self) -> None:
        """A transaction was aborted that may have had records of it: what is not committed comes again."""


class TransactionPart(Protocol):
    """Offsets that one transaction commits. It has to say how that ended, once."""

    @property
    def source(self) -> Source:
        """The same for all parts of one consumer."""
        ...

    @property
    def offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Behind the last record of each partition."""
        ...

    @property
    def group(self) -> ConsumerGroupMetadata:
        """The membership that owned the partitions when the part was made."""
        ...

    def ended(self, *, committed: bool) -> None:
        """The transaction is committed; or it is not, or that is not known: then the consumer goes back."""


class Consumed(Protocol):
    """A consumer, or one of its batches."""

    def _transaction_part(self) -> TransactionPart:
        """What of it belongs into a transaction that is to be committed now. Internal.

        Raises `CommitFailedError` if something of it is not the consumer's any more: then only abort is right.
        """
        ...
