"""Decides which records a transactional producer may put into batches."""

from __future__ import annotations

from collections.abc import Callable

from ..producer.intake import Admission, Intake


class TransactionGate:
    """Decides which records may be put into batches: only those that are sent in the open transaction.

    Each transaction has its own admission, so a send that has waited beyond the end of its transaction is refused. Each
    ``async with`` block has its own intake, so no task can use the intake after the block has ended.
    """

    def __init__(self, intake: Intake, another: Callable[[Admission], Intake]) -> None:
        """Start closed. ``another`` creates an intake that can be used if records can be appended unchanged."""
        self._intake = intake
        self._another = another
        self._of_block: Intake | None = None
        self.outside = 0
        """Number of times that the producer was used since `watch`. Some calls count more than once."""

    def open(self, admission: Admission) -> None:
        """Accept records sent with this admission, which belongs to the new transaction."""
        self._intake.admission = admission
        self._intake.usable = True

    def intake_of_block(self) -> Intake:
        """Return an intake for the open transaction. It cannot be used after the transaction has ended."""
        self._of_block = self._another(self._intake.admission)
        return self._of_block

    def watch(self) -> None:
        """Count uses of the producer outside the open block, for `Consumer.run`.

        To be counted, sends of the producer no longer take the fast path.
        """
        admission = self._intake.admission

        def check() -> None:
            self.outside += 1
            admission.check()

        self._intake.admission = Admission(check, admission.incomplete)
        self._intake.usable = False

    def close(self) -> None:
        """Accept no more records until `open`."""
        self._intake.usable = False
        if self._of_block is not None:
            self._of_block.usable = False
            self._of_block = None
