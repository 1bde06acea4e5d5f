"""Differences from the consumer of `aiokafka_lead`: processed records, rebalance listeners, and errors of positions."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

from ..._io.consumer.reader import ReadListener
from ...errors import FetchOffsetOutOfRangeError, KafkaError, NoOffsetForPartitionError
from ...types import TopicPartition
from ..abc import ConsumerRebalanceListener

_log = logging.getLogger("aiokafka")


class NothingInHand:
    """Replaces the accounting of records in progress, because records count as processed once they are returned.

    As in aiokafka, a rebalance does not wait for the application, and automatic commits include all returned records.
    """

    def __init__(self, account: ReadListener) -> None:
        self.returned = account.returned
        self.watch = account.watch

    def handed_out(self, tp: object, before: object) -> None:
        """Do nothing: the records already count as done."""

    def handing_out(self, chunk: object) -> None:
        """Do nothing: the records already count as done."""


class ListenerCalls:
    """Rebalance listener that calls a listener with aiokafka's interface.

    As in aiokafka, a revocation is reported before each assignment, also before the first. An assignment is reported
    with all partitions, and a stop is not reported. Exceptions of the application's listener are logged.
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
        """True if the revocation was already reported in this rebalance."""
        self._running = 0
        self._idle = asyncio.Event()
        """Set when a callback has ended."""

    async def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Report partitions that the group revokes."""
        if self._stopping():
            return
        self._revoked = True
        await self._call(self._listener.on_partitions_revoked, set(partitions))

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Report the assignment after the group has assigned partitions."""
        if not self._revoked:
            await self._call(self._listener.on_partitions_revoked, set())
        self._revoked = False
        await self._call(self._listener.on_partitions_assigned, set(self._assignment() | partitions))

    async def call_again(self) -> None:
        """Report all partitions as revoked and assigned, after `subscribe` was called again with the same topics."""
        partitions = self._assignment()
        await self.on_partitions_revoked(partitions)
        await self.on_partitions_assigned(partitions)

    async def ended(self) -> None:
        """Wait, without a limit, until no callback is running."""
        while self._running:
            self._idle.clear()
            await self._idle.wait()

    async def _call(self, callback: Callable[[Any], Any], partitions: set[TopicPartition]) -> None:
        self._running += 1
        try:
            result = callback(partitions)
            if inspect.isawaitable(result):
                await result
        except Exception:
            _log.exception("%s of the rebalance listener has failed", callback.__name__)
        finally:
            self._running -= 1
            self._idle.set()


NO_POSITION = (FetchOffsetOutOfRangeError, NoOffsetForPartitionError)


class PositionOutOfRangeError(FetchOffsetOutOfRangeError):
    """`OffsetOutOfRangeError` whose ``args[0]`` maps the partition to the offset, as in aiokafka.

    Programs call for example ``seek_to_beginning(*error.args[0])``.
    """

    def __str__(self) -> str:
        return self.message


class NoPositionError(NoOffsetForPartitionError):
    """`NoOffsetForPartitionError` whose ``args[0]`` is the partition, as in aiokafka.

    Programs call for example ``seek(error.args[0], 0)``.
    """

    def __str__(self) -> str:
        return self.message


def with_place(error: FetchOffsetOutOfRangeError | NoOffsetForPartitionError) -> KafkaError:
    """Convert an error to a class with aiokafka's ``args``."""
    tp = TopicPartition(error.topic, error.partition)
    own: KafkaError
    if isinstance(error, NoOffsetForPartitionError):
        own = NoPositionError(error.message, topic=error.topic, partition=error.partition)
        own.args = (tp,)
    else:
        own = PositionOutOfRangeError(error.message, topic=tp.topic, partition=tp.partition, offset=error.offset)
        own.args = ({tp: error.offset},)
    return own
