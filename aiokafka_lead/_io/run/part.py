"""The offsets of a batch of `Consumer.run`, as a part of a transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import CommitFailedError
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..group.commits import Commits
from .batch import Batch


class RunSource:
    """The consumer of a run, as a part of its transactions; see `Source`.

    If a transaction is aborted, the run moves the consumer back to the committed offsets.
    """

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    def read_before(self, moment: float) -> bool:
        """Return False, because no record that was read before can be in a later transaction of the run."""
        return False

    def go_back(self) -> None:
        """Move the consumer back, because a transaction that may have included its records was aborted."""
        self._commits.go_back()


class BatchPart:
    """The offsets of a batch. Created before its records are taken; see `TransactionPart`."""

    def __init__(
        self, batch: Batch, commits: Commits, source: RunSource, over: Callable[[BatchPart, bool], None]
    ) -> None:
        """Take the offsets of ``batch``. ``over`` is called once, with True if the batch was committed."""
        self.source = source
        self.batch = batch
        self.group: ConsumerGroupMetadata = commits.standing.metadata
        self._snapshot = commits.snapshot
        self.offsets: Mapping[TopicPartition, OffsetAndMetadata] = {}
        self._commits = commits
        self._times_back = commits.times_back
        self._over = over
        self._is_over = False

    def _transaction_part(self) -> BatchPart:
        """Set the offsets to those after all records of the batch, which are handled."""
        if self._times_back != self._commits.times_back:
            raise CommitFailedError(
                "a transaction was aborted after the records had been handed out: they will be delivered again"
            )
        self.offsets = self._commits.begin_part(self, self.batch.offsets())
        self.group = self._commits.membership({tp.topic for tp in self.offsets}, self._snapshot)
        return self

    def ended(self, *, committed: bool) -> None:
        """Finish the batch. Unless it is certain that it was committed, the consumer moves back."""
        if not self._is_over:
            self._is_over = True
            self._commits.end_part(self, self.offsets, committed=committed)
            self._over(self, committed)
            self.batch.ended.set_result(None)
