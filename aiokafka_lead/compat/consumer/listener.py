"""The application's listener, called as aiokafka calls it."""

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
    """A native listener that calls aiokafka's: with all partitions, before the first assignment too, not at a stop.

    What it raises is logged.
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
        """It was called with what is given up in this rebalance."""

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """The group takes these."""
        if self._stopping():
            return
        self._revoked = True
        await self._call(self._listener.on_partitions_revoked, set(partitions))

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """The group gives these."""
        if not self._revoked:
            await self._call(self._listener.on_partitions_revoked, set())
        self._revoked = False
        await self._call(self._listener.on_partitions_assigned, set(self._assignment() | partitions))

    async def call_again(self) -> None:
        """The application has subscribed to what it had: all of it counts as given up and taken again."""
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
