"""`AIOKafkaConsumer`."""

from __future__ import annotations

import asyncio
import re
import sys
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

from ...consumer import Consumer
from ...errors import ClientClosedError, RequestTimedOutError
from ...types import TopicPartition
from .._options import consumer_options
from ..abc import ConsumerRebalanceListener
from ..client import AIOKafkaClient, client_of
from ..coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from ..errors import (
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from ..structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp
from ..util import commit_structure_validate, create_task, deprecated, get_running_loop
from ..version import __version__
from .group_coordinator import Consumed, GroupCoordinator
from .listener import ListenerCalls
from .reading import NothingInHand, converter
from .subscription_state import SubscriptionState

__all__ = ["AIOKafkaConsumer"]

T = TypeVar("T")


class AIOKafkaConsumer:
    """A native `Consumer` with aiokafka's options, defaults and calls. Belongs to one asyncio event loop.

    As there, what was handed out counts as done: automatic commits cover it at once, and a rebalance does not wait for
    the application. Several tasks may read; each waits for the one before.
    """

    _client: AIOKafkaClient
    """Its connections; tracers ask it for ``_bootstrap_servers`` and ``_client_id``."""
    _closed: bool | None = None
    """Whether it was stopped."""
    _source_traceback: Any = None

    def __init__(
        self,
        *topics: str,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | list[str] = "localhost",
        client_id: str | None = "aiokafka-" + __version__,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        key_deserializer: Callable[[Any], Any] | None = None,
        value_deserializer: Callable[[Any], Any] | None = None,
        fetch_max_wait_ms: int = 500,
        fetch_max_bytes: int = 52_428_800,
        fetch_min_bytes: int = 1,
        max_partition_fetch_bytes: int = 1_048_576,
        request_timeout_ms: int = 40_000,
        retry_backoff_ms: int = 100,
        auto_offset_reset: str = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        check_crcs: bool = True,
        metadata_max_age_ms: int = 300_000,
        partition_assignment_strategy: Any = (RoundRobinPartitionAssignor,),
        max_poll_interval_ms: int = 300_000,
        rebalance_timeout_ms: int | None = None,
        session_timeout_ms: int = 10_000,
        heartbeat_interval_ms: int = 3_000,
        consumer_timeout_ms: int = 200,
        max_poll_records: int | None = None,
        ssl_context: Any = None,
        security_protocol: str = "PLAINTEXT",
        api_version: object = None,
        exclude_internal_topics: bool = True,
        connections_max_idle_ms: int | None = 540_000,
        isolation_level: str = "read_uncommitted",
        sasl_mechanism: str = "PLAIN",
        sasl_plain_password: str | None = None,
        sasl_plain_username: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: Any = None,
        client_rack: str | None = None,
    ) -> None:
        """Check the options; connects to nothing. Raises ValueError or TypeError."""
        options = consumer_options(locals())
        self._loop = deprecated(loop, api_version)
        if self._loop.get_debug():
            self._source_traceback = traceback.extract_stack(sys._getframe(1))
        self._group_id = group_id
        """Tracers, FastStream and kstreams ask."""
        self._enable_auto_commit = enable_auto_commit
        """ddtrace and kstreams ask."""
        self._isolation_level = isolation_level
        self._request_timeout_ms = request_timeout_ms
        self._convert = converter(key_deserializer, value_deserializer)
        self._native: Consumer[Any, Any] = Consumer(bootstrap_servers=bootstrap_servers, **options)
        engine = self._native._engine
        account = engine.reader.replace_listener(None)
        if account is not None:
            engine.reader.replace_listener(NothingInHand(account))
        self._client = client_of(self._native._client, bootstrap_servers)
        self._subscription = SubscriptionState(self._native)
        """FastStream asks for its ``topics``."""
        self._coordinator = None if group_id is None else GroupCoordinator(self._native, group_id)
        """FastStream asks for its ``member_id``."""
        self._telling: asyncio.Task[None] | None = None
        """A listener learns of partitions that were there before it."""
        self._turn = asyncio.Lock()
        """Held by the task that reads."""
        self._closed = False
        if topics:
            self._native.subscribe(_checked_topics(topics))

    def __del__(self, _warnings: Any = warnings) -> None:
        if self._closed is False:
            _warnings.warn(f"Unclosed AIOKafkaConsumer {self!r}", ResourceWarning, source=self)
            context = {"consumer": self, "message": "Unclosed AIOKafkaConsumer"}
            if self._source_traceback is not None:
                context["source_traceback"] = self._source_traceback
            self._loop.call_exception_handler(context)

    # --- its life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect; a member of a group waits for its first assignment, even an empty one, as long as that takes.

        Raises `KafkaConnectionError`, and `UnknownTopicOrPartitionError` for a topic that does not exist after
        ``request_timeout_ms``.
        """
        assert self._loop is get_running_loop(), "Please create objects with the same loop as running with"
        assert not self._native._engine.started, "Did you call `start` twice?"
        await self._native.start()
        for topic in self._native._engine.subscription.topics:
            await self._client._wait_on_metadata(topic)
        await self._subscription.wait_for_assignment()

    async def stop(self) -> None:
        """Commit what was handed out, if that is automatic, leave the group, and close every connection."""
        if self._closed:
            return
        self._closed = True
        await self._native.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # --- what to read -------------------------------------------------------------------------------------------------

    def subscribe(
        self, topics: Any = (), pattern: str | None = None, listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Read these topics, or those whose name begins with a match of the pattern. Raises TypeError or ValueError."""
        if not (topics or pattern):
            raise TypeError("You should provide either `topics` or `pattern`")
        if topics and pattern:
            raise TypeError("You can't provide both `topics` and `pattern`")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        calls = None
        if listener is not None and self._group_id is not None:
            calls = ListenerCalls(listener, self._native.assignment, self._is_leaving)
        self._refuse_other_kind(by_hand=False)
        before = self._native.subscription()
        if pattern is None:
            self._native.subscribe(_checked_topics(topics), listener=calls)
        else:
            self._native.subscribe(pattern=_beginning(pattern), listener=calls)
        if calls is not None and self._native.assignment() and self._native.subscription() == before:
            # No rebalance comes of this, as one does in aiokafka, but the listener is to know where it stands.
            self._telling = create_task(calls.call_again())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions; raises `IllegalStateError` after `subscribe`."""
        self._refuse_other_kind(by_hand=True)
        self._native.assign(partitions)

    def _is_leaving(self) -> bool:
        """Whether partitions are given up because the application wants none."""
        return bool(self._closed) or not self._native._engine.subscription.by_topics

    def _refuse_other_kind(self, *, by_hand: bool) -> None:
        subscription = self._native._engine.subscription
        if subscription.by_topics if by_hand else subscription.assigned:
            raise IllegalStateError("Subscription to topics, partitions and pattern are mutually exclusive")

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        self._native.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return self._subscription.topics

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are the consumer's now."""
        return set(self._native.assignment())

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no records of these partitions until `resume`."""
        self._native.pause(*_checked_partitions(partitions))

    def resume(self, *partitions: TopicPartition) -> None:
        """Take back `pause`."""
        self._native.resume(*_checked_partitions(partitions))

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return set(self._native.paused())

    # --- reading ------------------------------------------------------------------------------------------------------

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """The next record, of these partitions if some are given; raises `ConsumerStoppedError`."""
        if self._closed:
            raise ConsumerStoppedError
        try:
            async with self._turn:
                native = await self._native.getone(*partitions)
        except ClientClosedError:
            raise ConsumerStoppedError from None
        try:
            return self._convert(native)
        except BaseException:
            self._native.seek(TopicPartition(native.topic, native.partition), native.offset)
            raise

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """Records by partition, of those that were fetched, or that come first within ``timeout_ms``."""
        if self._closed:
            raise ConsumerStoppedError
        if max_records is not None and (type(max_records) is not int or max_records < 1):
            raise ValueError("`max_records` must be a positive Integer")
        until = time.monotonic() + timeout_ms / 1000
        try:
            if self._turn.locked():
                async with asyncio.timeout(timeout_ms / 1000):
                    await self._turn.acquire()
            else:
                await self._turn.acquire()
        except TimeoutError:
            return {}
        try:
            left_ms = max(0.0, until - time.monotonic()) * 1000
            native = await self._native.getmany(*partitions, timeout_ms=left_ms, max_records=max_records)
        except ClientClosedError:
            return {}  # stopped meanwhile: the next call raises
        finally:
            self._turn.release()
        convert = self._convert
        try:
            return {tp: [convert(record) for record in records] for tp, records in native.items()}
        except BaseException:
            for tp, records in native.items():
                self._native.seek(tp, records[0].offset)
            raise

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        if self._closed:
            raise ConsumerStoppedError
        return self if type(self).getone is not _GETONE or type(self).__anext__ is not _ANEXT else self._records()

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    async def _records(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        """What ``async for`` gives, without a call of `getone` for each record."""
        convert = self._convert
        async with self._turn:
            async for native in self._native:
                try:
                    record = convert(native)
                except BaseException:
                    self._native.seek(TopicPartition(native.topic, native.partition), native.offset)
                    raise
                yield record

    # --- positions ----------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from this offset; raises ValueError or `IllegalStateError`."""
        if type(offset) is not int or offset < 0:
            raise ValueError("Offset must be a positive integer")
        self._native.seek(partition, offset)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Go on from the first offset of these partitions, or of all; whether it is known already."""
        return await self._seek(self._native.seek_to_beginning, partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Go on from the end of these partitions, or of all; whether it is known already."""
        return await self._seek(self._native.seek_to_end, partitions)

    async def _seek(self, seek: Callable[..., Awaitable[None]], partitions: tuple[TopicPartition, ...]) -> bool:
        try:
            await seek(*self._assigned(partitions))
        except RequestTimedOutError:
            return False
        return True

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Go on from what the group has committed of these partitions, or of all; returns that."""
        offsets = {tp: await self.committed(tp) for tp in self._assigned(partitions)}
        for tp, offset in offsets.items():
            if offset is not None and offset > 0:
                self._native.seek(tp, offset)
        return offsets

    def _assigned(self, partitions: tuple[TopicPartition, ...]) -> tuple[TopicPartition, ...]:
        _checked_partitions(partitions)
        assigned = self._native.assignment()
        if not partitions:
            assert assigned, "No partitions are currently assigned"
            return tuple(assigned)
        others = set(partitions) - assigned
        if others:
            raise IllegalStateError(f"Partitions {others} are not assigned")
        return partitions

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record; waits while that is being found out."""
        while True:
            if partition not in self._native.assignment():
                raise IllegalStateError(f"Partition {partition} is not assigned")
            try:
                return await self._native.position(partition)
            except RequestTimedOutError:
                continue

    def highwater(self, partition: TopicPartition) -> int | None:
        """The end of what every replica has, as of the last fetch; None before the first."""
        assert partition in self._native.assignment(), "Partition is not assigned"
        return self._native.highwater(partition)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """The end of what no open transaction holds back; -1 unless "read_committed" is set."""
        assert partition in self._native.assignment(), "Partition is not assigned"
        offset = self._native.last_stable_offset(partition)
        return offset if self._isolation_level == "read_committed" or offset is None else -1

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """When the partition was last fetched, in milliseconds since 1970; None before the first fetch."""
        assert partition in self._native.assignment(), "Partition is not assigned"
        return None if self._native.highwater(partition) is None else int(time.time() * 1000)

    # --- what the cluster has -----------------------------------------------------------------------------------------

    async def topics(self) -> set[str]:
        """The cluster's topics."""
        return set(await self._native.topics())

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partitions, None where this consumer has no metadata of it."""
        return self._client.cluster.partitions_for_topic(topic)

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._known(self._native.beginning_offsets(partitions))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each partition."""
        return await self._known(self._native.end_offsets(partitions))

    async def offsets_for_times(
        self, timestamps: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition its first record at or after the time, or None."""
        for tp, at in timestamps.items():
            if at < 0:
                raise ValueError(f"The target time for partition {tp} is {at}. The target time cannot be negative.")
        found = await self._known(self._native.offsets_for_times({tp: int(at) for tp, at in timestamps.items()}))
        return {
            tp: None if one is None else OffsetAndTimestamp(one.offset, one.timestamp_ms) for tp, one in found.items()
        }

    async def _known(self, offsets: Awaitable[T]) -> T:
        """Offsets of partitions, which time out where there is no such partition."""
        try:
            return await offsets
        except UnknownTopicOrPartitionError as error:
            raise KafkaTimeoutError(str(error)) from error

    # --- committed offsets --------------------------------------------------------------------------------------------

    async def commit(self, offsets: dict[TopicPartition, Any] | None = None) -> None:
        """Store these offsets, or the positions of all assigned partitions.

        Raises `IllegalOperation` without a ``group_id``, `IllegalStateError` for partitions that are not assigned,
        `CommitFailedError` if the group has rebalanced, ValueError or TypeError for what are no offsets.
        """
        if self._coordinator is None:
            raise IllegalOperation("Requires group_id")
        subscription = self._native._engine.subscription
        if not subscription.by_topics and not subscription.assigned:
            raise IllegalStateError("Not subscribed to any topics")
        assignment = self._native.assignment()
        if not assignment and subscription.by_topics and self._subscription.awaits_assignment:
            raise IllegalStateError("No partitions assigned")
        if offsets is None:
            positions = ((state.tp, state.position) for state in self._native._engine.reading.positions)
            found = {tp: OffsetAndMetadata(at.offset, "") for tp, at in positions if at is not None}
            await self._coordinator.commit_offsets(assignment, Consumed(found))
            return
        checked = commit_structure_validate(offsets)
        for tp in checked:
            if tp not in assignment:
                raise IllegalStateError(f"Partition {tp} is not assigned")
        await self._coordinator.commit_offsets(assignment, checked)

    async def committed(self, partition: TopicPartition) -> int | None:
        """The offset that the group has stored for the partition, or None."""
        if self._group_id is None:
            raise IllegalOperation("Requires group_id")
        found = await self._native.committed(partition)
        return None if found is None else found.offset


_GETONE, _ANEXT = AIOKafkaConsumer.getone, AIOKafkaConsumer.__anext__
"""Those that ``async for`` need not call; a subclass's, or a tracer's, it calls."""


def _checked_topics(topics: Any) -> set[str]:
    if not isinstance(topics, (tuple, set, list)):
        raise TypeError("Topics should be list of strings")
    return set(topics)


def _checked_partitions(partitions: tuple[Any, ...]) -> tuple[TopicPartition, ...]:
    if not all(isinstance(p, TopicPartition) for p in partitions):
        raise TypeError("partitions must be TopicPartition namedtuples")
    return partitions


def _beginning(pattern: Any) -> re.Pattern[str]:
    """The pattern of whole names whose beginning matches; raises ValueError."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
    text = re.sub(r"^\(\?[aiLmsux]+\)", "", found.pattern)
    return re.compile(f"(?:{text}).*", found.flags | re.DOTALL)
