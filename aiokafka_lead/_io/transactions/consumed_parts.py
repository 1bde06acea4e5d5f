"""What of consumers is in open transactions, and which of them hear of their ends."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable

from ..._core.consumer.consumed import Consumed, Source, TransactionPart
from ..._core.transactions.state import Fate
from ...errors import CommitFailedError


class ConsumedParts:
    """Takes consumers back when a transaction is aborted, also one that raised before it had their offsets.

    A consumer whose offsets were once part of a transaction goes back after each that is not committed. One that was
    not, and had read before such an abort, is found out by its first part, which is refused.
    """

    def __init__(self) -> None:
        self._parts: dict[Fate, list[TransactionPart]] = {}
        """By transaction."""
        self._sources: weakref.WeakSet[Source] = weakref.WeakSet()
        self._aborted_at = float("-inf")
        """When a transaction ended that was not committed, the latest of them (``time.monotonic()``)."""

    def take(self, consumed: Consumed, fate: Fate) -> TransactionPart:
        """What of a consumer the transaction is to commit. Raises `CommitFailedError`: then it has failed."""
        part = consumed._transaction_part()
        self._parts.setdefault(fate, []).append(part)
        if part.source not in self._sources:
            self._sources.add(part.source)
            if part.source.read_before(self._aborted_at):
                raise CommitFailedError(
                    "a transaction was aborted that may have had records of this consumer: they come again"
                )
        return part

    def committed(self, fate: Fate) -> None:
        """A transaction is committed."""
        for part in self._parts.pop(fate, ()):
            part.ended(committed=True)

    def aborted(self, fates: Iterable[Fate]) -> None:
        """These are not, or that is not known; where there are several, they were in flight at the same time."""
        parts = [part for fate in fates for part in self._parts.pop(fate, ())]
        for part in parts:
            part.ended(committed=False)
        self._go_back(self._sources - {part.source for part in parts})

    def not_begun(self) -> None:
        """A transaction could not begin: what was read for it has to come again, as of one that is aborted."""
        self._go_back(self._sources)

    def _go_back(self, sources: Iterable[Source]) -> None:
        self._aborted_at = time.monotonic()
        for source in sources:
            source.go_back()
