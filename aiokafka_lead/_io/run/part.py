"""What one batch of `Consumer.run` commits with its transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import CommitFailedError
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..group.commits import Commits
from .batch import Batch

__all__ = ["BatchPart", "RunSource"]


class RunSource:
    """The consumer of one run, which takes it back itself wherever a transaction came to nothing; see `Source`."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    def read_before(self, moment: float) -> bool:
        """Nothing of what was read before is in a later transaction of the run."""
        return False

    def go_back(self) -> None:
        """A transaction was aborted that may have had records of it."""
        self._commits.go_back()


class BatchPart:
    """The offsets of one batch, from the moment when its records begin to be taken; see `TransactionPart`."""

    def __init__(
        self, batch: Batch, commits: Commits, source: RunSource, over: Callable[[BatchPart, bool], None]
    ) -> None:
        """``over`` hears, once, whether it is committed."""
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
        """Behind every record of the batch, all of which are handled."""
        if self._times_back != self._commits.times_back:
            raise CommitFailedError("a transaction was aborted after records had been taken: they come again")
        self.offsets = self._commits.begin_part(self, self.batch.offsets())
        self.group = self._commits.membership({tp.topic for tp in self.offsets}, self._snapshot)
        return self

    def ended(self, *, committed: bool) -> None:
        """The transaction is committed; or it is not, or that is not known: then the consumer goes back."""
        if not self._is_over:
            self._is_over = True
            self._commits.end_part(self, self.offsets, committed=committed)
            self._over(self, committed)
            self.batch.ended.set_result(None)
