"""What the application calls: where `Consumer` stands, where it goes on, and what the cluster has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..._core.consumer import arguments
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.position import Position
from ..._core.consumer.reset_policy import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP, ResetPolicy
from ..._options.arguments import TIMEOUT, topic_name, topic_partition
from ..._options.arguments import offset as checked_offset
from ...config import ConsumerConfig
from ...errors import IllegalStateError
from ...types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ..client import Client
from .engine import ConsumerEngine

__all__ = ["PositionCalls"]


class PositionCalls:
    """The calls of a consumer about its partitions."""

    _client: Client
    _config: ConsumerConfig
    _engine: ConsumerEngine[Any, Any]

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out and fetch no records of these partitions; what was fetched already is kept for `resume`."""
        self._client.check_loop()
        for state in self._states(partitions):
            self._engine.reading.prefetch.pause(state)

    def resume(self, *partitions: TopicPartition) -> None:
        """Take back `pause`."""
        self._client.check_loop()
        for state in self._states(partitions):
            self._engine.reading.prefetch.resume(state)

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return self._engine.reading.positions.paused()

    # --- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Go on from this offset, which need not exist yet; what was fetched is dropped.

        With a leader epoch in `OffsetAndMetadata` it is checked that the log still is the one that the offset was
        taken from (KIP-320).
        """
        tp = topic_partition("partition", partition)
        to = checked_offset("offset", offset)
        self._client.check_loop()
        state = self._engine.reading.positions.require(tp)
        self._engine.reading.seek(state, Position(to.offset, -1 if to.leader_epoch is None else to.leader_epoch))

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on from the first offset of these partitions (of all that are assigned); returns when it is known."""
        await self._seek_by(EARLIEST, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on from the end of these partitions (of all that are assigned); returns when it is known."""
        await self._seek_by(LATEST, partitions)

    async def _seek_by(self, policy: ResetPolicy, partitions: tuple[TopicPartition, ...]) -> None:
        partitions = tuple(arguments.PARTITIONS("partitions", partitions))
        self._client.check()
        states = self._states(partitions) if partitions else list(self._engine.reading.positions)
        for state in states:
            self._engine.reading.reset(state, policy)
        await self._engine.readiness.wait_for_positions(states, self._config.default_api_timeout_ms)

    async def position(self, partition: TopicPartition, *, timeout_ms: float | None = None) -> int:
        """The offset of the next record that this partition hands out; waits while that is being found out.

        Raises `NoOffsetForPartitionError` if there is none, `UnknownTopicOrPartitionError` when several answers of the
        cluster agree that the topic does not have the partition, and after ``timeout_ms`` (``default_api_timeout_ms``)
        if there is no such topic, and `RequestTimedOutError` then for other reasons.
        """
        tp = topic_partition("partition", partition)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        state = self._engine.reading.positions.require(tp)
        await self._engine.readiness.wait_for_positions([state], timeout_ms)
        position = state.position
        if position is None:
            raise IllegalStateError(f"partition {state.tp} is no longer assigned to this consumer")
        return position.offset

    def highwater(self, partition: TopicPartition) -> int | None:
        """The offset behind what every in-sync replica has, as of the last fetch; None before the first."""
        return self._engine.reading.positions.require(topic_partition("partition", partition)).high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The offset behind what no open transaction holds back, as of the last fetch; None before the first."""
        return self._engine.reading.positions.require(topic_partition("partition", partition)).last_stable_offset

    # --- what the cluster has ----------------------------------------------------------------------------------------

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition; they need not be assigned.

        Raises `UnknownTopicOrPartitionError` when several answers of the cluster agree that it does not have one of
        them, and `RequestTimedOutError` after ``timeout_ms`` (``default_api_timeout_ms``).
        """
        return await self._offsets(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record that this consumer could read: with "read_committed" the stable end.

        Raises as `beginning_offsets` does.
        """
        return await self._offsets(partitions, LATEST_TIMESTAMP, timeout_ms)

    async def _offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        timestamps = dict.fromkeys(arguments.PARTITIONS("partitions", partitions), timestamp)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        found = await self._engine.queries.offsets(timestamps, timeout_ms)
        return {tp: found[tp].offset for tp in timestamps}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition its first record at or after the time (milliseconds since the epoch), or None.

        Raises as `beginning_offsets` does.
        """
        wanted = arguments.TIMES("timestamps", timestamps)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        found = await self._engine.queries.offsets(wanted, timeout_ms)
        result: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for tp in wanted:
            offset, timestamp_ms, epoch = found[tp]
            result[tp] = None if offset < 0 else OffsetAndTimestamp(offset, timestamp_ms, None if epoch < 0 else epoch)
        return result

    async def topics(self) -> frozenset[str]:
        """The cluster's topics that this client may see."""
        self._client.check()
        return await self._engine.all_topics()

    async def partitions_for_topic(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """The topic's partitions; raises `UnknownTopicOrPartitionError` if there are none after ``timeout_ms``.

        That is ``default_api_timeout_ms`` by default: the topic may be about to be made.
        """
        topic = topic_name("topic", topic)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        found = await self._client.metadata.topic(topic, timeout_ms)
        return frozenset(range(len(found.partitions)))

    def _timeout_ms(self, timeout_ms: float | None) -> float:
        checked: float | None = TIMEOUT("timeout_ms", timeout_ms)
        return self._config.default_api_timeout_ms if checked is None else checked

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        return [self._engine.reading.positions.require(tp) for tp in arguments.PARTITIONS("partitions", partitions)]
