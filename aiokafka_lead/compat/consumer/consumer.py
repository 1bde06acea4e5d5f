"""`AIOKafkaConsumer`, in a module of the same name as in aiokafka."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from time import monotonic
from typing import Any, Self

from ..._core.consumer.subscription import SubscriptionKind
from ..._records import ConsumerRecord as NativeRecord
from ...consumer import Consumer
from ...errors import ClientClosedError
from ...types import TopicPartition
from .._options import consumer_options
from ..abc import ConsumerRebalanceListener
from ..client import AIOKafkaClient, Life, client_of
from ..coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from ..errors import ConsumerStoppedError, IllegalOperation, IllegalStateError
from ..structs import ConsumerRecord, OffsetAndMetadata
from ..util import __version__, commit_structure_validate, create_task, deprecated
from ._parts import NO_POSITION, ListenerCalls, NothingInHand, OffsetCalls, checked_partitions, with_place
from .group_coordinator import Consumed, GroupCoordinator
from .read_record import Converter
from .subscription_state import SubscriptionState

__all__ = ["AIOKafkaConsumer"]

LOOK_EVERY_S = 0.005
"""Interval in seconds of checks for due work, such as a commit, while fetched records are available."""


class AIOKafkaConsumer(Life, OffsetCalls):
    """Consumer with the options, defaults and methods of aiokafka. Belongs to one asyncio event loop.

    As in aiokafka, records count as processed as soon as they are returned: automatic commits include them, and a
    rebalance does not wait for the application. Several tasks may read records at the same time, each from its own
    partitions or from all.
    """

    _client: AIOKafkaClient
    """Connections of the consumer. Tracers read its ``_bootstrap_servers`` and ``_client_id``."""
    _kind = "consumer"

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
        """Check the options, without connecting. Raises ValueError or TypeError for an invalid option."""
        given = dict(locals())
        options = consumer_options(given)
        self._belongs_to(deprecated(loop, api_version), given)
        self._group_id = group_id
        """Group id, which tracers, FastStream and kstreams read."""
        self._convert = Converter(key_deserializer, value_deserializer)
        self._made_with: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, **options}
        self._create()
        self._telling: asyncio.Task[None] | None = None
        """Task that calls a new rebalance listener, if `subscribe` was called again with the same topics."""
        self._look_at = 0.0
        """Monotonic time of the next check for due work, such as a commit."""
        self._wants = asyncio.Event()
        """Set when the subscription changes, and by `stop`. Reads wait for it while there is no subscription."""
        self._closed = False
        if topics:
            self._native.subscribe(_checked_topics(topics))

    def _create(self) -> None:
        self._native: Consumer[Any, Any] = Consumer(**self._made_with)
        self._native._engine.subscription.waits_for_topics = True
        reader = self._native._engine.reader
        reader.shared = True
        account = reader.replace_listener(None)
        if account is not None:
            reader.replace_listener(NothingInHand(account))
        self._in_order = reader.records()
        """Iterator over all records, shared by the tasks that read single records."""
        self._client = client_of(self._native._client, self._made_with["bootstrap_servers"], self._ssl_context)
        self._subscription = SubscriptionState(self._native)
        """FastStream reads its ``topics``."""
        if (membership := self._native._engine.membership) is not None:
            membership.task.listen_apart()
        group_id = self._made_with["group_id"]
        self._coordinator = None if group_id is None else GroupCoordinator(self._native, group_id)
        """FastStream reads its ``member_id``."""

    def _renew(self) -> None:
        """Replace the consumer of `aiokafka_lead` with a new one that has the same subscription."""
        before, paused = self._native._engine.subscription, self._native.paused()
        self._create()
        self._last = None
        match before.kind:
            case SubscriptionKind.ASSIGNED:
                self._native.assign(before.assigned)
                self._native.pause(*paused)
            case SubscriptionKind.TOPICS:
                self._native.subscribe(before.topics, listener=before.listener)
            case SubscriptionKind.PATTERN:
                self._native.subscribe(pattern=before.pattern, listener=before.listener)
            case SubscriptionKind.NONE:
                pass

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect to the cluster.

        A member of a group waits without a limit for its first assignment, which may be empty. Raises
        `KafkaConnectionError`, and `UnknownTopicOrPartitionError` if a topic does not exist within
        ``request_timeout_ms``. May be called again after these errors.
        """
        self._check_loop()
        assert not self._begun, "Did you call `start` twice?"
        await self._start_native()
        for topic in self._native._engine.subscription.topics:
            await self._client._wait_on_metadata(topic)
        self._begun = True
        await self._subscription.wait_for_assignment()

    async def stop(self) -> None:
        """Commit offsets if ``enable_auto_commit`` is set, leave the group, and close all connections.

        First waits, without a limit, for a running callback of the listener.
        """
        if self._closed:
            return
        self._native._client.kind.check_stop()  # before any change: a listener cannot stop its consumer
        self._closed = True
        self._last = {tp: self._place(tp) for tp in self._partitions()}
        self._wants.set()
        calls = self._native._engine.subscription.listener
        try:
            if isinstance(calls, ListenerCalls) and asyncio.current_task() is not self._telling:
                await calls.ended()
        finally:
            await self._native.stop()

    # --- subscription and assignment ---------------------------------------------------------------------------------

    def subscribe(
        self, topics: Any = (), pattern: str | None = None, listener: ConsumerRebalanceListener | None = None
    ) -> None:
        """Read these topics, or all topics whose names begin with a match of ``pattern``.

        Raises TypeError or ValueError for invalid arguments, and `IllegalStateError` after `assign`.
        """
        if not (topics or pattern):
            raise TypeError("You should provide either `topics` or `pattern`")
        if topics and pattern:
            raise TypeError("You can't provide both `topics` and `pattern`")
        if listener is not None and not isinstance(listener, ConsumerRebalanceListener):
            raise TypeError("listener should be an instance of ConsumerRebalanceListener")
        wanted = _checked_topics(topics) if pattern is None else _beginning(pattern)
        self._refuse_unless(SubscriptionKind.TOPICS if pattern is None else SubscriptionKind.PATTERN)
        calls = None
        if listener is not None and self._group_id is not None:
            calls = ListenerCalls(listener, lambda: self._native.assignment(), self._is_leaving)
        before = self._native.subscription()
        if isinstance(wanted, set):
            self._native.subscribe(wanted, listener=calls)
        else:
            self._native.subscribe(pattern=wanted, listener=calls)
        self._wants.set()
        if calls is not None and self._native.assignment() and self._native.subscription() == before:
            # Unlike in aiokafka, this causes no rebalance, so the new listener must be called here.
            self._telling = create_task(calls.call_again())

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions. Raises `IllegalStateError` after `subscribe`."""
        self._refuse_unless(SubscriptionKind.ASSIGNED)
        self._native.assign(partitions)
        self._wants.set()

    def _is_leaving(self) -> bool:
        """Return True if the consumer is giving up its partitions because of `stop` or `unsubscribe`."""
        return bool(self._closed) or not self._native._engine.subscription.by_topics

    def _refuse_unless(self, kind: SubscriptionKind) -> None:
        if self._native._engine.subscription.kind not in (kind, SubscriptionKind.NONE):
            raise IllegalStateError("Subscription to topics, partitions and pattern are mutually exclusive")

    def unsubscribe(self) -> None:
        """Remove the subscription and the assignment, and leave the group. Reads then wait for a new subscription."""
        if self._last is not None:
            self._last = {}
            return
        self._native.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return self._subscription.topics

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions, or after `stop` the last assignment."""
        return self._partitions()

    def _partitions(self) -> set[TopicPartition]:
        if self._last is not None:
            return set(self._last)
        subscription = self._native._engine.subscription
        # After `unsubscribe`, the wrapped consumer still has the group's partitions for some time.
        return set(self._native.assignment()) if subscription.by_topics else set(subscription.assigned)

    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`."""
        checked_partitions(partitions)
        if self._last is None:
            self._native.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        checked_partitions(partitions)
        if self._last is None:
            self._native.resume(*partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return set(self._native.paused())

    # --- reading ------------------------------------------------------------------------------------------------------

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Any, Any]:
        """Wait for the next record of these partitions, by default of all partitions, and return it.

        Like `getmany` and ``async for``, also waits while there is no subscription or assignment. Raises
        `ConsumerStoppedError` after `stop`.
        """
        if self._closed:
            raise ConsumerStoppedError
        if monotonic() > self._look_at:
            self._look()
        in_order = self._in_order
        if partitions or not in_order.at_hand():
            native = await self._wait_for_one(partitions)
        else:
            native = await in_order
        try:
            record: ConsumerRecord[Any, Any] = self._convert.one(native)
            return record
        except BaseException:
            self._native.seek(TopicPartition(native.topic, native.partition), native.offset)
            raise

    def _look(self) -> None:
        """Raise pending errors, and report to the group that the application has requested records.

        While records are available, reads call this only once per `LOOK_EVERY_S`, because it would slow down each
        record.
        """
        if not self._wants_nothing:
            self._look_at = monotonic() + LOOK_EVERY_S
            self._native._engine.reader.begin()

    @property
    def _wants_nothing(self) -> bool:
        return self._native._engine.subscription.kind is SubscriptionKind.NONE

    async def _until_something_is_wanted(self) -> None:
        while self._wants_nothing and not self._closed:
            self._native._client.check()
            self._wants.clear()
            await self._wants.wait()
        if self._closed:
            raise ConsumerStoppedError

    async def _wait_for_one(self, partitions: tuple[TopicPartition, ...]) -> NativeRecord[Any, Any]:
        while True:
            await self._until_something_is_wanted()
            try:
                if partitions:
                    return await self._native.getone(*partitions)
                return await anext(self._in_order)
            except (ClientClosedError, StopAsyncIteration):
                raise ConsumerStoppedError from None
            except IllegalStateError:
                if not self._wants_nothing:  # no error if the consumer was unsubscribed during the wait
                    raise
            except NO_POSITION as error:
                raise with_place(error) from error.__cause__

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[Any, Any]]]:
        """Return fetched records by partition, by default of all partitions.

        If there are none, wait up to ``timeout_ms`` for the first records, and return {} if none arrive. Returns at
        most ``max_records`` records; the default is ``max_poll_records``. Raises `ConsumerStoppedError` after `stop`.
        """
        if self._closed:
            raise ConsumerStoppedError
        if max_records is not None and (type(max_records) is not int or max_records < 1):
            raise ValueError("`max_records` must be a positive Integer")
        await self._until_something_is_wanted()
        try:
            native = await self._native.getmany(*partitions, timeout_ms=max(0, timeout_ms), max_records=max_records)
        except ClientClosedError:
            if self._last is None:  # the start failed
                raise
            return {}  # stopped during the wait, so the next call raises the error
        except IllegalStateError:
            if not self._wants_nothing:
                raise
            return {}  # unsubscribed during the wait, so the next call waits
        except NO_POSITION as error:
            raise with_place(error) from error.__cause__
        convert = self._convert
        try:
            return {tp: convert.many(records) for tp, records in native.items()}
        except BaseException:
            for tp, records in native.items():
                self._native.seek(tp, records[0].offset)
            raise

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[Any, Any]]:
        if self._closed:
            raise ConsumerStoppedError
        return self if type(self).getone is not _GETONE or type(self).__anext__ is not _ANEXT else Records(self)

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    # --- committed offsets --------------------------------------------------------------------------------------------

    async def commit(self, offsets: dict[TopicPartition, Any] | None = None) -> None:
        """Commit these offsets, by default the positions of all assigned partitions.

        An offset is an int or a tuple of an offset and metadata. Raises `IllegalOperation` without a ``group_id``,
        `IllegalStateError` for a partition that is not assigned, `CommitFailedError` if the group has rebalanced, and
        ValueError or TypeError for invalid offsets.
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
        """Return the group's committed offset of a partition, or None. Raises `IllegalOperation` without a group."""
        if self._group_id is None:
            raise IllegalOperation("Requires group_id")
        found = await self._native.committed(partition)
        return None if found is None else found.offset

    async def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Continue at the group's committed offsets of these partitions, by default of all. Return the offsets."""
        offsets = {tp: await self.committed(tp) for tp in self._assigned(partitions)}
        for tp, offset in offsets.items():
            if offset is not None and offset > 0:
                self._native.seek(tp, offset)
        return offsets


class Records:
    """Iterator of ``async for``, which is faster than calling `AIOKafkaConsumer.getone` for each record.

    It is not a generator, because a generator ends after the first error or cancellation.
    """

    __slots__ = ("_consumer",)

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[Any, Any]:
        consumer = self._consumer
        if consumer._closed:
            raise StopAsyncIteration
        if monotonic() > consumer._look_at:
            consumer._look()
        in_order = consumer._in_order
        try:
            native = await in_order if in_order.at_hand() else await consumer._wait_for_one(())
        except ConsumerStoppedError:
            raise StopAsyncIteration from None
        try:
            record: ConsumerRecord[Any, Any] = consumer._convert.one(native)
            return record
        except BaseException:
            consumer._native.seek(TopicPartition(native.topic, native.partition), native.offset)
            raise


_GETONE, _ANEXT = AIOKafkaConsumer.getone, AIOKafkaConsumer.__anext__
"""Original methods. ``async for`` calls `getone` and ``__anext__`` only if a subclass or tracer has replaced them."""


def _checked_topics(topics: Any) -> set[str]:
    if not isinstance(topics, (tuple, set, list)):
        raise TypeError("Topics should be list of strings")
    return set(topics)


def _beginning(pattern: Any) -> re.Pattern[str]:
    """Convert a pattern for the beginning of a name to a pattern for whole names. Raises ValueError."""
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a valid pattern: {error}") from error
    text = re.sub(r"^\(\?[aiLmsux]+\)", "", found.pattern)
    return re.compile(f"(?:{text}).*", found.flags | re.DOTALL)
