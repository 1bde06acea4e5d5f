"""The way of a transactional producer's records into batches: open during a transaction, and for its own sends only."""

from __future__ import annotations

from collections.abc import Callable

from ..producer.fast_path import FastPath

__all__ = ["TransactionGate"]


class TransactionGate:
    """Each transaction has an intake of its own, so that a send that waited until after its end is not taken."""

    def __init__(self, fast: FastPath, direct: bool, use_intake_of: Callable[[int], None]) -> None:
        """``direct``: records can be appended as they come."""
        self._fast = fast
        self._direct = direct
        self._use_intake_of = use_intake_of

    def open(self, number: int) -> None:
        """Take records for this transaction."""
        self._use_intake_of(number)
        self._fast.usable = self._direct

    def close(self) -> None:
        """Take none."""
        self._fast.usable = False
