"""What goes between a run's driver and its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .errors import ExactlyOnceError

if TYPE_CHECKING:
    from ...._io.transactions.handover import OpenTransaction

__all__ = ["Batch", "Run", "Share"]


class Batch(NamedTuple):
    """Which micro-batch is written."""

    query: str
    """The query's id, which its checkpoint keeps."""
    number: int


class Run(NamedTuple):
    """One try of a micro-batch or of a write, as the driver tells its tasks of it."""

    name: str
    query: str | None
    """Of the micro-batch that the ledger had last when the run began."""
    batch: int

    def has(self, batch: Batch) -> bool:
        """Whether the micro-batch was decided before. Raises `ExactlyOnceError` where the ledger is of another one."""
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
        return False  # a new query takes over, as after its checkpoint was deleted


class Share(NamedTuple):
    """What an attempt of a task wrote."""

    run: str
    task: int
    rows: int
    opened: OpenTransaction | None
    """Where its rows are; None where it has none, and for what was written before."""
    batch: Batch | None
    """None where a DataFrame is written."""
    written_before: bool = False
    """Whether the ledger had the micro-batch already."""
