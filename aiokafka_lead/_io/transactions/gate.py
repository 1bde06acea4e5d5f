"""The way of a transactional producer's records into batches: open during a transaction, and for its own sends only."""

from __future__ import annotations

from collections.abc import Callable

from ..producer.intake import Admission, Intake

__all__ = ["TransactionGate"]


class TransactionGate:
    """Each transaction has an admission of its own, so that a send that waited until after its end is not taken."""

    def __init__(self, intake: Intake, direct: bool, admission: Callable[[int], Admission]) -> None:
        """``direct``: records can be appended as they come."""
        self._intake = intake
        self._direct = direct
        self._admission = admission

    def open(self, number: int) -> None:
        """Take records for this transaction."""
        self._intake.admission = self._admission(number)
        self._intake.usable = self._direct

    def close(self) -> None:
        """Take none."""
        self._intake.usable = False
