"""Look-ups of the first and last offsets of partitions, and of offsets by timestamp."""

from __future__ import annotations

import time
from collections import defaultdict
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
from ..._core.metadata.refresh import LEADERLESS, doubted, lost, refused
from ..._core.metadata.topics import BELIEVE_AFTER_S, believed
from ..._core.trust import DOUBT_AFTER, Trust, patience_of
from ..._wire.messages.list_offsets import ListOffsetsRequest
from ...errors import KafkaError, RequestTimedOutError, UnknownServerError, UnknownTopicOrPartitionError
from ...types import TopicPartition
from ..client import Client
from ..deadline import Deadline
from ..loop import uninterrupted


async def list_offsets(
    client: Client, node_id: int, timestamps: Mapping[TopicPartition, int], *, read_committed: bool
) -> LookupAnswer[ListedOffset]:
    """Send one ListOffsets request to the leader ``node_id``, and return the offset or error of each partition."""
    request: ListOffsetsRequest = list_offsets_request(
        timestamps,
        client.metadata.snapshot,
        read_committed=read_committed,
        timeout_ms=int(client.config.request_timeout_ms),
    )
    return read_listed_offsets(await client.request(node_id, request, lane=client.lookup_lane), timestamps)


class OffsetQueries:
    """Looks up offsets by timestamp, concurrently at all leaders, for a client's public methods.

    A partition whose leader has changed is looked up again at the new one.
    """

    def __init__(self, client: Client, reading: Reading) -> None:
        self._client = client
        self._reading = reading
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._patience_s = patience_of(client.config.retry_backoff_max_ms)

    async def offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float, *, read_committed: bool | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        """Return each partition's first offset at or after the timestamp. For special timestamps, see `reset_policy`.

        ``read_committed`` defaults to the consumer's isolation level. Raises `UnknownTopicOrPartitionError` if several
        responses agree that a partition does not exist, errors that cannot be retried, and `RequestTimedOutError` with
        the last failure.
        """
        deadline = Deadline(timeout_ms)
        for name in {tp.topic for tp in timestamps}:
            await self._know(name, deadline)
        if read_committed is None:
            read_committed = self._reading.read_committed
        query = _Query(timestamps, self._client.metadata.full_answers, read_committed)
        with anyio.move_on_after(deadline.left_s()):
            while query.left:
                query.failures += 1
                await self._round(query)
                if query.left:
                    await self._pause(query)
        if query.left:
            names = ", ".join(str(tp) for tp in sorted(query.left))
            why = "" if query.last is None else f"; the last error: {query.last}"
            kind = type(query.last) if isinstance(query.last, UnknownTopicOrPartitionError) else RequestTimedOutError
            raise kind(f"no offsets of {names} within {timeout_ms:g} ms{why}") from query.last
        return query.found

    async def _know(self, name: str, deadline: Deadline) -> None:
        """Wait until the topic is known. Raises an error as soon as it is certain that the topic does not exist."""
        while True:
            try:
                await self._client.metadata.topic(name, min(deadline.left_ms(), BELIEVE_AFTER_S * 1000))
                return
            except KafkaError as error:
                unknown = isinstance(error, UnknownTopicOrPartitionError)
                if unknown or not error.retriable or deadline.passed:
                    raise

    async def _pause(self, query: _Query) -> None:
        """Wait for the backoff. Return early if a remaining partition has a newer leader epoch (KIP-951)."""
        metadata = self._client.metadata
        snapshot = metadata.snapshot
        epochs = {tp: snapshot.leader(*tp)[1] for tp in query.left}
        over_at = time.monotonic() + self._backoff.after_s(query.last, query.failures)
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
        """Query all leaders of the remaining partitions once, concurrently.

        Raises an error that a retry cannot solve. Other errors are stored in the query.
        """
        metadata = self._client.metadata
        snapshot = metadata.snapshot
        leaders, leaderless = by_leader(query.left, snapshot)
        if leaderless:
            metadata.request_update(LEADERLESS)
            query.last = UnknownTopicOrPartitionError(f"{leaderless[0]} has no known leader")
            is_believed = believed(metadata.full_answers - query.answers_before, time.monotonic() - query.began_at)
            absent = [tp for tp in leaderless if snapshot.partition(*tp) is None] if is_believed else []
            if absent:
                count = snapshot.partition_count(absent[0].topic)
                raise UnknownTopicOrPartitionError(f"no offset of {absent[0]}: its topic has {count} partitions")
        async with anyio.create_task_group() as tasks:
            for node_id, partitions in leaders.items():
                tasks.start_soon(uninterrupted(self._ask), query, node_id, partitions)
        if query.refused is not None:
            raise query.refused

    async def _ask(self, query: _Query, node_id: int, partitions: list[TopicPartition]) -> None:
        """Send a ListOffsets request for these partitions. Store the offsets and errors in ``query``."""
        timestamps = {tp: query.left[tp] for tp in partitions}
        trust, asked_at = query.trust[node_id], time.monotonic()
        try:
            answer = await list_offsets(self._client, node_id, timestamps, read_committed=query.read_committed)
        except KafkaError as error:
            query.failed(error, trust)
            self._client.metadata.request_update(lost(node_id))
            return
        for tp, found in answer.found.items():
            if query.left.pop(tp, None) is not None:
                query.found[tp] = found
        if len(answer.found) < len(partitions):
            now = time.monotonic()
            if trust.refused(asked_at, now, self._patience_s):
                self._client.metadata.request_update(doubted(node_id))
        for failure in answer.failed.values():
            query.failed(failure, trust)
        if answer.refresh:
            self._client.metadata.request_update(refused(node_id))


class _Query:
    """The progress of one call of `OffsetQueries.offsets`: offsets found, errors, and partitions that remain."""

    def __init__(self, timestamps: Mapping[TopicPartition, int], answers: int, read_committed: bool) -> None:
        """Start the call. ``answers`` is `MetadataActor.full_answers`."""
        self.answers_before = answers
        self.read_committed = read_committed
        self.began_at = time.monotonic()
        self.trust = defaultdict[int, Trust](Trust)
        """The refusals of each leader, by node id."""
        self.left = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        self.found: dict[TopicPartition, ListedOffset] = {}
        self.failures = 0
        self.free_retries = 0
        """Number of backoffs ended by a newer leader epoch."""
        self.last: KafkaError | None = None
        self.refused: KafkaError | None = None
        """An error that cannot be retried, or None."""

    def failed(self, error: KafkaError, trust: Trust) -> None:
        """Store the error. It ends the query if it cannot be retried.

        `UnknownServerError` is retried for some time, because another broker may already be the leader.
        """
        self.last = error
        may_pass = isinstance(error, UnknownServerError) and trust.refusals < 2 * DOUBT_AFTER
        if not error.retriable and not may_pass:
            self.refused = error
