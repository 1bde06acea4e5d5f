"""Consumer of records from Kafka topics."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

from .._core.consumer import arguments
from .._core.consumer.position import Position
from .._core.consumer.record_batch import RecordBatch
from .._core.consumer.reset_policy import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP
from .._core.consumer.subscription import SubscriptionKind
from .._io.consumer.reader import Batches
from .._io.deadline import Deadline
from .._options.arguments import TIMEOUT, topic_name, topic_partition
from .._options.arguments import offset as checked_offset
from .._options.checks import boolean
from .._options.read_types import K, V
from .._records import ConsumerRecord
from ..errors import ConfigError, IllegalStateError
from ..types import ConsumerGroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from ._base import ConsumerBase

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..config.run import RunOptions
    from ..handlers import Handlers
    from ..health import ConsumerHealth, ConsumerLag
    from ..metrics import ConsumerMetrics
    from ..producer import Producer
    from ..producer.pipeline import TransactionPipeline


__all__ = ["Consumer", "RecordBatch"]

Offset = int | tuple[int, str] | OffsetAndMetadata


class Consumer(ConsumerBase[K, V]):
    """Reads records from topics or partitions.

        async with Consumer("events", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    With ``group_id`` the consumer is a member of that group, which distributes the partitions of the topics among its
    members. Without a group it reads all partitions, including partitions added later. `assign` selects partitions
    without a group's assignment; with ``group_id`` it still begins at the group's committed offsets. `ConsumerOptions`
    describes the options.

    Keys and values are bytes, or the results of ``key_deserializer`` and ``value_deserializer``, which determine their
    types. A missing key or value is None and is not deserialized. A deserializer takes the bytes, and optionally a
    `SerializationContext`. It may be a coroutine function. An error in a record (`PartitionReadError`) does not change
    the partition's position or affect other partitions; `seek` to continue. Cancelling a read does not lose records.

    A member joins in the background after `start` or `subscribe`. Its heartbeats do not depend on the application. In a
    rebalance it gives up partitions once the application has requested more records, has committed the records it
    holds, or has exceeded ``rebalance_timeout_ms``. Other partitions are read meanwhile.

    If the application does not request records for ``max_poll_interval_ms``, the member leaves the group with a
    warning, without committing the records that the application holds. The next read joins again. An error that
    prevents membership, such as `GroupAuthorizationFailedError`, `FencedInstanceIdError` or
    `InconsistentGroupProtocolError`, is raised by `start` or the next read. Later reads try again, unless the member
    was fenced.

    A consumer belongs to the event loop that started it. While a task waits for records, other reads that would wait
    raise `IllegalStateError`. All times are in milliseconds.
    """

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster and begin to fetch; with ``wait``, return once the starting positions are known.

        With ``wait``, each partition to read has a position on return, so "latest" means the end of the log at that
        time. A member of a group waits for its first assignment, which may be empty, for ``on_partitions_assigned``,
        and for the positions. After ``timeout_ms`` (``request_timeout_ms``), for example in a slow rebalance or without
        a partition leader, a warning names the missing positions, and they are looked up in the background. The call
        does not wait for topics and partitions that do not exist. Without partitions to read, it returns once
        connected.

        Without ``wait``, this returns immediately and the consumer keeps trying to connect in the background. Reads
        wait for the connection.

        Raises `KafkaConnectionError`, with the reason for each bootstrap server, if none could be used within
        ``timeout_ms``. Raises authentication and TLS errors unchanged, and errors that keep a member out of its group.
        After an error or a cancellation the consumer is stopped.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=TIMEOUT("timeout_ms", timeout_ms))

    async def wait_ready(self, timeout_ms: float | None = None) -> None:
        """Wait until `start` would have returned, for at most ``timeout_ms`` (``default_api_timeout_ms``).

        Use it after ``start(wait=False)``, `subscribe`, `assign`, or a `start` that returned without all positions. It
        does not wait for a partition whose reads raise an error.

        Raises the error with which the consumer or its membership has failed, and `RequestTimedOutError`, which names
        the missing partitions or the current step of the group. Raises `IllegalStateError` in a listener's callback,
        which is part of the assignment.
        """
        given = TIMEOUT("timeout_ms", timeout_ms)
        await self._engine.wait_ready(self._config.default_api_timeout_ms if given is None else given)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Stop fetching and close every connection, within ``timeout_ms`` (10000) regardless of the brokers.

        With ``group_id`` and ``enable_auto_commit``, commits the records that the application has finished. The last
        record, batch or result of `getmany` counts as finished only if an ``async with`` block ends without an error. A
        member then leaves its group, after ``on_partitions_revoked``. A static member (``group_instance_id``, KIP-345)
        stays in the group until its session expires.

        Iterations end; other waiting calls raise `ClientClosedError`. May be called again. In a handler of `run`, it
        returns at once, and `run` returns when the consumer has stopped.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    # --- choice of partitions ----------------------------------------------------------------------------------------

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | re.Pattern[str] | None = None, listener: object = None
    ) -> None:
        """Read these topics, or all topics whose full name matches ``pattern``; replaces earlier choices.

        A pattern includes topics created later. If ``auto_offset_reset`` is "latest", partitions that appear later are
        read from their beginning, so that no record is missed. In a group, this requires that the member joined before
        and that the partition has no committed offset.

        A group does not wait for records in hand of topics that are no longer read: see `unsubscribe`.

        ``listener``, for members of a group, is a `RebalanceListener` or a similar object. Under
        ``group_protocol="consumer"`` the broker matches the pattern, in RE2 syntax (KIP-848), or the client does if
        that is impossible. Raises `ConfigError` unless either topics or a pattern are given, and for a listener without
        ``group_id``.
        """
        if listener is not None and self._config.group_id is None:
            raise ConfigError("listener is for consumer groups: set group_id")
        names = arguments.TOPICS("topics", topics)
        if listener is not None:
            arguments.listener("listener", listener)
        if (pattern is None) == (not names):
            raise ConfigError("subscribe needs either topics or a pattern")
        self._client.check_loop()
        self._engine.subscribe(names, None if pattern is None else arguments.pattern("pattern", pattern), listener)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions; replaces earlier choices, but partitions that stay keep their positions.

        A member of a group leaves the group first, in the background, as after `unsubscribe`.
        """
        wanted = arguments.PARTITIONS("partitions", partitions)
        self._client.check_loop()
        self._engine.subscription.assign(wanted)
        self._engine.subscription_changed()

    def unsubscribe(self) -> None:
        """Stop reading. A member gives up its partitions and leaves the group, in the background.

        Except in `run`, it does not wait for records in hand: commit them first, or they are delivered again.
        `run` returns as if the consumer were stopped. Any other waiting read raises `IllegalStateError`.
        """
        self._client.check_loop()
        self._engine.subscription.clear()
        self._engine.subscription_changed()
        self._engine.unsubscribed()

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics, or the known topics that match the pattern; empty after `assign`."""
        subscription = self._engine.subscription
        if subscription.kind is SubscriptionKind.PATTERN:
            return frozenset(subscription.matched(self._client.metadata.snapshot))
        return subscription.topics if subscription.kind is SubscriptionKind.TOPICS else frozenset()

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions to read; for a member of a group, the partitions that it owns now.

        In `run` with ``retry_topics``, the same partitions of the retry topics are included.
        """
        return self._engine.reading.positions.assigned

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching and returning records of these partitions; fetched records are kept for `resume`.

        Raises `IllegalStateError` for a partition that is not assigned.
        """
        self._client.check_loop()
        for state in self._states(partitions):
            self._engine.reading.prefetch.pause(state)

    def resume(self, *partitions: TopicPartition) -> None:
        """Continue to fetch and return records of these partitions after `pause`. Raises the errors of `pause`."""
        self._client.check_loop()
        for state in self._states(partitions):
            self._engine.reading.prefetch.resume(state)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return self._engine.reading.positions.paused()

    # --- reading -----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate over every record until the consumer is stopped.

        After an error or a ``break``, another ``async for`` continues after the last record.
        """
        self._client.check()
        tracing = self._engine.tracing
        return self._engine.reader.records(None if tracing is None else tracing.records())

    async def __anext__(self) -> ConsumerRecord[K, V]:
        record = await self._engine.reader.next_record()
        if record is None:
            raise StopAsyncIteration
        return record

    @overload
    async def getone(self, *partitions: TopicPartition, timeout_ms: None = None) -> ConsumerRecord[K, V]: ...
    @overload
    async def getone(self, *partitions: TopicPartition, timeout_ms: float | None) -> ConsumerRecord[K, V] | None: ...
    async def getone(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> ConsumerRecord[K, V] | None:
        """Return the next record, waiting for it if necessary; only from ``partitions``, if any are given.

        Returns None if no record arrives within ``timeout_ms`` (no limit).

        Raises `PartitionReadError` for a record that cannot be read, any other error that prevents reading,
        `IllegalStateError` while another task waits for records, and `ClientClosedError` when the consumer is stopped.
        """
        deadline = None if timeout_ms is None else Deadline(arguments.WAIT("timeout_ms", timeout_ms))
        tracing = self._engine.tracing
        if tracing is None:
            return await self._engine.reader.getone(_wanted(partitions), deadline)
        began = time.time_ns()
        record = await self._engine.reader.getone(_wanted(partitions), deadline)
        if record is not None:
            tracing.received(began, [record])
        return record

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return records by partition: those already fetched, or else the first to arrive within ``timeout_ms``.

        Returns at most ``max_records`` records (``max_poll_records``), and only records of ``partitions`` if any are
        given. If ``max_poll_records`` is None, too, a call decodes records for a few milliseconds at most. The dict is
        empty if no record arrives in time. Raises the errors of `getone`.
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
        """Iterate over batches of records, with columns, until the consumer is stopped.

        Buffered batches of a partition's log are joined, up to ``max_poll_records`` records (500 if None), which makes
        small batches cheap. A larger batch of the log stays whole. The position moves past a batch when the batch is
        returned.

        With ``group_id`` a batch is a lease: a rebalance that takes its partition waits until `RecordBatch.commit`, or
        until the next batch is requested, for at most ``rebalance_timeout_ms``. If the task is cancelled during a
        batch, the batch is not committed, and is returned again. If a timeout inside the task, such as
        `asyncio.timeout`, ends the loop, the consumer recognizes this only without another reference to the iterator:
        write ``async for batch in consumer.batches()``.
        """
        self._client.check()
        membership = self._engine.membership
        tracing = self._engine.tracing
        return Batches(
            self._engine.reader,
            None if membership is None else membership.leases,
            None if tracing is None else tracing.batches(),
        )

    async def run(
        self,
        handler: Callable[..., Awaitable[object]] | Handlers,
        *,
        exactly_once: Producer[Any, Any] | TransactionPipeline[Any, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        """Call a handler with every record, many concurrently, until the consumer is stopped.

            async def handle(record): ...

            await consumer.run(handle, concurrency=64, order="key", dead_letter_topic="events.failed")

        `RunOptions` describes the options. Annotations determine a handler's arguments: the record, or its value parsed
        as a model (pydantic, msgspec, dataclass), str, dict or bytes, and parts of the record by name (``key``,
        ``headers``, ``offset``). `Handlers` provides a handler for each topic.

        A record is done when its handler has returned or its dead letter is acknowledged. With ``group_id``, offsets
        are committed every ``auto_commit_interval_ms`` and at the end, up to the first unfinished record of each
        partition, so each record is handled at least once. A handler that raises is called again after a backoff.
        Meanwhile only the records that ``order`` puts after its record wait. A handler has also failed if anything but
        `run` cancels its task. Records are deserialized just before they are handled.

        When the consumer is stopped, `run` waits for running handlers, commits and returns. The last quarter of the
        timeout of `stop`, at most 2 s, is reserved for the commit. In a handler `stop` returns at once. After
        `unsubscribe`, `run` also ends, but waits for handlers as long as a rebalance does, or without a group until
        they have returned. When `run` is cancelled, handlers are cancelled, and all unfinished records are delivered
        again, even to a task that continues to read from this consumer.

        Raises `HandlerError` for a record whose ``retries`` are exhausted if there is no ``dead_letter_topic`` or its
        dead letter was refused, `ConfigTypeError` for a handler that has an unknown parameter or is not async (if
        necessary after its first call), and any error that prevents reading.

            async def handle(record, txn): await txn.send("out", record.value)

            await consumer.run(handle, exactly_once=producer)

        ``exactly_once`` is a started `Producer` with a ``transactional_id`` or a `TransactionPipeline`. The records
        that handlers send with ``txn``, dead letters and the offsets of the input are then committed in one transaction
        (KIP-447). A transaction takes up to ``max_transaction_records`` records, for up to ``max_transaction_ms``, and
        is committed when all their handlers have returned. If a handler fails after it has sent a record, or the
        transaction is aborted for another reason, all its records are handled again, so other side effects may happen
        more than once. A rebalance waits for the commit as long as for handlers, and then aborts the transaction. From
        this call on the consumer reads with ``isolation_level="read_committed"``. Also raises `ProducerFencedError`
        when another producer has taken over the transactional id, and the reason for the abort after
        ``transaction_retries``.
        """
        from .._runs import run_consumer

        self._client.check()
        await run_consumer(self, self.subscribe, self._engine, handler, exactly_once, options)

    # --- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue from this offset, which need not exist yet; discards fetched records.

        If `OffsetAndMetadata` has a leader epoch, the consumer checks that the log has not diverged since the offset
        was read from it (KIP-320). Raises `IllegalStateError` for a partition that is not assigned.
        """
        tp = topic_partition("partition", partition)
        to = checked_offset("offset", offset)
        self._client.check_loop()
        state = self._engine.reading.positions.require(tp)
        self._engine.reading.seek(state, Position(to.offset, -1 if to.leader_epoch is None else to.leader_epoch))

    async def seek_to_beginning(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Continue from the first offset of these partitions (default: all assigned partitions).

        Returns when the offsets are known. Raises the errors of `position`.
        """
        await self._seek_by(EARLIEST, partitions, timeout_ms)

    async def seek_to_end(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Continue from the end offsets of these partitions (default: all assigned partitions).

        Returns when the offsets are known. Raises the errors of `position`.
        """
        await self._seek_by(LATEST, partitions, timeout_ms)

    async def position(self, partition: TopicPartition, *, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to read, waiting until it is known.

        Raises `NoOffsetForPartitionError` if there is no position, `IllegalStateError` if the partition is not
        assigned, and `UnknownTopicOrPartitionError` when several responses of the cluster agree that the topic does not
        have the partition. After ``timeout_ms`` (``default_api_timeout_ms``) it raises `UnknownTopicOrPartitionError`
        if the topic is missing, and `RequestTimedOutError` otherwise.
        """
        tp = topic_partition("partition", partition)
        timeout_ms = self._usable(timeout_ms)
        state = self._engine.reading.positions.require(tp)
        await self._engine.readiness.wait_for_positions([state], timeout_ms)
        position = state.position
        if position is None:
            raise IllegalStateError(f"partition {state.tp} is no longer assigned to this consumer")
        return position.offset

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark as of the last fetch; None before the first fetch.

        This is the offset after the last fully replicated record. Raises `IllegalStateError` if the partition is not
        assigned.
        """
        return self._engine.reading.positions.require(topic_partition("partition", partition)).high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset as of the last fetch, or None.

        This is the first offset of an open transaction, or else the high watermark. Raises the error of `highwater`.
        """
        return self._engine.reading.positions.require(topic_partition("partition", partition)).last_stable_offset

    # --- offsets and metadata of the cluster -------------------------------------------------------------------------

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not.

        Raises `UnknownTopicOrPartitionError` when several responses of the cluster agree that a partition does not
        exist, and `RequestTimedOutError` after ``timeout_ms`` (``default_api_timeout_ms``).
        """
        return await self._offsets(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: with "read_committed", the last stable offset.

        Raises the errors of `beginning_offsets`.
        """
        return await self._offsets(partitions, LATEST_TIMESTAMP, timeout_ms)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset and timestamp of each partition's first record at or after a time, or None.

        Times are in milliseconds since the epoch. Raises the errors of `beginning_offsets`.
        """
        wanted = arguments.TIMES("timestamps", timestamps)
        timeout_ms = self._usable(timeout_ms)
        found = await self._engine.queries.offsets(wanted, timeout_ms)
        result: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        for tp in wanted:
            offset, timestamp_ms, epoch = found[tp]
            result[tp] = None if offset < 0 else OffsetAndTimestamp(offset, timestamp_ms, None if epoch < 0 else epoch)
        return result

    async def topics(self, *, timeout_ms: float | None = None) -> frozenset[str]:
        """Return the names of all topics that this user may describe.

        Raises `RequestTimedOutError` after ``timeout_ms`` (``request_timeout_ms``).
        """
        timeout_ms = TIMEOUT("timeout_ms", timeout_ms)
        self._client.check()
        return await self._engine.all_topics(timeout_ms)

    async def partitions_for_topic(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """Return the numbers of the topic's partitions.

        Raises `UnknownTopicOrPartitionError` if there are none within ``timeout_ms``. The default is
        ``default_api_timeout_ms``, because the topic may be about to be created.
        """
        topic = topic_name("topic", topic)
        timeout_ms = self._usable(timeout_ms)
        found = await self._client.metadata.topic(topic, timeout_ms)
        return frozenset(range(len(found.partitions)))

    # --- committed offsets -------------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, Offset] | None = None, *, timeout_ms: float | None = None
    ) -> None:
        """Commit these offsets for ``group_id``, by default the positions of all assigned partitions.

        In `run`, the default is the offsets of finished records. An offset names the next record to read. Earlier
        records count as done, so a rebalance does not wait for them. Returns when the offsets are stored, if necessary
        after a rebalance.

        Raises `CommitFailedError` if the consumer does not own the partitions any longer. Without ``offsets``, it first
        stores the offsets of the partitions that it still owns, and raises if other partitions were taken away since
        their records were returned. Raises the error of a refused partition, `IllegalStateError` without a
        ``group_id``, and `RequestTimedOutError` after ``timeout_ms`` (``default_api_timeout_ms``).
        """
        given = None if offsets is None else arguments.OFFSETS("offsets", offsets)
        timeout_ms = self._usable(timeout_ms)
        await self._membership("committed offsets belong").commits.commit(given, timeout_ms)

    async def committed(
        self, partition: TopicPartition, *, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        """Return the offset that ``group_id`` has committed for the partition, or None.

        Raises the errors of `commit`.
        """
        tp = topic_partition("partition", partition)
        timeout_ms = self._usable(timeout_ms)
        found = await self._membership("committed offsets belong").offsets.committed([tp], timeout_ms)
        return found[tp]

    async def seek_to_committed(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Continue from the offsets committed by ``group_id`` for these partitions (default: all assigned partitions).

        Use it after an aborted transaction with offsets of `Producer.send_offsets_to_transaction`.
        `Transaction.send_offsets` and `Transaction.commit_batch` do this automatically. Partitions without a committed
        offset return to the position where reading began. Fetched records that were not returned are discarded. Returns
        when the offsets are known. Raises the errors of `position`.
        """
        self._membership("committed offsets belong")
        await self._seek_by(None, partitions, timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the current membership, for a transaction's offsets (KIP-447).

        Raises `IllegalStateError` without a ``group_id``.
        """
        return self._membership("a membership belongs").commits.membership()

    # --- state -------------------------------------------------------------------------------------------------------

    def metrics(self) -> ConsumerMetrics:
        """Return counts, and the position, end and lag of each partition, without sending requests."""
        return self._engine.reading.metrics(self._client.brokers.connections_made, self._client.metadata.metrics())

    def lag(self) -> ConsumerLag:
        """Return how many offsets this consumer is behind, by partition and in total, without sending requests.

        The lag is counted from the position; in `run`, from the first unfinished record.
        """
        return self._engine.health.lag()

    def health(self) -> ConsumerHealth:
        """Return the consumer's health, for liveness probes, without sending requests. May be called at any time.

        ``healthy`` is False, with the reasons in ``problems``, in these cases:

        - The consumer is not running or has failed.
        - No broker has answered a fetch for ``request_timeout_ms`` although records are wanted.
        - The group's coordinator has not acknowledged a heartbeat for ``session_timeout_ms``, plus
          ``rebalance_timeout_ms`` in a rebalance. Under ``group_protocol="consumer"``, where members do not learn the
          session timeout (KIP-848), the limit is nine heartbeat intervals, or ``session_timeout_ms`` if that is longer.
        - The application has worked on its records for ``max_poll_interval_ms``.
        - The event loop is blocked now, as observed by a probe in another thread.
        """
        return self._engine.health.health()

    def __repr__(self) -> str:
        return f"<Consumer client_id={self._config.client_id!r} partitions={len(self._engine.reading.positions)}>"


def _wanted(partitions: tuple[TopicPartition, ...]) -> frozenset[TopicPartition] | None:
    return frozenset(arguments.PARTITIONS("partitions", partitions)) if partitions else None
