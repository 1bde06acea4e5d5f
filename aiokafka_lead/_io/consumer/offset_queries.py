"""Offsets that the application asks for: the log's start and end, and by time."""

from __future__ import annotations

import time
from collections.abc import Mapping

import anyio

from ..._core.backoff import Backoff
from ..._core.consumer.offset_lookup import (
    ListedOffset,
    LookupAnswer,
    by_leader,
    list_offsets_request,
    read_listed_offsets,
)
from ..._core.consumer.reading import Reading
from ..._core.leadership.patience import FREE_RETRIES
from ..._core.metadata.refresh import LEADERLESS, lost, refused
from ..._wire.messages.list_offsets import ListOffsetsRequest
from ...errors import KafkaError, RequestTimedOutError, UnknownTopicOrPartitionError
from ...types import TopicPartition
from ..client import Client
from ..deadline import Deadline

__all__ = ["OffsetQueries", "list_offsets"]


async def list_offsets(
    client: Client, node_id: int, timestamps: Mapping[TopicPartition, int], *, read_committed: bool
) -> LookupAnswer[ListedOffset]:
    """Ask one leader, once."""
    request: ListOffsetsRequest = list_offsets_request(
        timestamps,
        client.metadata.snapshot,
        read_committed=read_committed,
        timeout_ms=int(client.config.request_timeout_ms),
    )
    return read_listed_offsets(await client.request(node_id, request, lane=client.lookup_lane))


class OffsetQueries:
    """Asks every leader at once, and again those whose answer shows that they no longer are."""

    def __init__(self, client: Client, reading: Reading) -> None:
        self._client = client
        self._reading = reading
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)

    async def offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float
    ) -> dict[TopicPartition, ListedOffset]:
        """For each partition the first offset at or after the timestamp (special ones: see `reset_policy`).

        Raises `UnknownTopicOrPartitionError`, what a broker refuses with, and `RequestTimedOutError` with what was
        tried last.
        """
        query = _Query(timestamps)
        deadline = Deadline(timeout_ms)
        for name in {tp.topic for tp in timestamps}:
            await self._client.metadata.topic(name, deadline.left_ms())
        with anyio.move_on_after(deadline.left_s()):
            while query.left:
                query.failures += 1
                await self._round(query)
                if query.left:
                    await self._pause(query)
        if query.left:
            names = ", ".join(str(tp) for tp in sorted(query.left))
            why = "" if query.last is None else f"; the last try: {query.last}"
            kind = type(query.last) if isinstance(query.last, UnknownTopicOrPartitionError) else RequestTimedOutError
            raise kind(f"no offsets of {names} in {timeout_ms:g} ms{why}") from query.last
        return query.found

    async def _pause(self, query: _Query) -> None:
        """Wait out the backoff, or until a leader epoch of what is left has advanced (KIP-951)."""
        metadata = self._client.metadata
        snapshot = metadata.snapshot
        epochs = {tp: snapshot.leader(*tp)[1] for tp in query.left}
        over_at = time.monotonic() + self._backoff.delay_s(query.failures)
        while (left_s := over_at - time.monotonic()) > 0:
            try:
                snapshot = await metadata.wait_newer(snapshot.generation, left_s * 1000)
            except RequestTimedOutError:
                return
            advanced = any(snapshot.leader(*tp)[1] > epoch for tp, epoch in epochs.items())
            if advanced and query.free_retries < FREE_RETRIES:
                query.free_retries += 1
                return

    async def _round(self, query: _Query) -> None:
        leaders, leaderless = by_leader(query.left, self._client.metadata.snapshot)
        if leaderless:
            self._client.metadata.request_update(LEADERLESS)
            query.last = UnknownTopicOrPartitionError(f"{leaderless[0]} has no known leader")
        async with anyio.create_task_group() as tasks:
            for node_id, partitions in leaders.items():
                tasks.start_soon(self._ask, query, node_id, partitions)
        if query.refused is not None:
            raise query.refused

    async def _ask(self, query: _Query, node_id: int, partitions: list[TopicPartition]) -> None:
        timestamps = {tp: query.left[tp] for tp in partitions}
        try:
            answer = await list_offsets(self._client, node_id, timestamps, read_committed=self._reading.read_committed)
        except KafkaError as error:
            query.failed(error)
            self._client.metadata.request_update(lost(node_id))
            return
        for tp, found in answer.found.items():
            if query.left.pop(tp, None) is not None:
                query.found[tp] = found
        for failure in answer.failed.values():
            query.failed(failure)
        if answer.refresh:
            self._client.metadata.request_update(refused(node_id))


class _Query:
    """One call of `OffsetQueries.offsets`."""

    def __init__(self, timestamps: Mapping[TopicPartition, int]) -> None:
        self.left = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        self.found: dict[TopicPartition, ListedOffset] = {}
        self.failures = 0
        self.free_retries = 0
        """Waits that a newer leader epoch has ended."""
        self.last: KafkaError | None = None
        self.refused: KafkaError | None = None
        """What no other try would help against."""

    def failed(self, error: KafkaError) -> None:
        self.last = error
        if not error.retriable:
            self.refused = error
