"""Commits what the application is done with, now and then (``enable_auto_commit``)."""

from __future__ import annotations

import time
from collections.abc import Container

import anyio

from ..._core.consumer.chunk import Chunk
from ..._core.consumer.position import Position
from ..._core.consumer.positions import Positions
from ..._options.logs import client_log
from ...errors import KafkaError
from ...types import OffsetAndMetadata, TopicPartition
from ..cancellation import Waits
from ..client import Client
from .commits import Commits
from .leases import Leases

_COMMIT = {"api": "OffsetCommit"}


class AutoCommit:
    """Looks at the clock whenever the application comes back for records; sends in the background, one at a time."""

    def __init__(
        self, client: Client, positions: Positions, commits: Commits, leases: Leases, interval_s: float
    ) -> None:
        self._client = client
        self._log = client_log("consumer", client.config.client_id)
        self._positions = positions
        self._commits = commits
        self._leases = leases
        self._interval_s = interval_s
        self._due_at = time.monotonic() + interval_s
        self._spawned = False
        """A commit in the background is under way."""
        self._one_at_a_time = anyio.Lock()
        """An older commit must not arrive after a newer one."""
        self._last = Waits()
        """Those for commits before partitions are given up."""

    # --- what the reader tells ---------------------------------------------------------------------------------------

    def returned(self, now: float) -> None:
        """The application is done with what it got."""
        self._leases.returned(now)
        if now >= self._due_at:
            self._due_at = now + self._interval_s
            self.commit_soon()

    def watch(self, now: float) -> float | None:
        """When to look again while the application waits."""
        return self._due_at

    def handed_out(self, tp: TopicPartition, before: Position) -> None:
        """The application gets records from this position on."""
        self._leases.handed_out(tp, before)

    def handing_out(self, chunk: Chunk) -> None:
        """The application gets these records one by one."""
        self._leases.handing_out(chunk)

    # --- committing --------------------------------------------------------------------------------------------------

    def commit_soon(self) -> None:
        """Commit what is done now, unless that is under way."""
        offsets = self._commits.done(self._positions)
        if offsets and not self._spawned:
            self._spawned = True
            self._client.spawn(self._commit_in_background, offsets, name="commit offsets")

    async def commit_last(self, timeout_s: float, partitions: Container[TopicPartition] | None = None) -> None:
        """Commit what is done (of these partitions), before they are given up; errors are logged.

        A coordinator that is gone is waited for, but not longer than for any other commit.
        """
        began_at = time.monotonic()
        with self._last.within(timeout_s) as scope:
            async with self._one_at_a_time:
                await self._commit(partitions, {})
        if scope.cancelled_caught:
            text = "offsets were not committed within %.3g s: what was read since the commit before comes again"
            self._log.warning(text, time.monotonic() - began_at, extra=_COMMIT)

    def hurry(self, until: float) -> None:
        """The consumer is being stopped: a commit that is waited for has until then (``time.monotonic()``)."""
        self._last.hurry(until)

    async def _commit_in_background(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            async with self._one_at_a_time:
                # Its turn may have come late: partitions that a group gave up meanwhile were committed then.
                gone = {} if self._commits.by_member else offsets
                await self._commit(None, {tp: offset for tp, offset in gone.items() if tp not in self._positions})
        finally:
            self._spawned = False

    async def _commit(
        self, partitions: Container[TopicPartition] | None, last: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        states = [state for state in self._positions if partitions is None or state.tp in partitions]
        try:
            await self._commits.commit_done(states, last)
        except KafkaError as error:
            self._log.warning("offsets were not committed: %s", error, extra=_COMMIT)
