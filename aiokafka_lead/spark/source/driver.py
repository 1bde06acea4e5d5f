"""What a stream's driver asks and tells the cluster, by clients that it keeps as long as the query runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack

from ...consumer import Consumer
from ...errors import KafkaError
from ...types import TopicPartition
from ..client_loop import client_loop
from .clients import admin_client, group_consumer, read_committed
from .cluster_view import ClusterView
from .doubts import Doubts
from .options import SourceOptions
from .progress import CheckpointError, Progress, report

__all__ = ["StreamDriver"]

COMMIT_TIMEOUT_MS = 10_000

ASK_AGAIN_S = 0.5
"""Between two questions about a partition that is in doubt, where nothing else is to be done meanwhile."""

_log = logging.getLogger("aiokafka_lead.spark")


class StreamDriver:
    """The calls of `ClusterView` for Spark's thread, and commits that it does not wait for."""

    def __init__(self, options: Mapping[str, str], parsed: SourceOptions) -> None:
        self._options = options
        self._parsed = parsed
        self._loop = client_loop()
        self._stack = ExitStack()
        """The clients that are to be given back."""
        admin = self._stack.enter_context(admin_client(self._loop, options))
        self._view = ClusterView(admin, parsed, read_committed=read_committed(options))
        self._doubts = Doubts(parsed.data_loss_timeout_ms / 1000)
        self._group: Consumer | None = None
        self._committed: Progress | None = None
        """What was committed, or is being committed."""
        self._committing: Future[None] | None = None

    def start(self) -> Progress:
        """Where the query begins."""
        return self._loop.run(self._view.at, self._parsed.starting, starting=True)

    def ends(self, known: Progress, *, certain: bool) -> Progress:
        """Where the partitions end now: at what is known where a partition is missing, or shorter than it was.

        ``certain`` waits until it is known whether such a one is lost. Raises `DataLossError`, or only says it in the
        log, for what is.
        """
        while True:
            found = self._loop.run(self._view.ends, known)
            settled = self._doubts.settle(
                known, found, time.monotonic(), unread=self._view.unread(known), refusals=self._view.refusals
            )
            report(settled.losses, fail=self._parsed.fail_on_data_loss)
            self._view.lost_topics = {tp.topic for tp in self._doubts.gone}
            if not settled.in_doubt or not certain:
                return settled.ends
            time.sleep(ASK_AGAIN_S)

    def check_lacking(self, known: Progress) -> None:
        """Raise `CheckpointError` if a partition of ``known``, which the checkpoint lacks later on, is still there."""
        if present := self._loop.run(self._view.present, known):
            raise CheckpointError(present)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offsets of those of these partitions that exist."""
        wanted = set(partitions)
        return self._loop.run(self._view.earliest, wanted) if wanted else {}

    def commit(self, progress: Progress) -> None:
        """Commit in the background; raises the error of the last time.

        Progress is for tools to look at: what cannot be committed for the moment is left to the next micro-batch.
        """
        if self._parsed.commit_group_id is None or progress == self._committed:
            return
        if self._committing is not None:
            self._committing.result()
        if self._group is None:
            group = group_consumer(self._loop, self._options, self._parsed.commit_group_id)
            self._group = self._stack.enter_context(group)
        self._committed = progress
        self._committing = self._loop.start(_commit, self._group, dict(progress.offsets))

    def close(self) -> None:
        """Give the clients back, and stop them."""
        self._stack.close()
        self._loop.close_idle()


async def _commit(group: Consumer, offsets: dict[TopicPartition, int]) -> None:
    try:
        await group.commit(offsets, timeout_ms=COMMIT_TIMEOUT_MS)
    except KafkaError as error:
        if not error.retriable:
            raise
        _log.warning("progress was not committed: %s", error)
