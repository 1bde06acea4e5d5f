"""Requests and commits for a streaming query on the driver, with clients that stay connected while the query runs.

This module also decides when data counts as lost. A partition is *in doubt* while brokers report it as missing, or as
shorter than before.
"""

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

# --- deciding when a partition is lost --------------------------------------------------------------------------------
#
# A broker with old metadata, a temporarily withdrawn ACL, or a newly elected leader may wrongly report that a partition
# does not exist or is shorter than before. A partition in doubt therefore keeps its offset until all answers have
# agreed for some time. Only then does it count as lost. The loss is reported before Spark stores the next offsets, so a
# checkpoint never lacks a known partition.
#
# This code does no I/O, and time is an argument.


ANSWERS = 3
"""Minimum number of responses that must confirm a loss."""


class Settled:
    """The result of `Doubts.settle`: the end offsets to use, confirmed losses, and partitions still in doubt."""

    def __init__(self, ends: Progress, losses: list[str], in_doubt: Collection[TopicPartition]) -> None:
        self.ends = ends
        """End offsets to plan with. A partition that is in doubt or lost keeps its known offset."""
        self.losses = losses
        """Descriptions of losses that were confirmed in this call."""
        self.in_doubt = in_doubt
        """Partitions in doubt."""


class Doubts:
    """Decides whether partitions are really lost that brokers report as missing or shorter than before.

    For each such partition, it stores since when and how often brokers have done so.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._doubted: dict[TopicPartition, tuple[float, int]] = {}
        """For each partition in doubt, the monotonic time of the first such response, and the number of them."""
        self.gone: set[TopicPartition] = set()
        """Partitions that were reported as lost. They keep their offsets, because they might come back."""

    def settle(
        self,
        known: Progress,
        found: Progress,
        now: float,
        *,
        unread: Collection[TopicPartition] = (),
        refusals: Mapping[str, object] = MappingProxyType({}),
    ) -> Settled:
        """Compare the end offsets in the last responses (``found``) with the known offsets.

        ``now`` is the monotonic time in seconds. ``unread`` are partitions that the options no longer select.
        ``refusals`` are brokers' errors about missing topics. If a topic id in ``found`` has changed, this must already
        be confirmed.
        """
        recreated = known.recreated(found)
        losses = [recreation(topic) for topic in sorted(recreated)]
        offsets, in_doubt = dict(found.offsets), set()
        for tp, offset in sorted(known.offsets.items()):
            end = found.offsets.get(tp)
            if tp.topic in recreated or (end is not None and end >= offset):
                self._forget(tp)
            elif tp in unread:
                losses.append(f"partition {tp} is no longer selected by the options")
            elif tp in self.gone:
                offsets[tp] = offset
            elif not self._confirmed(tp, now):
                offsets[tp] = offset
                in_doubt.add(tp)
            else:
                self._forget(tp)
                if end is None:
                    why = refusals.get(tp.topic, "no broker knows it")
                    losses.append(f"partition {tp} has been missing for {self._patience_s:g} s: {why}")
                    offsets[tp] = offset
                    self.gone.add(tp)
                else:
                    losses.append(f"partition {tp} was truncated: it ended at offset {offset} and now ends at {end}")
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
"""Interval, in seconds, of requests about partitions in doubt while `StreamDriver.ends` waits for certainty."""


class StreamDriver:
    """The client side of a streaming query: looks up offsets on the client loop, and commits in the background."""

    def __init__(self, options: Mapping[str, str], parsed: SourceOptions) -> None:
        self._options = options
        self._parsed = parsed
        self._loop = client_loop()
        self._stack = ExitStack()
        """Exit stack that returns the borrowed clients to the client loop when it is closed."""
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
        """Return the offsets at which a query without a checkpoint starts."""
        return self._loop.run(self._view.at, self._parsed.starting, starting=True)

    def ends(self, known: Progress, *, certain: bool) -> Progress:
        """Return the current end offsets. A partition in doubt keeps its known offset.

        ``known`` is the position that the query has reached. With ``certain``, the call waits until no partition is in
        doubt: until each one is as long as before or counts as lost. If a partition is lost, raises `DataLossError` if
        ``failOnDataLoss`` is set, and otherwise logs a warning.
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
        """Raise `CheckpointError` if any of these partitions exists.

        They are missing from a later offset in the checkpoint, so they should have been deleted.
        """
        if present := self._loop.run(self._view.present, known):
            raise CheckpointError(present)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the beginning offsets of the existing partitions among these."""
        wanted = set(partitions)
        return self._loop.run(self._view.earliest, wanted) if wanted else {}

    def commit(self, progress: Progress, *, wait: bool = False) -> None:
        """Commit offsets for ``commitGroupId`` in the background. With ``wait``, wait until the commit has ended.

        Only monitoring tools use these offsets. The call therefore does nothing while another commit is in progress,
        and a temporary error is only logged; a later call commits again. Raises the error of the previous commit if it
        was permanent. After a successful commit, no error counts as permanent, because a withdrawn ACL may be granted
        again.
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
                _log.warning("could not commit offsets for group '%s': %s", self._parsed.commit_group_id, error)

    def close(self) -> None:
        """Stop the clients of the query, and all idle clients of the client loop."""
        self._stack.close()
        self._loop.close_idle()
