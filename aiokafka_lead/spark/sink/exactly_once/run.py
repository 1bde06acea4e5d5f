"""Messages between a run's driver and its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .errors import ExactlyOnceError

if TYPE_CHECKING:
    from ...._io.transactions.handover import OpenTransaction

__all__ = ["Batch", "Run", "Share"]


class Batch(NamedTuple):
    """The micro-batch to write."""

    query: str
    """The query's id, stored in its checkpoint."""
    number: int


class Run(NamedTuple):
    """One try of a micro-batch or of a write, as sent to tasks."""

    name: str
    query: str | None
    """Query of the last micro-batch in the ledger when the run began."""
    batch: int

    def has(self, batch: Batch) -> bool:
        """Return True if the micro-batch was decided. Raises `ExactlyOnceError` for another query's ledger."""
        if self.query is None:
            return False
        if self.query == batch.query:
            if self.batch > batch.number:
                raise ExactlyOnceError(
                    f"batch {batch.number} comes after batch {self.batch}: the checkpoint was set back, or copied; "
                    "with another transactionalIdPrefix the query writes from here on again"
                )
            return self.batch == batch.number
        if batch.number > 0:
            raise ExactlyOnceError(
                f"the transactionalIdPrefix belongs to query {self.query}, which was at batch {self.batch}: "
                "give each query its own"
            )
        return False  # a new query takes over, for example after its checkpoint was deleted


class Share(NamedTuple):
    """The rows written by an attempt of a task."""

    run: str
    task: int
    rows: int
    opened: OpenTransaction | None
    """The transaction with its rows; None if it has none, or they were written before."""
    batch: Batch | None
    """None for the write of a DataFrame."""
    written_before: bool = False
    """True if the ledger already had the micro-batch."""
