"""The driver of a stream: its requests and commits, with clients that it keeps while the query runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType

from ...consumer import Consumer
from ...errors import KafkaError
from ...types import TopicPartition
from ..client_loop import client_loop
from .clients import admin_client, group_consumer, read_committed
from .cluster_view import MENTION_EVERY_S, ClusterView
from .options import SourceOptions
from .progress import CheckpointError, Progress, recreation, report

_log = logging.getLogger("aiokafka_lead.spark")

# --- doubts -----------------------------------------------------------------------------------------------------------
#
# Decides which data a stream's driver considers lost. Pure: time is an argument.
#
# A lagging broker, a briefly withdrawn ACL or a newly elected leader may report that a partition does not exist, or is
# shorter than before. A partition therefore keeps its offset until all answers have agreed for a while. Only then is it
# lost. The loss is reported before Spark stores anything, so a checkpoint never lacks a known partition.


ANSWERS = 3
"""Minimum number of answers that confirm a loss, however long it has lasted."""


class Settled:
    """The certain ends of partitions."""

    def __init__(self, ends: Progress, losses: list[str], in_doubt: Collection[TopicPartition]) -> None:
        self.ends = ends
        """End of each known partition, except partitions that are no longer read, and partitions of recreated
        topics."""
        self.losses = losses
        """Descriptions of new losses since the last call."""
        self.in_doubt = in_doubt
        """Partitions that may be lost; they keep their offsets until that is certain."""


class Doubts:
    """Counts answers in which a known partition is missing or shorter, and keeps the time of the first."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._doubted: dict[TopicPartition, tuple[float, int]] = {}
        """Time of each partition's first absence, and the number of answers without it."""
        self.gone: set[TopicPartition] = set()
        """Partitions whose loss was reported; their offsets are kept, because they might come back."""

    def settle(
        self,
        known: Progress,
        found: Progress,
        now: float,
        *,
        unread: Collection[TopicPartition] = (),
        refusals: Mapping[str, object] = MappingProxyType({}),
    ) -> Settled:
        """Compare the found ends with the known ends.

        ``now`` is in monotonic seconds. ``unread`` are no longer selected; ``refusals`` has brokers' errors about
        missing topics. Another topic id in ``found`` must already be confirmed.
        """
        recreated = known.recreated(found)
        losses = [recreation(topic) for topic in sorted(recreated)]
        offsets, in_doubt = dict(found.offsets), set()
        for tp, offset in sorted(known.offsets.items()):
            end = found.offsets.get(tp)
            if tp.topic in recreated or (end is not None and end >= offset):
                self._forget(tp)
            elif tp in unread:
                losses.append(f"partition {tp} is not read any more, by the options")
            elif tp in self.gone:
                offsets[tp] = offset
            elif not self._confirmed(tp, now):
                offsets[tp] = offset
                in_doubt.add(tp)
            else:
                self._forget(tp)
                if end is None:
                    why = refusals.get(tp.topic, "no broker knows it")
                    losses.append(f"partition {tp} is gone, for {self._patience_s:g} s now: {why}")
                    offsets[tp] = offset
                    self.gone.add(tp)
                else:
                    losses.append(f"partition {tp} ended at offset {offset} and now ends at {end}: its log was cut")
        ids = {**known.topic_ids, **found.topic_ids}
        topics = {tp.topic for tp in offsets}
        ends = replace(found, offsets=offsets, topic_ids={name: ids[name] for name in sorted(topics & ids.keys())})
        return Settled(ends, losses, in_doubt)

    def _confirmed(self, tp: TopicPartition, now: float) -> bool:
        since, answers = self._doubted.get(tp, (now, 0))
        self._doubted[tp] = since, answers + 1
        return answers + 1 >= ANSWERS and now - since >= self._patience_s

    def _forget(self, tp: TopicPartition) -> None:
        self._doubted.pop(tp, None)
        self.gone.discard(tp)


COMMIT_TIMEOUT_MS = 10_000

ASK_AGAIN_S = 0.5
"""Interval in seconds of requests about a partition in doubt, unless there is other work in between."""


class StreamDriver:
    """Calls `ClusterView` for Spark's thread, and commits in the background."""

    def __init__(self, options: Mapping[str, str], parsed: SourceOptions) -> None:
        self._options = options
        self._parsed = parsed
        self._loop = client_loop()
        self._stack = ExitStack()
        """Returns the borrowed clients."""
        admin = self._stack.enter_context(admin_client(self._loop, options))
        self._view = ClusterView(admin, parsed, read_committed=read_committed(options))
        self._doubts = Doubts(parsed.data_loss_timeout_ms / 1000)
        self._group: Consumer | None = None
        self._committed: Progress | None = None
        """The latest commit, finished or in progress."""
        self._committing: Future[None] | None = None
        self._has_committed = False
        self._mentioned_at = -MENTION_EVERY_S

    def start(self) -> Progress:
        """Return the start of the query."""
        return self._loop.run(self._view.at, self._parsed.starting, starting=True)

    def ends(self, known: Progress, *, certain: bool) -> Progress:
        """Return the current ends of partitions, or the known offset if a partition is missing, or shorter than before.

        With ``certain``, waits until each partition in doubt is either lost or not. Raises `DataLossError` for a loss,
        or only logs it.
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
        """Raise `CheckpointError` if a partition of ``known`` that the checkpoint later lacks still exists."""
        if present := self._loop.run(self._view.present, known):
            raise CheckpointError(present)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offsets of the partitions that exist."""
        wanted = set(partitions)
        return self._loop.run(self._view.earliest, wanted) if wanted else {}

    def commit(self, progress: Progress, *, wait: bool = False) -> None:
        """Commit in the background; raise the last commit's error if it is permanent.

        Only tools use these commits, so a temporary error has no consequence: the next call commits again. It also does
        so if a commit is in progress now. Once a commit has succeeded, every error counts as temporary, because a
        withdrawn ACL may be granted again. With ``wait``, returns when the commit has ended.
        """
        if self._parsed.commit_group_id is None:
            return
        if self._committing is not None:
            if not (wait or self._committing.done()):
                return
            self._committing.result()
        if progress != self._committed:
            if self._group is None:
                group = group_consumer(self._loop, self._options, self._parsed.commit_group_id)
                self._group = self._stack.enter_context(group)
            self._committed = progress
            self._committing = self._loop.start(self._commit, self._group, dict(progress.offsets))
            if wait:
                self._committing.result()

    async def _commit(self, group: Consumer, offsets: dict[TopicPartition, int]) -> None:
        try:
            await group.commit(offsets, timeout_ms=COMMIT_TIMEOUT_MS)
            self._has_committed = True
        except KafkaError as error:
            if not (error.retriable or self._has_committed):
                raise
            if error.retriable:
                self._committed = None
            if (now := time.monotonic()) >= self._mentioned_at + MENTION_EVERY_S:
                self._mentioned_at = now
                _log.warning("progress was not committed: %s", error)

    def close(self) -> None:
        """Return and stop the clients."""
        self._stack.close()
        self._loop.close_idle()
