"""Writers for the option ``exactlyOnce``.

Spark creates a writer for every micro-batch and every write, and pickles it for the tasks. It creates another writer
for the commit of a micro-batch, which it does not pickle. A run therefore begins when its writer is pickled, before any
task starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from .settings import ExactlyOnce
from .task import Run, Share

if TYPE_CHECKING:
    import pyarrow as pa

    from ..bulks import RecordColumns


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """Message of a successful task to the driver."""

    share: Share

    @property
    def rows(self) -> int:
        """Number of rows that the task has written."""
        return self.share.rows


class _Begun:
    """Base class of both exactly-once writers. It begins a run when Spark first pickles it, before the tasks start."""

    _streaming: ClassVar[bool]

    def __init__(self, settings: ExactlyOnce, columns: RecordColumns) -> None:
        self._settings = settings
        self._columns = columns
        self._run: Run | None = None

    def __getstate__(self) -> dict[str, object]:
        if self._run is None:
            from .driver import begin

            self._run = begin(self._settings, streaming=self._streaming)
        return vars(self)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task. Spark calls this in each task."""
        from .task import write_share

        assert self._run is not None
        return Written(write_share(self._settings, self._columns, self._run, iterator, streaming=self._streaming))

    def _commit(self, messages: list[WriterCommitMessage | None]) -> None:
        from .driver import commit

        commit(self._settings, _shares(messages))

    def _abort(self, messages: list[WriterCommitMessage | None]) -> None:
        from .driver import abort

        abort(self._settings, _shares(messages), self._run)


class ExactBatchWriter(_Begun, DataSourceArrowWriter):
    """Writer for batch queries that commits all rows or none."""

    _streaming = False

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the tasks' transactions. Spark calls this on the driver after all tasks have succeeded."""
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the tasks' transactions. Spark calls this on the driver after a task or the commit has failed."""
        self._abort(messages)


class ExactStreamWriter(_Begun, DataSourceStreamArrowWriter):
    """Writer for streaming queries that commits each micro-batch once."""

    _streaming = True

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (PySpark's name)
        """Commit the tasks' transactions. Spark calls this on the driver after all tasks have succeeded."""
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (PySpark's name)
        """Abort the tasks' transactions. Spark calls this on the driver after a task or the commit has failed."""
        self._abort(messages)


def _shares(messages: list[WriterCommitMessage | None]) -> list[Share | None]:
    return [message.share if isinstance(message, Written) else None for message in messages]
