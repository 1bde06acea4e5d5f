"""Periodically commits the records that the application has finished (``enable_auto_commit``)."""

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
    """Checks the time when the application comes back for records; commits in the background, one at a time."""

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
        """True while a background commit runs."""
        self._one_at_a_time = anyio.Lock()
        """An older commit must not arrive after a newer one."""
        self._last = Waits()
        """Waits of commits before partitions are given up."""

    # --- notifications from the reader -------------------------------------------------------------------------------

    def returned(self, now: float) -> None:
        """The application has finished the records that it got."""
        self._leases.returned(now)
        if now >= self._due_at:
            self._due_at = now + self._interval_s
            self.commit_soon()

    def watch(self, now: float) -> float | None:
        """Return the time of the next check while the application waits."""
        return self._due_at

    def handed_out(self, tp: TopicPartition, before: Position) -> None:
        """The application gets records from this position on."""
        self._leases.handed_out(tp, before)

    def handing_out(self, chunk: Chunk) -> None:
        """The application gets these records one by one."""
        self._leases.handing_out(chunk)

    # --- committing --------------------------------------------------------------------------------------------------

    def commit_soon(self) -> None:
        """Commit finished records now, unless a commit is running."""
        offsets = self._commits.done(self._positions)
        if offsets and not self._spawned:
            self._spawned = True
            self._client.spawn(self._commit_in_background, offsets, name="commit offsets")

    async def commit_last(self, timeout_s: float, partitions: Container[TopicPartition] | None = None) -> None:
        """Commit finished records (of these partitions), before the partitions are given up; errors are logged.

        It waits for a lost coordinator, but not longer than any other commit.
        """
        began_at = time.monotonic()
        with self._last.within(timeout_s) as scope:
            async with self._one_at_a_time:
                await self._commit(partitions, {})
        if scope.cancelled_caught:
            text = "offsets were not committed within %.3g s: what was read since the commit before comes again"
            self._log.warning(text, time.monotonic() - began_at, extra=_COMMIT)

    def hurry(self, until: float) -> None:
        """Limit the wait for a commit to this time (``time.monotonic()``): the consumer is being stopped."""
        self._last.hurry(until)

    async def _commit_in_background(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            async with self._one_at_a_time:
                # Its turn may have come late: partitions given up meanwhile were already committed.
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
