"""Adapter that calls the application's listener as aiokafka calls it."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from ...types import TopicPartition
from ..abc import ConsumerRebalanceListener

__all__ = ["ListenerCalls"]

_log = logging.getLogger("aiokafka")


class ListenerCalls:
    """A native listener that calls aiokafka's: with all partitions, also before the first assignment, not at a stop.

    Exceptions of the application's listener are logged.
    """

    def __init__(
        self,
        listener: ConsumerRebalanceListener,
        assignment: Callable[[], frozenset[TopicPartition]],
        stopping: Callable[[], bool],
    ) -> None:
        self._listener = listener
        self._assignment = assignment
        self._stopping = stopping
        self._revoked = False
        """True after the call for the partitions that this rebalance revokes."""

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Handle partitions that the group revokes."""
        if self._stopping():
            return
        self._revoked = True
        await self._call(self._listener.on_partitions_revoked, set(partitions))

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Handle partitions that the group assigns."""
        if not self._revoked:
            await self._call(self._listener.on_partitions_revoked, set())
        self._revoked = False
        await self._call(self._listener.on_partitions_assigned, set(self._assignment() | partitions))

    async def call_again(self) -> None:
        """Report the same partitions as revoked and assigned after the application subscribed to the same topics."""
        partitions = self._assignment()
        await self.on_partitions_revoked(partitions)
        await self.on_partitions_assigned(partitions)

    async def _call(self, callback: Callable[[Any], Any], partitions: set[TopicPartition]) -> None:
        try:
            result = callback(partitions)
            if inspect.isawaitable(result):
                await result
        except Exception:
            _log.exception("%s of the rebalance listener has failed", callback.__name__)
