"""Parts of `AIOKafkaConsumer`: methods for offsets, and differences from the native consumer."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from ..._io.consumer.reader import ReadListener
from ..._values import NamedTuple
from ...consumer import Consumer
from ...errors import (
    ClientClosedError,
    FetchOffsetOutOfRangeError,
    KafkaError,
    NoOffsetForPartitionError,
    RequestTimedOutError,
)
from ...types import TopicPartition
from ..abc import ConsumerRebalanceListener
from ..client import AIOKafkaClient
from ..errors import IllegalStateError, KafkaTimeoutError, UnknownTopicOrPartitionError
from ..structs import OffsetAndTimestamp
from .subscription_state import SubscriptionState

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
        """Pass a revocation to the application's listener."""
        if self._stopping():
            return
        self._revoked = True
        await self._call(self._listener.on_partitions_revoked, set(partitions))

    async def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Pass the new assignment, with all partitions, to the application's listener."""
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
            _log.exception("%s of the rebalance listener raised an exception", callback.__name__)
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


T = TypeVar("T")


class Place(NamedTuple):
    """The position of a consumer in a partition, and the watermarks of its last fetch."""

    position: int | None
    highwater: int | None
    last_stable_offset: int | None


class OffsetCalls:
    """Base class of `AIOKafkaConsumer` with the methods for positions and offsets.

    As in aiokafka, positions remain available after the consumer has stopped.
    """

    _native: Consumer[Any, Any]
    _client: AIOKafkaClient
    _subscription: SubscriptionState
    _last: dict[TopicPartition, Place] | None = None
    """Last positions of a stopped consumer."""

    def _partitions(self) -> set[TopicPartition]:
        """Return the assigned partitions. Used instead of `assignment`, which test clients override."""
        raise NotImplementedError

    def _place(self, partition: TopicPartition) -> Place:
        assert partition in self._partitions(), "Partition is not assigned"
        if self._last is not None:
            return self._last[partition]
        at = self._native._engine.reading.positions.get(partition)
        if at is None:  # the partition was assigned manually, but the consumer has not left its group yet
            return Place(None, None, None)
        return Place(None if at.position is None else at.position.offset, at.high_watermark, at.last_stable_offset)

    # --- positions ----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset of the next record to read in a partition.

        Raises ValueError for a negative offset, and `IllegalStateError` if the partition is not assigned.
        """
        if type(offset) is not int or offset < 0:
            raise ValueError("Offset must be a positive integer")
        if self._last is None:
            self._native.seek(partition, offset)
        elif partition in self._last:
            self._last[partition] = self._last[partition]._replace(position=offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Continue at the beginning of these partitions, by default of all assigned partitions.

        Returns False if the offsets are still unknown after ``request_timeout_ms``. Raises `IllegalStateError` if a
        partition is not assigned, and AssertionError if no partition is assigned.
        """
        return await self._seek(self._native.seek_to_beginning, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Continue at the end of these partitions, by default of all assigned partitions.

        The result and the errors are as in `seek_to_beginning`.
        """
        return await self._seek(self._native.seek_to_end, partitions)

    async def _seek(self, seek: Callable[..., Awaitable[None]], partitions: tuple[TopicPartition, ...]) -> bool:
        try:
            await seek(*self._assigned(partitions))
        except (RequestTimedOutError, UnknownTopicOrPartitionError):
            return False
        return True

    def _assigned(self, partitions: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        checked_partitions(partitions)
        assigned = self._partitions()
        if not partitions:
            assert assigned, "No partitions are currently assigned"
            return tuple(assigned)
        others = set(partitions) - assigned
        if others:
            raise IllegalStateError(f"Partitions {others} are not assigned")
        return partitions

    async def position(self, partition: TopicPartition) -> int:
        """Wait until the offset of the next record to read is known, and return it.

        Raises `IllegalStateError` if the partition is not assigned.
        """
        while True:
            if partition not in self._partitions():
                raise IllegalStateError(f"Partition {partition} is not assigned")
            if self._last is not None and (last := self._last[partition].position) is not None:
                return last
            try:
                return await self._native.position(partition)
            except (RequestTimedOutError, UnknownTopicOrPartitionError):
                continue
            except ClientClosedError:
                if self._last is None or self._last[partition].position is None:
                    raise
            except IllegalStateError:  # the group has revoked the partition, but may assign it again
                if not self._native._engine.subscription.by_topics:
                    raise
                await self._subscription.wait_for_assignment()

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark as of the last fetch, or None before the first."""
        return self._place(partition).highwater

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset as of the last fetch, or None before the first."""
        return self._place(partition).last_stable_offset

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return the current time in milliseconds since 1970, or None if the partition was never fetched."""
        return None if self._place(partition).highwater is None else int(time.time() * 1000)

    # --- the cluster's topics and offsets -----------------------------------------------------------------------------

    async def topics(self) -> set[str]:
        """Return the names of all topics in the cluster, without internal topics."""
        return (await self._client.fetch_all_metadata()).topics()

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the partitions of a topic, or None if the topic is not in this consumer's metadata."""
        return self._client.cluster.partitions_for_topic(topic)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return await self._known(self._native.beginning_offsets(partitions))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition, after its last record."""
        return await self._known(self._native.end_offsets(partitions))

    async def offsets_for_times(
        self, timestamps: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return, for each partition, the offset and timestamp of the first record at or after a time, or None.

        Times are in milliseconds since 1970. Raises ValueError for a negative time.
        """
        for tp, at in timestamps.items():
            if at < 0:
                raise ValueError(f"The target time for partition {tp} is {at}. The target time cannot be negative.")
        found = await self._known(self._native.offsets_for_times({tp: int(at) for tp, at in timestamps.items()}))
        return {
            tp: None if one is None else OffsetAndTimestamp(one.offset, one.timestamp_ms) for tp, one in found.items()
        }

    async def _known(self, offsets: Awaitable[T]) -> T:
        """Return the offsets. Raises `KafkaTimeoutError` for a partition that does not exist, as aiokafka does."""
        try:
            return await offsets
        except UnknownTopicOrPartitionError as error:
            raise KafkaTimeoutError(str(error)) from error


def checked_partitions(partitions: tuple[Any, ...]) -> tuple[TopicPartition, ...]:
    """Return the partitions. Raises TypeError if any is not a `TopicPartition`."""
    if not all(isinstance(p, TopicPartition) for p in partitions):
        raise TypeError("partitions must be TopicPartition namedtuples")
    return partitions
