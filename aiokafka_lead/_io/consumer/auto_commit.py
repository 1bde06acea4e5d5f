"""Commits what the application is done with, now and then (``enable_auto_commit``)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import anyio

from ..._core.consumer.fetched import Chunk
from ..._core.consumer.in_hand import InHand
from ..._core.consumer.partition_state import Position
from ..._core.consumer.positions import Positions
from ...errors import KafkaError
from ...types import OffsetAndMetadata, TopicPartition
from ..group.offsets import GroupOffsets

if TYPE_CHECKING:
    from ...client import Client

__all__ = ["AutoCommit"]

log = logging.getLogger("aiokafka_lead.consumer")


class AutoCommit:
    """Looks at the clock whenever the application comes back for records; sends in the background, one at a time."""

    def __init__(
        self, client: Client, positions: Positions, group_offsets: GroupOffsets, interval_s: float, timeout_ms: float
    ) -> None:
        self._client = client
        self._positions = positions
        self._group_offsets = group_offsets
        self._interval_s = interval_s
        self._timeout_ms = timeout_ms
        self._in_hand = InHand()
        self._due_at = time.monotonic() + interval_s
        self._sending = False

    # --- what the reader tells ---------------------------------------------------------------------------------------

    def returned(self, now: float) -> None:
        """The application is done with what it got."""
        self._in_hand.release()
        if now >= self._due_at:
            self._due_at = now + self._interval_s
            self.commit_soon()

    def watch(self, now: float) -> float | None:
        """When to look again while the application waits."""
        return self._due_at

    def hold(self, tp: TopicPartition, before: Position) -> None:
        """The application gets records from this position on."""
        self._in_hand.hold(tp, before)

    def hold_last(self, tp: TopicPartition, chunk: Chunk) -> None:
        """The application gets these records one by one."""
        self._in_hand.hold_last(tp, chunk)

    def finished(self) -> None:
        """The application has said that it is done with everything."""
        self._in_hand.release()

    # --- committing --------------------------------------------------------------------------------------------------

    def commit_soon(self) -> None:
        """Commit what is done now, unless that is under way."""
        offsets = self._in_hand.done(self._positions)
        if offsets and not self._sending:
            self._sending = True
            self._client.spawn(self._commit, offsets, name="commit offsets")

    async def commit_last(self, timeout_s: float) -> None:
        """Commit what is done, before the end; errors are logged."""
        offsets = self._in_hand.done(self._positions)
        if offsets:
            with anyio.move_on_after(timeout_s):
                await self._commit(offsets)

    async def _commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            await self._group_offsets.commit(offsets, self._timeout_ms)
            self._in_hand.stored(offsets.items())
        except KafkaError as error:
            log.warning("offsets were not committed: %s", error)
        finally:
            self._sending = False
