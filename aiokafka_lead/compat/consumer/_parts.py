"""Parts of the consumer that aiokafka's interface needs: records in hand, listeners, and offsets out of range."""

from __future__ import annotations

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
    """Replaces the native consumer's account of records in progress: records that were handed out count as done.

    So a rebalance does not wait for the application, and automatic commits cover all records it got, as in aiokafka.
    """

    def __init__(self, account: ReadListener) -> None:
        self.returned = account.returned
        self.watch = account.watch

    def handed_out(self, tp: object, before: object) -> None:
        """Do nothing: the records already count as done."""

    def handing_out(self, chunk: object) -> None:
        """Do nothing: the records already count as done."""


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


NO_POSITION = (FetchOffsetOutOfRangeError, NoOffsetForPartitionError)


class PositionOutOfRangeError(FetchOffsetOutOfRangeError):
    """`OffsetOutOfRangeError` whose ``args[0]`` has the offset by partition: ``seek_to_beginning(*error.args[0])``."""

    def __str__(self) -> str:
        return self.message


class NoPositionError(NoOffsetForPartitionError):
    """`NoOffsetForPartitionError` whose ``args[0]`` is the partition: ``seek(error.args[0], 0)``."""

    def __str__(self) -> str:
        return self.message


def with_place(error: FetchOffsetOutOfRangeError | NoOffsetForPartitionError) -> KafkaError:
    """Return the error that a native consumer raised with aiokafka's ``args``."""
    tp = TopicPartition(error.topic, error.partition)
    own: KafkaError
    if isinstance(error, NoOffsetForPartitionError):
        own = NoPositionError(error.message, topic=error.topic, partition=error.partition)
        own.args = (tp,)
    else:
        own = PositionOutOfRangeError(error.message, topic=tp.topic, partition=tp.partition, offset=error.offset)
        own.args = ({tp: error.offset},)
    return own
