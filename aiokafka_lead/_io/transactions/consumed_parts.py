"""What of consumers is in a producer's open transaction, and which of them hear of its end."""

from __future__ import annotations

import time
import weakref

from ..._core.consumer.consumed import Consumed, Source, TransactionPart
from ..._core.transactions.errand import Outcome
from ..._core.transactions.state import Fate
from ...errors import CommitFailedError

__all__ = ["ConsumedParts"]


class ConsumedParts:
    """Takes consumers back when a transaction is aborted, also one that raised before it had their offsets.

    A consumer whose offsets were once part of a transaction goes back after each that is not committed. One that was
    not, and had read before such an abort, is found out by its first part, which is refused.
    """

    def __init__(self, fate: Fate) -> None:
        """``fate``: what there is before the first transaction."""
        self._parts: list[TransactionPart] = []
        self._sources: weakref.WeakSet[Source] = weakref.WeakSet()
        self._told = fate
        """That of the latest transaction whose end was told."""
        self._aborted_at = float("-inf")
        """When a transaction ended that was not committed, the latest of them (``time.monotonic()``)."""

    def take(self, consumed: Consumed) -> TransactionPart:
        """What of a consumer the open transaction is to commit. Raises `CommitFailedError`: then it has failed."""
        part = consumed._transaction_part()
        self._parts.append(part)
        if part.source not in self._sources:
            self._sources.add(part.source)
            if part.source.read_before(self._aborted_at):
                raise CommitFailedError(
                    "a transaction was aborted that may have had records of this consumer: they come again"
                )
        return part

    def ended(self, fate: Fate) -> None:
        """The transaction has ended as far as that is known; called again for the same one, it does nothing."""
        if fate is self._told:
            return
        self._told = fate
        committed = fate.outcome is Outcome.COMMITTED
        parts, self._parts = self._parts, []
        for part in parts:
            part.ended(committed=committed)
        if not committed:
            self._aborted_at = time.monotonic()
            for source in self._sources - {part.source for part in parts}:
                source.go_back()
