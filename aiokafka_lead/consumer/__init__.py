"""The consumer: records of Kafka topics, one by one or in batches."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from .._core.consumer import arguments
from .._core.consumer.consumed import TransactionPart
from .._core.consumer.deserializers import bad_record
from .._core.consumer.partition_state import PartitionState
from .._core.consumer.position import Position
from .._core.consumer.record_batch import RecordBatch
from .._core.consumer.reset_policy import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP, ResetPolicy
from .._core.consumer.subscription import SubscriptionKind
from .._core.run.dead_letter import DEAD_LETTER_HEADERS
from .._core.run.exactly_once import checked_producer
from .._core.run.options import RunConfig, RunOptions
from .._io.client import Client, configured
from .._io.consumer.engine import HOT_REQUESTS, ConsumerEngine
from .._io.consumer.reader import Batches
from .._io.pushed_metrics import PushedMetrics
from .._options.arguments import TIMEOUT, topic_name, topic_partition
from .._options.arguments import offset as checked_offset
from .._options.checks import boolean, discreet
from .._options.logs import client_log
from .._options.read_types import K, V
from .._records import ConsumerRecord
from .._runs import attended, dead_letters_by
from ..config import ConsumerConfig, SharedClient
from ..errors import ClientClosedError, ConfigError, IllegalStateError, RecordDeserializationError
from ..health import ConsumerHealth, ConsumerLag
from ..metrics import ConsumerMetrics, ConsumerTopicMetrics, PartitionMetrics
from ..types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._io.group.membership import Membership
    from .._options.sent_types import KS, VS
    from .._options.serialization import AsyncDeserializer, Deserializer
    from ..config import ConsumerBaseOptions
    from ..producer import Producer
    from ..producer.pipeline import TransactionPipeline
    from ..producer.transaction import Transaction


__all__ = [
    "DEAD_LETTER_HEADERS",
    "Consumer",
    "ConsumerHealth",
    "ConsumerLag",
    "ConsumerMetrics",
    "ConsumerTopicMetrics",
    "PartitionMetrics",
    "RecordBatch",
    "RunOptions",
]

Offset = int | tuple[int, str] | OffsetAndMetadata


class Consumer(PushedMetrics, Generic[K, V]):
    """Reads topics or partitions.

        async with Consumer("events", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    With ``group_id`` it is a member of that group, which shares the partitions of the topics out among its members;
    without, it reads all of them, new ones too. `assign` reads chosen partitions instead: then no group assigns any,
    and with ``group_id`` reading begins at the group's committed offsets. Options are those of `ConsumerOptions`.

    Keys and values are bytes, or what ``key_deserializer`` and ``value_deserializer`` make of them, whose types they
    have; a key or value that a record does not have is None, and is not deserialized. A deserializer is called with the
    bytes, or with these and a `SerializationContext` (see there). It may be a coroutine function: then it is awaited
    before the record is handed out, and a read that is cancelled meanwhile loses nothing.

    A member joins from `start` or `subscribe` on, in the background. Its heartbeats do not depend on the application.
    Partitions are given up when the application has come back for more, has committed what it has in hand, or has had
    its time for that (``rebalance_timeout_ms``); the others go on meanwhile. A member whose application does not come
    back within ``max_poll_interval_ms`` leaves the group, with a warning, and nothing that is still in hand is
    committed; the next read joins again. What keeps the consumer from being a member (`GroupAuthorizationFailedError`,
    `FencedInstanceIdError`, `InconsistentGroupProtocolError` and the like) is raised from `start` or the next read;
    reads after that try again, unless the member was fenced.

    Belongs to the event loop that it was started on, and to one reading task at a time: a second one that has to wait
    for records while another waits gets `IllegalStateError`. All times are in milliseconds. Errors about one place in a
    partition (`PartitionReadError`) leave the position where it is: `seek` to go on, other partitions are not affected.
    """

    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerBaseOptions],
    ) -> None: ...
    @discreet
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        **options: Any,
    ) -> None:
        """Check the options; connects to nothing. Raises `ConfigError` or `ConfigTypeError`.

        With a ``client`` it uses that one's connections, and is what `Client.consumer` makes.
        """
        config, parent = configured(ConsumerConfig, bootstrap_servers, client, options)
        self._config = config
        self._client = Client(config, HOT_REQUESTS, parent)
        self._client.facade = type(self).__name__
        self._engine: ConsumerEngine[K, V] = ConsumerEngine(self._client, config)
        if config.on_bad_record != "raise":
            self._engine.reader.bury = self._bury
        if topics:
            self.subscribe(topics)

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True) -> None:
        """Connect to the cluster and begin to fetch; returns when it is known where reading begins, if ``wait``.

        That is when each partition to read has its position, so that "latest" counts from then. A member of a group
        waits for its first assignment, even an empty one, and for the positions in it; ``on_partitions_assigned`` has
        returned then. What is not known after ``request_timeout_ms`` (a slow rebalance, a partition without a leader)
        is found in the background, with a warning that names it; topics and partitions that do not exist are not waited
        for. With nothing to read yet it returns as soon as it is connected. Without ``wait`` it returns at once, and
        connects in the background, however long no broker can be reached: reads wait for that.

        Raises `KafkaConnectionError` that names each bootstrap server and why it could not be used, in that time;
        authentication's and TLS's own errors as such; and what keeps a member out of its group. After an error, or when
        cancelled, the consumer is stopped.
        """
        await self._client.start(wait=boolean("wait", wait))

    async def wait_ready(self, timeout_ms: float | None = None) -> None:
        """Wait for what `start` waits for, within ``timeout_ms`` (``default_api_timeout_ms``).

        Of use after ``start(wait=False)``, a start that gave up waiting, `subscribe` and `assign`. A partition whose
        reads raise an error does not keep it waiting. Raises what the consumer, or its membership of the group, has
        failed with, `RequestTimedOutError` that names the partitions or the step of the group that are missing, and
        `IllegalStateError` in a listener's callback, which is part of the assignment.
        """
        await self._engine.wait_ready(self._timeout_ms(timeout_ms))

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Stop fetching and close every connection, within ``timeout_ms`` (10000), whatever the brokers do.

        Iterations end, other calls that wait raise `ClientClosedError`. May be called again. With ``group_id`` and
        ``enable_auto_commit`` it commits what the application has come back from: not the record, batch or result of
        `getmany` that it got last. Leaving an ``async with`` block without an error commits that, too. A member then
        leaves its group, after ``on_partitions_revoked``; but a static one (``group_instance_id``, KIP-345) keeps its
        place until its session ends.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._engine.reading.in_hand.release()
        await self.stop(self._config.close_timeout_ms)

    # --- what to read ------------------------------------------------------------------------------------------------

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | re.Pattern[str] | None = None, listener: object = None
    ) -> None:
        """Read these topics, or those whose whole name matches, now or later; replaces what was read before.

        Partitions that appear later are read from their beginning if ``auto_offset_reset`` is "latest", so that none of
        their records is missed; in a group, if the member was there before they were and none has committed yet.

        ``listener``, for members of a group, is a `RebalanceListener` or like one. Under ``group_protocol="consumer"``
        the broker matches the pattern, in RE2's syntax (KIP-848).
        """
        if listener is not None and self._config.group_id is None:
            raise ConfigError("listener is for consumer groups: set group_id")
        names = arguments.TOPICS("topics", topics)
        if listener is not None:
            arguments.listener("listener", listener)
        if (pattern is None) == (not names):
            raise ConfigError("subscribe needs either topics or a pattern")
        self._client.check_loop()
        if pattern is None:
            self._engine.subscription.subscribe(names, listener)
        else:
            self._engine.subscription.match(arguments.pattern("pattern", pattern), listener)
        self._engine.subscription_changed()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions; replaces what was read before, but partitions that stay keep their position.

        A member of a group leaves it first, in the background.
        """
        wanted = arguments.PARTITIONS("partitions", partitions)
        self._client.check_loop()
        self._engine.subscription.assign(wanted)
        self._engine.subscription_changed()

    def unsubscribe(self) -> None:
        """Read nothing. A member gives its partitions up and leaves the group, in the background.

        `run` ends as if the consumer were stopped; another read that waits raises `IllegalStateError`.
        """
        self._client.check_loop()
        self._engine.subscription.clear()
        self._engine.subscription_changed()
        self._engine.unsubscribed()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to, as far as they are known; empty after `assign`."""
        subscription = self._engine.subscription
        if subscription.kind is SubscriptionKind.PATTERN:
            return frozenset(subscription.matched(self._client.metadata.snapshot))
        return subscription.topics if subscription.kind is SubscriptionKind.TOPICS else frozenset()

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now; of a group's member, those that it owns."""
        return self._engine.reading.positions.assigned

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

    # --- reading -----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Every record, until the consumer is stopped.

        Each time this raises or is left, another ``async for`` goes on behind the last record.
        """
        self._client.check()
        tracing = self._engine.tracing
        return self._engine.reader.records(None if tracing is None else tracing.records())

    async def __anext__(self) -> ConsumerRecord[K, V]:
        record = await self._engine.reader.next_record()
        if record is None:
            raise StopAsyncIteration
        return record

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[K, V]:
        """The next record, of these partitions if some are given; waits for it."""
        tracing = self._engine.tracing
        if tracing is None:
            return await self._engine.reader.getone(_wanted(partitions))
        began = time.time_ns()
        record = await self._engine.reader.getone(_wanted(partitions))
        tracing.received(began, [record])
        return record

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Records by partition: what was fetched already, or else what comes first within ``timeout_ms``.

        There are at most ``max_records`` (``max_poll_records``; if that is None, what could be decoded in some
        milliseconds), of these partitions if some are given. The result is empty if no record came.
        """
        arguments.WAIT("timeout_ms", timeout_ms)
        limit = (
            self._config.max_poll_records if max_records is None else arguments.MAX_RECORDS("max_records", max_records)
        )
        began = time.time_ns()
        taken = await self._engine.reader.getmany(_wanted(partitions), timeout_ms, limit)
        if taken and self._engine.tracing is not None:
            self._engine.tracing.received(began, list(chain.from_iterable(taken.values())))
        return taken

    def batches(self) -> AsyncIterator[RecordBatch[K, V]]:
        """Every record, in batches by column, until the consumer is stopped.

        Batches of a partition's log that are buffered together come as one, up to ``max_poll_records`` (500 if None),
        which makes small ones cheap; a larger one of the log stays whole. The position moves behind a batch when it is
        handed out. With ``group_id`` a batch is a lease: a rebalance that takes its partition waits until
        `RecordBatch.commit`, until the next batch is asked for, or for ``rebalance_timeout_ms``. A batch during which
        the task is cancelled is not committed, and comes again. (A time limit inside the task, like `asyncio.timeout`,
        is distinguished from an ordinary end only if nothing holds on to the iterator: write
        ``async for batch in consumer.batches()``.)
        """
        self._client.check()
        membership = self._engine.membership
        tracing = self._engine.tracing
        return Batches(
            self._engine.reader,
            None if membership is None else membership.leases,
            None if tracing is None else tracing.batches(),
        )

    @overload
    async def run(
        self, handler: Callable[[ConsumerRecord[K, V]], Awaitable[object]], **options: Unpack[RunOptions]
    ) -> None: ...
    @overload
    async def run(
        self,
        handler: Callable[[ConsumerRecord[K, V], Transaction[KS, VS]], Awaitable[object]],
        *,
        exactly_once: Producer[KS, VS] | TransactionPipeline[KS, VS],
        **options: Unpack[RunOptions],
    ) -> None: ...
    async def run(
        self,
        handler: Callable[..., Awaitable[object]],
        *,
        exactly_once: Producer[Any, Any] | TransactionPipeline[Any, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        """Have every record handled, many at once, until the consumer is stopped. Options are those of `RunOptions`.

            async def handle(record): ...

            await consumer.run(handle, concurrency=64, order="key", dead_letter_topic="events.failed")

        A record is done when its handler has returned, or its dead letter is acknowledged. With ``group_id``, every
        ``auto_commit_interval_ms`` and at the end what is done is committed, up to the first record of a partition that
        is not: each record is handled at least once. A handler that raises is called again after a backoff; meanwhile
        only what ``order`` puts behind its record waits. Records are deserialized as their turn comes.

        When the consumer is stopped (`stop` may be called from a handler, too) this waits for the handlers at work, for
        all of the stop's time but its last quarter (2 s at most), commits and returns. So it does after `unsubscribe`,
        but waits for them as long as a rebalance does, or without a group as long as they take. When it is cancelled,
        so are the handlers, and theirs and all other records that are not done come again, also to a task that reads on
        with this consumer. Raises `HandlerError` for a record whose ``retries`` are used up, if there is no
        ``dead_letter_topic`` or its dead letter was refused; `ConfigTypeError` for a handler that is not async, where
        that shows only when it is called, after that one call; and what else keeps a consumer from reading. A handler
        has failed, too, when anything but `run` cancels the task that it runs in.

            async def handle(record, txn): await txn.send("out", record.value)

            await consumer.run(handle, exactly_once=producer)

        With ``exactly_once``, a started `Producer` with a ``transactional_id`` or a `TransactionPipeline`, what
        handlers send with ``txn``, and the offsets of their records, count together or not at all (KIP-447). A
        transaction takes records until there are ``max_transaction_records``, or for ``max_transaction_ms``, and is
        committed when all their handlers have returned. When one has failed, or the transaction is aborted for another
        reason, all its records are handled again: what handlers do besides sending may happen more than once. Dead
        letters are part of the transaction. A rebalance waits for the commit, as long as it waits for handlers, and
        aborts then. The consumer reads with ``isolation_level="read_committed"`` from then on. Also raises
        `ProducerFencedError` when another producer has taken over the transactional id, and, after
        ``transaction_retries``, what the transaction was aborted for.
        """
        self._client.check()
        from .._core.run.handler import checked_handler

        handler = checked_handler(handler)
        own = self._config
        defaults: RunOptions = {} if own.dead_letter_topic is None else {"dead_letter_topic": own.dead_letter_topic}
        if own.on_bad_record != "raise":
            defaults["on_bad_record"] = own.on_bad_record
        config = RunConfig.from_options({**defaults, **options})
        if exactly_once is not None:
            checked_producer(exactly_once, config)
        work = partial(self._run, handler, config, exactly_once)
        await attended(self, self._config.close_timeout_ms, config, work)

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

    async def seek_to_beginning(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Go on from the first offset of these partitions (of all that are assigned).

        Returns when it is known; raises as `position` does.
        """
        await self._seek_by(EARLIEST, partitions, timeout_ms)

    async def seek_to_end(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Go on from the end of these partitions (of all that are assigned); else as `seek_to_beginning`."""
        await self._seek_by(LATEST, partitions, timeout_ms)

    async def _seek_by(
        self, policy: ResetPolicy | None, partitions: tuple[TopicPartition, ...], timeout_ms: float | None
    ) -> None:
        """Go on where the policy says; without one, from committed offsets."""
        partitions = tuple(arguments.PARTITIONS("partitions", partitions))
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        reading = self._engine.reading
        states = self._states(partitions) if partitions else list(reading.positions)
        if policy is None:
            reading.go_back(states)
        else:
            for state in states:
                reading.reset(state, policy)
        await self._engine.readiness.wait_for_positions(states, timeout_ms)

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

    async def topics(self, *, timeout_ms: float | None = None) -> frozenset[str]:
        """The cluster's topics that this client may see; raises `RequestTimedOutError` after ``timeout_ms``.

        That is ``request_timeout_ms`` by default.
        """
        timeout_ms = TIMEOUT("timeout_ms", timeout_ms)
        self._client.check()
        return await self._engine.all_topics(timeout_ms)

    async def partitions_for_topic(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """The topic's partitions; raises `UnknownTopicOrPartitionError` if there are none after ``timeout_ms``.

        That is ``default_api_timeout_ms`` by default: the topic may be about to be made.
        """
        topic = topic_name("topic", topic)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        found = await self._client.metadata.topic(topic, timeout_ms)
        return frozenset(range(len(found.partitions)))

    # --- the group's offsets -----------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, Offset] | None = None, *, timeout_ms: float | None = None
    ) -> None:
        """Store these offsets (the positions of all assigned partitions; within `run` what is done) for ``group_id``.

        An offset is that of the next record to read. What they cover counts as done: no rebalance waits for it. Returns
        when they are stored, if need be after a rebalance; raises `CommitFailedError` if the consumer is not the member
        that owns the partitions any more, or, without offsets, when those that it still owns are stored, if others were
        taken away since records of them were handed out; raises the error of a partition that was refused, or
        `RequestTimedOutError` after ``timeout_ms`` (``default_api_timeout_ms``).
        """
        given = None if offsets is None else arguments.OFFSETS("offsets", offsets)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        await self._membership("committed offsets belong").commits.commit(given, timeout_ms)

    async def committed(
        self, partition: TopicPartition, *, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        """What ``group_id`` has stored for the partition, or None; raises as `commit` does."""
        tp = topic_partition("partition", partition)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        found = await self._membership("committed offsets belong").offsets.committed([tp], timeout_ms)
        return found[tp]

    async def seek_to_committed(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Go on from what ``group_id`` has committed of these partitions (of all that are assigned).

        For after a transaction that was aborted and committed offsets by `Producer.send_offsets_to_transaction`; with
        `Transaction.send_offsets` or `Transaction.commit_batch` this happens by itself. Where nothing is committed,
        from where reading began. What was fetched, and not handed out, is discarded. Returns when the offsets are
        known; raises as `position` does.
        """
        self._membership("committed offsets belong")
        await self._seek_by(None, partitions, timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership as it is now, for a transaction's offsets (KIP-447).

        Raises `IllegalStateError` without a ``group_id``.
        """
        return self._membership("a membership belongs").standing.metadata

    # --- the rest ----------------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """What brokers' logs and quotas call this consumer."""
        return self._config.client_id

    def metrics(self) -> ConsumerMetrics:
        """What happened so far, and where each partition is: its position, its end, its lag. Costs no request."""
        return self._engine.reading.metrics(self._client.brokers.connections_made, self._client.metadata.metrics())

    def lag(self) -> ConsumerLag:
        """How many offsets this consumer is behind, per partition and in total. Costs no request.

        Counted from the position, and within `run` from the first record that is not done.
        """
        return self._engine.health.lag()

    def health(self) -> ConsumerHealth:
        """Whether this consumer makes progress, for liveness probes. Costs no request; may be called at any time.

        ``healthy`` is False, and ``problems`` say why, when it is not running or has failed, when no broker has
        answered a fetch for ``request_timeout_ms`` though records are wanted, when the group's coordinator has not
        acknowledged a heartbeat for ``session_timeout_ms`` (in a rebalance for ``rebalance_timeout_ms`` more), when
        the application has been at work on what it got for ``max_poll_interval_ms``, or when the event loop is blocked
        right now (which a probe in another thread sees). Under ``group_protocol="consumer"`` a session is as long as
        the brokers are set up for, which members do not learn (KIP-848): nine heartbeat intervals count instead, or
        ``session_timeout_ms`` if that is longer.
        """
        return self._engine.health.health()

    def __repr__(self) -> str:
        return f"<Consumer client_id={self._config.client_id!r} partitions={len(self._engine.reading.positions)}>"

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _run(self, handler: Callable[..., Awaitable[object]], config: RunConfig, exactly_once: Any) -> None:
        from .._io.run.runner import run

        if exactly_once is not None:
            from .._io.run.exactly_once import run_exactly_once

            await run_exactly_once(self._engine, config, handler, exactly_once)
        else:
            async with dead_letters_by(self._client, config, self._config.group_id) as dead_letters:
                await run(self._engine, config, handler, dead_letters)

    async def _bury(self, error: RecordDeserializationError) -> None:
        """Return when a record that cannot be deserialized may be left out: its dead letter, if any, is stored."""
        log = client_log("consumer", self._config.client_id)
        done = "is left out"
        if self._config.on_bad_record == "dead_letter":
            from .._core.run.refusals import Refusals

            config = RunConfig.from_options({"dead_letter_topic": self._config.dead_letter_topic})
            async with dead_letters_by(self._client, config, self._config.group_id) as dead_letters:
                if dead_letters is None:
                    raise ClientClosedError
                await dead_letters.send(error.record, error, 0, Refusals(0, self._config, log))
            done = f"went to {self._config.dead_letter_topic}"
        log.warning("%s %s", bad_record(error), done)

    def _timeout_ms(self, timeout_ms: float | None) -> float:
        checked: float | None = TIMEOUT("timeout_ms", timeout_ms)
        return self._config.default_api_timeout_ms if checked is None else checked

    def _states(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        return [self._engine.reading.positions.require(tp) for tp in arguments.PARTITIONS("partitions", partitions)]

    def _transaction_part(self) -> TransactionPart:
        """For `Transaction.send_offsets`. Internal."""
        self._client.check()
        commits = self._membership("committed offsets belong").commits
        from .._io.group.commits import GroupPart

        return GroupPart(commits)

    def _membership(self, what: str) -> Membership:
        if self._engine.membership is None:
            raise IllegalStateError(f"{what} to a group: set group_id")
        return self._engine.membership


def _wanted(partitions: tuple[TopicPartition, ...]) -> frozenset[TopicPartition] | None:
    return frozenset(arguments.PARTITIONS("partitions", partitions)) if partitions else None
