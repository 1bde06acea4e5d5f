"""Hides batches of aborted transactions from read_committed consumers (KIP-98; Java: CompletedFetch)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..._records import BatchView, ControlType

__all__ = ["AbortedFilter", "AbortedTransaction"]


class AbortedTransaction(Protocol):
    """An aborted transaction as listed in a Fetch answer."""

    producer_id: int
    first_offset: int


class AbortedFilter:
    """Follows one fetch answer's batches in offset order, and identifies batches of aborted transactions.

    The broker lists every aborted transaction that overlaps the answer, so each answer is filtered independently.
    A producer has one transaction at a time: its batches are aborted from the transaction's first offset up to its
    abort marker.
    """

    __slots__ = ("_aborting", "_coming")

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(((t.first_offset, t.producer_id) for t in transactions), reverse=True)
        """Transactions that begin after the batches seen so far; the next one last."""
        self._aborting: set[int] = set()
        """Producers whose abort marker has not been seen yet."""

    def hides(self, batch: BatchView) -> bool:
        """Return True if the application must not see this batch; call it for every batch, control batches too."""
        coming = self._coming
        while coming and coming[-1][0] <= batch.last_offset:
            self._aborting.add(coming.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._aborting and batch.control_type() == ControlType.ABORT:
                self._aborting.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborting
