"""The consumers' parts of open transactions, and notifications of their ends."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable

from ..._core.consumer.consumed import Consumed, Source, TransactionPart
from ..._core.transactions.state import Fate
from ...errors import CommitFailedError


class ConsumedParts:
    """Takes consumers back when a transaction is aborted, even if it had no offsets of theirs yet.

    A consumer whose offsets were once part of a transaction goes back after each uncommitted one. A consumer without
    such offsets that had read before an abort is detected by its first part, which is refused.
    """

    def __init__(self) -> None:
        self._parts: dict[Fate, list[TransactionPart]] = {}
        """Parts by transaction."""
        self._sources: weakref.WeakSet[Source] = weakref.WeakSet()
        self._aborted_at = float("-inf")
        """Time of the latest end of an uncommitted transaction (``time.monotonic()``)."""

    def take(self, consumed: Consumed, fate: Fate) -> TransactionPart:
        """Return a consumer's part of the transaction. Raises `CommitFailedError`: then the transaction has failed."""
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
        """Mark a transaction as committed."""
        for part in self._parts.pop(fate, ()):
            part.ended(committed=True)

    def aborted(self, fates: Iterable[Fate]) -> None:
        """Mark these transactions, which were in flight at the same time, as not committed or of unknown outcome."""
        parts = [part for fate in fates for part in self._parts.pop(fate, ())]
        for part in parts:
            part.ended(committed=False)
        self._go_back(self._sources - {part.source for part in parts})

    def not_begun(self) -> None:
        """A transaction could not begin: records read for it have to be read again, as after an abort."""
        self._go_back(self._sources)

    def _go_back(self, sources: Iterable[Source]) -> None:
        self._aborted_at = time.monotonic()
        for source in sources:
            source.go_back()
