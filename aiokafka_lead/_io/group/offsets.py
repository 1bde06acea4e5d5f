"""Commits and look-ups of a group's offsets. Other brokers are asked about partitions unknown to the coordinator."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from uuid import UUID

from ..._core.backoff import Backoff
from ..._core.group.offsets import GroupIdentity, commit_request, committed_request, read_commit, read_committed
from ..._core.inquiry import REFUSALS, may_repeat
from ..._core.metadata.topics import MissingPartitions
from ..._core.metadata.types import NO_TOPIC_ID, is_another
from ..._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ..._wire.messages.offset_commit import OffsetCommitRequest
from ..._wire.messages.offset_fetch import OffsetFetchRequest
from ...errors import KafkaError, RequestTimedOutError, UnknownTopicIdError, UnknownTopicOrPartitionError
from ...errors.shown import PARTITIONS_NAMED, some_of
from ...types import OffsetAndMetadata, TopicPartition
from ..asking_around import ask_anyone
from ..client import Client
from ..connection.connection import Connection
from ..deadline import Deadline
from .coordinators import CoordinatorKind, Coordinators

_NO_IDS: Mapping[str, UUID] = MappingProxyType({})
UNKNOWN = (UnknownTopicIdError, UnknownTopicOrPartitionError)
"""Errors of a coordinator for partitions that do not exist, or that its metadata does not contain yet."""


class Missing:
    """Finds out, by asking other brokers, whether partitions that a coordinator does not know are really missing."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._partitions = MissingPartitions()

    async def among(
        self,
        refused: Collection[TopicPartition],
        coordinator: int,
        timeout_ms: float | None = None,
        topic_ids: Mapping[str, UUID] = _NO_IDS,
    ) -> set[TopicPartition]:
        """Return the partitions that have been missing for some time. The caller retries its request for all others.

        A topic whose id differs from ``topic_ids`` counts as missing.
        """
        if not refused:
            return set()
        topics = [MetadataRequestTopic(name=name) for name in sorted({tp.topic for tp in refused})]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)

        async def ask(connection: Connection) -> MetadataResponse:
            return await connection.request(request)

        try:
            _, response = await ask_anyone(self._client, (), ask, timeout_ms, avoid=(coordinator,))
        except KafkaError:
            return set()
        counts = {
            name: 0 if is_another(topic_ids.get(name, NO_TOPIC_ID), topic.topic_id) else len(topic.partitions)
            for topic in response.topics
            for name in (topic.name or "",)
            if not topic.error_code or topic.error_code == UnknownTopicOrPartitionError.code
        }
        return self._partitions.judge(refused, counts, time.monotonic())


def gone(partitions: Collection[TopicPartition]) -> KafkaError:
    """Return the error for offsets that were not committed because their partitions no longer exist."""
    names = some_of(sorted(partitions), PARTITIONS_NAMED)
    return UnknownTopicOrPartitionError(f"no offset of {names} was committed: the cluster no longer has it")


class GroupOffsets:
    """Commits and fetches the offsets of a group. If the coordinator changes, finds the new one."""

    def __init__(self, client: Client, coordinators: Coordinators, group_id: str) -> None:
        self._client = client
        self._coordinators = coordinators
        self.group_id = group_id
        self._missing = Missing(client)
        self.backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)

    async def commit(
        self, left: dict[TopicPartition, OffsetAndMetadata], identity: GroupIdentity, timeout_ms: float
    ) -> set[TopicPartition]:
        """Commit the offsets in ``left``, and remove from it those that have been stored or given up.

        Returns the partitions that were given up, because they no longer exist or belong to another topic of the same
        name. Raises the error of a refused partition or member, or `RequestTimedOutError` with the error of the last
        attempt.
        """
        gone: set[TopicPartition] = set()
        before = self._client.metadata.snapshot

        def settle(partitions: Iterable[TopicPartition]) -> None:
            for tp in partitions:
                del left[tp]

        async def attempt(connection: Connection, timeout_ms: float) -> None:
            deadline = Deadline(timeout_ms)
            snapshot = self._client.metadata.snapshot
            replaced = {tp for tp in left if is_another(before.topic_id(tp.topic), snapshot.topic_id(tp.topic))}
            settle(replaced)
            gone.update(replaced)
            if not left:
                return
            version = connection.versions.version_for(OffsetCommitRequest)
            request, version = commit_request(self.group_id, left, identity, version, snapshot)
            response = await connection.request(request, timeout_ms=deadline.left_ms(), version=version)
            failed = read_commit(response, left, snapshot)
            settle([tp for tp in left if tp not in failed])
            refused = [tp for tp, error in failed.items() if isinstance(error, UNKNOWN)]
            missing = await self._missing.among(refused, connection.node_id, deadline.left_ms())
            settle(missing)
            gone.update(missing)
            _raise_worst([error for tp, error in failed.items() if tp not in missing])

        if left:
            await self._with_coordinator(attempt, timeout_ms, "commit offsets")
        return gone

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_ms: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition, or None for a partition without one.

        Raises the same errors as `commit`.
        """
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}

        async def attempt(connection: Connection, timeout_ms: float) -> None:
            left = [tp for tp in partitions if tp not in found]
            failed = await self._fetch(connection, left, found, timeout_ms)
            _raise_worst(failed.values())

        if partitions:
            await self._with_coordinator(attempt, timeout_ms, "read committed offsets")
        return {tp: found.get(tp) for tp in partitions}

    async def committed_now(
        self, partitions: Collection[TopicPartition], timeout_ms: float
    ) -> tuple[dict[TopicPartition, OffsetAndMetadata | None], dict[TopicPartition, KafkaError]]:
        """Return the committed offset of each partition, or the error with which the coordinator refuses it now.

        Raises those errors of `commit` that do not concern a single partition.
        """
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        failed: dict[TopicPartition, KafkaError] = {}

        async def attempt(connection: Connection, timeout_ms: float) -> None:
            failed.clear()
            failed.update(await self._fetch(connection, partitions, found, timeout_ms))
            _raise_worst([error for error in failed.values() if isinstance(error, REFUSALS)])

        await self._with_coordinator(attempt, timeout_ms, "read committed offsets")
        return found, failed

    async def _fetch(
        self,
        connection: Connection,
        partitions: Collection[TopicPartition],
        found: dict[TopicPartition, OffsetAndMetadata | None],
        timeout_ms: float,
    ) -> dict[TopicPartition, KafkaError]:
        """Add committed offsets to ``found``. Return the errors of partitions whose offset is not available."""
        snapshot = self._client.metadata.snapshot
        version = connection.versions.version_for(OffsetFetchRequest)
        request, version = committed_request(self.group_id, partitions, version, snapshot)
        response = await connection.request(request, timeout_ms=timeout_ms, version=version)
        now_found, failed = read_committed(response, partitions, snapshot)
        found.update(now_found)
        return failed

    async def _with_coordinator(
        self, attempt: Callable[[Connection, float], Awaitable[None]], timeout_ms: float, what: str
    ) -> None:
        """Call ``attempt`` with a connection to the coordinator, and repeat it after failures that may be temporary.

        ``what`` describes the attempt in the message of the `RequestTimedOutError`, after "could not".
        """
        coordinators, key = self._coordinators, (CoordinatorKind.GROUP, self.group_id)
        deadline = Deadline(timeout_ms)
        failures = 0
        while True:
            connection = await coordinators.connection(*key, deadline)
            asked_at = time.monotonic()
            last: KafkaError | None = None
            try:
                with coordinators.waiting(*key, connection.node_id):
                    await attempt(connection, deadline.left_ms())
            except KafkaError as error:
                last = error
            looks_up = coordinators.answered(*key, connection.node_id, last, asked_at)
            if last is None:
                return
            failures += 1
            if not may_repeat(last, failures):
                raise last
            deadline.note_failure(last)
            if last.refreshes_metadata and not looks_up:
                self._client.metadata.request_update()
            backoff = coordinators.backoff if looks_up else self.backoff
            retry_at = time.monotonic() + backoff.delay_s(failures)
            if retry_at >= deadline.at:
                said, reason = coordinators.said(*key), deadline.failure
                raise RequestTimedOutError(
                    f"could not {what} of group {self.group_id!r} within {timeout_ms:g} ms; the last error: {reason}"
                    + (f"; {said}" if said else ""),
                    broker=connection.label,
                ) from reason
            await coordinators.back_off(*key, connection.node_id, retry_at - time.monotonic())


def _raise_worst(errors: Collection[KafkaError]) -> None:
    """Raise a non-retriable error if there is one, otherwise an error of the coordinator, otherwise any error."""
    if errors:
        raise min(errors, key=lambda error: (error.retriable, not isinstance(error, REFUSALS)))
