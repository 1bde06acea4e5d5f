"""The way of a transactional producer's records into batches: open during a transaction, and for its own sends only."""

from __future__ import annotations

from collections.abc import Callable

from ..producer.intake import Admission, Intake

__all__ = ["TransactionGate"]


class TransactionGate:
    """Each transaction has an admission of its own, so that a send that waited until after its end is not taken.

    And each block has an intake of its own, so that what a task has of it leads nowhere after its end.
    """

    def __init__(self, intake: Intake, another: Callable[[Admission], Intake] | None) -> None:
        """``another`` makes a usable intake; None where no record can be appended as it comes."""
        self._intake = intake
        self._another = another
        self._of_block: Intake | None = None

    def open(self, admission: Admission) -> None:
        """Take records for the transaction that this admits them to."""
        self._intake.admission = admission
        self._intake.usable = self._another is not None

    def intake_of_block(self) -> Intake | None:
        """An intake that leads into the open transaction, and nowhere after it."""
        if self._another is not None:
            self._of_block = self._another(self._intake.admission)
        return self._of_block

    def close(self) -> None:
        """Take none."""
        self._intake.usable = False
        if self._of_block is not None:
            self._of_block.usable = False
            self._of_block = None
