"""Consumer of records from Kafka topics."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, overload

from .._core.consumer.position import Position
from .._core.consumer.record_batch import RecordBatch
from .._core.consumer.reset_policy import EARLIEST, EARLIEST_TIMESTAMP, LATEST, LATEST_TIMESTAMP
from .._core.consumer.subscription import SubscriptionKind
from .._io.consumer.reader import Batches
from .._io.deadline import Deadline
from .._options import arguments
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
    """Consumer of records from topics or partitions, with or without a consumer group.

        async with Consumer("events", bootstrap_servers="localhost:9092", auto_offset_reset="earliest") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    With ``group_id``, the consumer is a member of that group, and the group distributes the partitions of the topics
    among its members. Without a group, it reads all partitions of the topics, including partitions that are added
    later. `assign` selects partitions explicitly instead. The consumer is then not a member, but with ``group_id`` it
    still begins at the group's committed offsets. `ConsumerOptions` describes the options.

    Keys and values are bytes, unless ``key_deserializer`` and ``value_deserializer`` convert them. A missing key or
    value is None and is not deserialized. A deserializer takes the bytes, and optionally a `SerializationContext`; it
    may be a coroutine function.

    If a record cannot be read, the call raises a `PartitionReadError`. The position of the partition stays at that
    record, and other partitions are not affected. Call `seek` to skip the record. Cancelling a read does not lose
    records.

    A member joins its group in the background, after `start` or `subscribe`, and a background task sends its
    heartbeats. In a rebalance, the member gives up a partition when the application requests more records or commits
    the records it holds, and after ``rebalance_timeout_ms`` at the latest. Meanwhile, it reads the partitions that it
    keeps.

    If the application does not request records for ``max_poll_interval_ms``, the member logs a warning and leaves the
    group without committing the records that the application holds. The next read joins the group again. `start` or the
    next read raises any error that prevents membership, such as `GroupAuthorizationFailedError`,
    `FencedInstanceIdError` or `InconsistentGroupProtocolError`. Later reads try to join again, unless the member was
    fenced.

    A consumer belongs to the event loop that started it. Only one task at a time may wait for records; a second read
    that would have to wait raises `IllegalStateError`. All times are in milliseconds.
    """

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster and begin to fetch records.

        By default, the call returns when each partition to read has a position, so "latest" means the end of the log at
        that time. A member of a group waits for its first assignment (which may be empty), for
        ``on_partitions_assigned``, and for the positions. The call does not wait for topics and partitions that do not
        exist.

        The positions may still be unknown after ``timeout_ms`` (default: ``request_timeout_ms``), for example because a
        rebalance is slow or a partition has no leader. The call then logs a warning with the missing positions and
        returns, and the consumer looks up the positions in the background.

        If ``wait`` is False, the call returns immediately, and the consumer keeps trying to connect in the background.
        Reads wait for the connection.

        Raises `KafkaConnectionError`, with the reason for each bootstrap server, if no server can be used within
        ``timeout_ms``. Raises authentication and TLS errors unchanged, and any error that prevents membership of the
        group. After an error or a cancellation, the consumer is stopped.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=arguments.TIMEOUT("timeout_ms", timeout_ms))

    async def wait_ready(self, timeout_ms: float | None = None) -> None:
        """Wait until the consumer knows which partitions to read and has a position in each of them.

            await consumer.start(wait=False)
            ...
            await consumer.wait_ready(timeout_ms=60_000)

        `start` waits for the same, unless it is called with ``wait=False`` or logs that it gave up waiting after its
        timeout. Call this method in these two cases, or after `subscribe` or `assign`. It does not wait for a partition
        that does not exist, or whose reads raise an error.

        Raises `RequestTimedOutError` after ``timeout_ms`` (default: ``default_api_timeout_ms``). The message names the
        missing partitions or the current step of the group. The consumer continues in the background, so the call may
        be repeated.

        Raises the error that ended the consumer or its membership, `ClientClosedError` when the consumer is stopped,
        and `IllegalStateError` in a callback of a rebalance listener, because the assignment is complete only after
        that callback.
        """
        given = arguments.TIMEOUT("timeout_ms", timeout_ms)
        await self._engine.wait_ready(self._config.default_api_timeout_ms if given is None else given)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Commit, leave the group, and close every connection.

        The call takes at most ``timeout_ms`` (default: 10000), even if no broker answers.

        With ``group_id`` and ``enable_auto_commit``, the call commits the records that the application has finished.
        The last record, batch or result of `getmany` counts as finished only if an ``async with`` block ends without an
        error. A member then calls ``on_partitions_revoked`` and leaves its group. A static member
        (``group_instance_id``, KIP-345) stays in the group until its session expires.

        Iterations over the consumer end, and other waiting calls raise `ClientClosedError`. The method may be called
        repeatedly. If a handler of `run` calls it, it returns immediately, and `run` returns when the consumer has
        stopped.
        """
        await self._client.stop(arguments.TIMEOUT("timeout_ms", timeout_ms))

    # --- choice of partitions ----------------------------------------------------------------------------------------

    def subscribe(
        self, topics: Iterable[str] = (), pattern: str | re.Pattern[str] | None = None, listener: object = None
    ) -> None:
        """Read these topics, or all topics whose full name matches ``pattern``.

        The call replaces any earlier subscription or assignment.

        - ``topics``: names of topics.
        - ``pattern``: a regular expression, as str or compiled, instead of ``topics``. It also selects topics that are
          created later. Under ``group_protocol="consumer"``, the broker matches it, in RE2 syntax (KIP-848). If the
          broker cannot match it, the client does.
        - ``listener``: a `RebalanceListener`, or an object with some of its methods. Only members of a group may have a
          listener.

        With ``auto_offset_reset="latest"``, partitions that appear later are read from their beginning, so that no
        record is missed. In a group, a partition is read from its beginning only if the member had joined before the
        partition appeared and the partition has no committed offset.

        The consumer gives up topics that are no longer subscribed even if the application still holds some of their
        records (see `unsubscribe`).

        Raises `ConfigError` unless exactly one of ``topics`` and ``pattern`` is given, and for a listener without
        ``group_id``.
        """
        if listener is not None and self._config.group_id is None:
            raise ConfigError("listener needs a consumer group: set group_id")
        names = arguments.TOPICS("topics", topics)
        if listener is not None:
            arguments.listener("listener", listener)
        if (pattern is None) == (not names):
            raise ConfigError("subscribe needs either topics or a pattern")
        self._client.check_loop()
        self._engine.subscribe(names, None if pattern is None else arguments.pattern("pattern", pattern), listener)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without a group's assignment.

        The call replaces any earlier subscription or assignment, and returns immediately. Partitions that were assigned
        before keep their positions. A partition that does not exist is read once it has been created. A member of a
        group leaves the group in the background, as after `unsubscribe`.
        """
        wanted = arguments.PARTITIONS("partitions", partitions)
        self._client.check_loop()
        self._engine.subscription.assign(wanted)
        self._engine.subscription_changed()

    def unsubscribe(self) -> None:
        """Stop reading. A member of a group gives up its partitions and leaves the group in the background.

        `run` waits for its handlers and returns, as if the consumer were stopped. Any other waiting read raises
        `IllegalStateError`. Outside `run`, the consumer does not wait until the application has handled the records
        that it holds. Commit these records first, or they are delivered again.
        """
        self._client.check_loop()
        self._engine.subscription.clear()
        self._engine.subscription_changed()
        self._engine.unsubscribed()

    def subscription(self) -> frozenset[str]:
        """Return the names of the subscribed topics, or of the known topics that match the pattern.

        The result is empty after `assign`.
        """
        subscription = self._engine.subscription
        if subscription.kind is SubscriptionKind.PATTERN:
            return frozenset(subscription.matched(self._client.metadata.snapshot))
        return subscription.topics if subscription.kind is SubscriptionKind.TOPICS else frozenset()

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions to read; for a member of a group, the partitions that it currently owns.

        In `run` with ``retry_topics``, the result includes the same partitions of the retry topics.
        """
        return self._engine.reading.positions.assigned

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop fetching and returning records of these partitions until `resume`.

        Fetched records are kept, and returned after `resume`. The application must still request records, or the member
        leaves its group after ``max_poll_interval_ms``. Raises `IllegalStateError` for a partition that is not
        assigned.
        """
        self._client.check_loop()
        for state in self._states(partitions):
            self._engine.reading.prefetch.pause(state)

    def resume(self, *partitions: TopicPartition) -> None:
        """Continue to fetch and return records of these partitions after `pause`.

        Raises `IllegalStateError` for a partition that is not assigned.
        """
        self._client.check_loop()
        for state in self._states(partitions):
            self._engine.reading.prefetch.resume(state)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions that are paused."""
        return self._engine.reading.positions.paused()

    # --- reading -----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Iterate over every record until the consumer is stopped.

            async for record in consumer:
                print(record.offset, record.value)

        The iterator waits for records without a limit. It raises the errors of `getone`, except that it ends when the
        consumer is stopped. After an error or a ``break``, another ``async for`` continues after the last record.
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
        """Return the next record, and wait for it if necessary.

        If ``partitions`` are given, only their records are returned. Returns None if no record arrives within
        ``timeout_ms`` (default: no limit). A cancelled call does not lose a record.

        Raises `PartitionReadError` for a record that cannot be read; `seek` past it to continue. Raises
        `IllegalStateError` if another task is waiting for records, or if there is no subscription or assignment. Raises
        `ClientClosedError` when the consumer is stopped, and any other error that prevents reading, such as
        `TopicAuthorizationFailedError`.
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
        """Return the next records of each partition, in the order of their offsets.

            for partition, records in (await consumer.getmany(timeout_ms=1000)).items():
                for record in records:
                    print(partition, record.offset, record.value)

        Returns fetched records immediately. If there are none, the call waits for records, at most ``timeout_ms``
        (default: 0). The dict is empty if none arrive in time.

        The dict has at most ``max_records`` records in total (default: ``max_poll_records``; None means no limit), and
        only records of ``partitions`` if any are given. A call decodes records for about 10 ms at most, so it may
        return fewer records than are fetched. Raises the errors of `getone`. An error at a later record is raised by
        the next call, after the earlier records were returned.
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
        """Iterate over batches, each with records of one partition, until the consumer is stopped.

            async for batch in consumer.batches():
                await store(batch.values)
                await batch.commit()

        A `RecordBatch` has columns, such as ``values`` and ``offsets``. Fetched batches of a partition are joined up to
        ``max_poll_records`` records (500 if that is None), because few large batches cost less than many small ones. A
        larger batch of the log is not split. The position moves past a batch when the batch is returned. The iterator
        raises the errors of `getone`.

        With ``group_id``, a rebalance that takes the partition away waits at most ``rebalance_timeout_ms`` until the
        application calls `RecordBatch.commit` or requests the next batch. If the task is cancelled while it works on a
        batch, the batch is not committed, and is returned again.

        Write ``async for batch in consumer.batches()`` without keeping a reference to the iterator. With a reference,
        the consumer cannot detect that a timeout inside the task, such as `asyncio.timeout`, has ended the loop.
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
        """Call a handler with every record, several calls at a time, until the consumer is stopped.

            async def handle(record): ...

            await consumer.run(handle, concurrency=64, order="key", dead_letter_topic="events.failed")

        `RunOptions` describes the options. The annotations of the handler's parameters determine its arguments: the
        record, or its value parsed as a model (pydantic, msgspec, dataclass), str, dict or bytes. Parameters named
        ``key``, ``headers`` or ``offset`` receive that part of the record. `Handlers` provides a handler for each
        topic.

        A record is done when its handler has returned or its dead letter is acknowledged. With ``group_id``, offsets
        are committed every ``auto_commit_interval_ms`` and at the end, up to the first unfinished record of each
        partition, so each record is handled at least once. Records are deserialized just before they are handled.

        If a handler raises, it is called again after a backoff. Meanwhile, other records are handled, unless ``order``
        requires that they follow the failed record. If code other than `run` cancels a handler's task, this also counts
        as a failure.

        When the consumer is stopped, `run` waits for running handlers, commits and returns. The last quarter of the
        timeout of `stop`, at most 2 s, is reserved for the commit. In a handler, `stop` returns immediately. `run` also
        ends after `unsubscribe`: in a group, it waits for running handlers as long as a rebalance would; without a
        group, it waits until they have returned. When `run` is cancelled, it cancels the handlers, and all unfinished
        records are delivered again, even to a task that continues to read from this consumer.

        Raises `HandlerError` for a record whose ``retries`` are exhausted, if there is no ``dead_letter_topic`` or the
        dead letter was rejected. Raises `ConfigTypeError` for a handler that has an unknown parameter or is not async;
        the latter may be detected only at the first call. Also raises any error that prevents reading.

        To read and write exactly once, pass a started `Producer` with a ``transactional_id``, or a
        `TransactionPipeline`, as ``exactly_once``:

            async def handle(record, txn): await txn.send("out", record.value)

            await consumer.run(handle, exactly_once=producer)

        The records that handlers send with ``txn``, the dead letters, and the offsets of the input are then committed
        in one transaction (KIP-447). A transaction takes up to ``max_transaction_records`` records, for up to
        ``max_transaction_ms``, and is committed when all their handlers have returned. The call switches the consumer
        to ``isolation_level="read_committed"`` permanently.

        If a handler fails after it has sent a record, or the transaction is aborted for another reason, all records of
        the transaction are handled again. Other side effects of handlers may therefore happen more than once. A
        rebalance waits for the commit as long as it would wait for handlers; then the transaction is aborted. `run`
        raises `ProducerFencedError` if another producer has taken over the transactional id. After
        ``transaction_retries`` consecutive aborts, it raises the reason for the last abort. Aborts in an outage do not
        count.
        """
        from .._runs import run_consumer

        self._client.check()
        await run_consumer(self, self.subscribe, self._engine, handler, exactly_once, options)

    # --- positions ---------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Continue to read this partition from this offset.

        Records of the partition that were fetched but not returned are discarded. The call sends no request and does
        not check the offset. If the offset is outside the log when it is fetched, ``auto_offset_reset`` applies, and
        with "none" the next read raises `FetchOffsetOutOfRangeError`. If an `OffsetAndMetadata` has a leader epoch, the
        consumer checks that the log has not been truncated since the offset was read from it (KIP-320).

        Raises `IllegalStateError` for a partition that is not assigned.
        """
        tp = arguments.topic_partition("partition", partition)
        to = arguments.offset("offset", offset)
        self._client.check_loop()
        state = self._engine.reading.positions.require(tp)
        self._engine.reading.seek(state, Position(to.offset, -1 if to.leader_epoch is None else to.leader_epoch))

    async def seek_to_beginning(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Continue from the first offset of these partitions (default: all assigned partitions).

        Fetched records that were not returned are discarded. Returns when the offsets are known, at most after
        ``timeout_ms`` (default: ``default_api_timeout_ms``). Raises the errors of `position`. After a
        `RequestTimedOutError` or a cancellation, the consumer continues to look up the offsets in the background.
        """
        await self._seek_by(EARLIEST, partitions, timeout_ms)

    async def seek_to_end(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Continue from the end offsets of these partitions (default: all assigned partitions).

        Fetched records that were not returned are discarded. Returns when the offsets are known, at most after
        ``timeout_ms`` (default: ``default_api_timeout_ms``). Raises the errors of `position`. After a
        `RequestTimedOutError` or a cancellation, the consumer continues to look up the offsets in the background.
        """
        await self._seek_by(LATEST, partitions, timeout_ms)

    async def position(self, partition: TopicPartition, *, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to read.

        The call waits until the offset is known, for at most ``timeout_ms`` (default: ``default_api_timeout_ms``).

        Raises `IllegalStateError` if the partition is not assigned, and `NoOffsetForPartitionError` if it has no
        committed offset and ``auto_offset_reset`` is "none". Raises `UnknownTopicOrPartitionError` if several metadata
        responses show the topic without this partition, or if the topic is still missing after ``timeout_ms``. Raises
        `RequestTimedOutError` if the offset is unknown after ``timeout_ms`` for any other reason.
        """
        tp = arguments.topic_partition("partition", partition)
        timeout_ms = self._usable(timeout_ms)
        state = self._engine.reading.positions.require(tp)
        await self._engine.readiness.wait_for_positions([state], timeout_ms)
        position = state.position
        if position is None:
            raise IllegalStateError(f"partition {state.tp} is no longer assigned to this consumer")
        return position.offset

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark as of the last fetch, or None before the first fetch.

        The high watermark is the offset after the last record that all in-sync replicas have. Raises
        `IllegalStateError` if the partition is not assigned.
        """
        return self._engine.reading.positions.require(arguments.topic_partition("partition", partition)).high_watermark

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset as of the last fetch, or None before the first fetch.

        The last stable offset is the first offset of the oldest open transaction, or the high watermark if no
        transaction is open. Raises `IllegalStateError` if the partition is not assigned.
        """
        tp = arguments.topic_partition("partition", partition)
        return self._engine.reading.positions.require(tp).last_stable_offset

    # --- offsets and metadata of the cluster -------------------------------------------------------------------------

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition. The partitions need not be assigned.

        Raises `UnknownTopicOrPartitionError` if several responses of the cluster agree that a partition does not exist,
        and `RequestTimedOutError` if an offset is unknown after ``timeout_ms`` (default: ``default_api_timeout_ms``).
        After an error, the offsets of the other partitions are not returned either.
        """
        return await self._offsets(partitions, EARLIEST_TIMESTAMP, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end offset of each partition. The partitions need not be assigned.

        The end offset is the high watermark, or the last stable offset if ``isolation_level`` is "read_committed".
        Raises the errors of `beginning_offsets`.
        """
        return await self._offsets(partitions, LATEST_TIMESTAMP, timeout_ms)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset and timestamp of the first record at or after a time, for each partition.

            found = await consumer.offsets_for_times({TopicPartition("events", 0): 1_760_000_000_000})

        ``timestamps`` maps each partition to a time in milliseconds since the epoch. The value in the result is None if
        there is no record at or after that time. The partitions need not be assigned. Raises the errors of
        `beginning_offsets`.
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

        The names come from a new request, so topics that were just created may be missing until the brokers know them.
        Raises `RequestTimedOutError` if no broker answers within ``timeout_ms`` (default: ``request_timeout_ms``).
        """
        timeout_ms = arguments.TIMEOUT("timeout_ms", timeout_ms)
        self._client.check()
        return await self._engine.all_topics(timeout_ms)

    async def partitions_for_topic(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """Return the numbers of the topic's partitions.

        The call waits for a topic that does not exist yet. Raises `UnknownTopicOrPartitionError` if the topic is still
        missing after ``timeout_ms`` (default: ``default_api_timeout_ms``), `RequestTimedOutError` if no broker has
        answered by then, and `TopicAuthorizationFailedError` or `InvalidTopicError` immediately.
        """
        topic = arguments.topic_name("topic", topic)
        timeout_ms = self._usable(timeout_ms)
        found = await self._client.metadata.topic(topic, timeout_ms)
        return frozenset(range(len(found.partitions)))

    # --- committed offsets -------------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[TopicPartition, Offset] | None = None, *, timeout_ms: float | None = None
    ) -> None:
        """Commit offsets for ``group_id`` and return when they are stored.

            await consumer.commit()
            await consumer.commit({TopicPartition("events", 0): record.offset + 1})

        Each value is the offset of the next record to read: an int, a pair of offset and metadata, or an
        `OffsetAndMetadata`. Without ``offsets``, the call commits the positions of all assigned partitions or, in
        `run`, the offsets after the finished records. If a rebalance is in progress, the call waits for it and then
        commits. Later rebalances do not wait for records before a committed offset.

        Raises `CommitFailedError` if the consumer does not own one of the given partitions. Without ``offsets``, the
        call first stores the offsets of the partitions that the consumer still owns, and raises `CommitFailedError`
        only if other partitions were taken away after their records had been returned.

        Raises `UnknownTopicOrPartitionError` for a partition that no longer exists, after the other offsets were
        stored. Also raises the broker's error for a rejected offset, `IllegalStateError` without a ``group_id``, and
        `RequestTimedOutError` after ``timeout_ms`` (default: ``default_api_timeout_ms``). After an error or a
        cancellation, some offsets may be stored, and it is safe to commit them again.
        """
        given = None if offsets is None else arguments.OFFSETS("offsets", offsets)
        timeout_ms = self._usable(timeout_ms)
        await self._membership("committed offsets belong").commits.commit(given, timeout_ms)

    async def committed(
        self, partition: TopicPartition, *, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        """Return the offset that ``group_id`` has committed for the partition, or None if it has committed none.

        The partition need not be assigned. The call waits until no open transaction would change the offset (KIP-447).

        Raises `IllegalStateError` without a ``group_id``, `RequestTimedOutError` after ``timeout_ms`` (default:
        ``default_api_timeout_ms``), and the broker's error if it rejects the request, such as
        `GroupAuthorizationFailedError`.
        """
        tp = arguments.topic_partition("partition", partition)
        timeout_ms = self._usable(timeout_ms)
        found = await self._membership("committed offsets belong").offsets.committed([tp], timeout_ms)
        return found[tp]

    async def seek_to_committed(self, *partitions: TopicPartition, timeout_ms: float | None = None) -> None:
        """Continue from the committed offsets of these partitions (default: all assigned partitions).

        Use it after an aborted transaction whose offsets were sent with `Producer.send_offsets_to_transaction`, because
        the records of that transaction must be read again. After `Transaction.send_offsets` and
        `Transaction.commit_batch`, the consumer returns to them automatically.

        A partition without a committed offset returns to the position at which reading began. Fetched records that were
        not returned are discarded. Returns when the offsets are known, at most after ``timeout_ms`` (default:
        ``default_api_timeout_ms``).

        Raises `IllegalStateError` without a ``group_id``, and the errors of `position`.
        """
        self._membership("committed offsets belong")
        await self._seek_by(None, partitions, timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the current membership, for `Producer.send_offsets_to_transaction` (KIP-447).

        Call this method for each transaction, because a rebalance changes the membership. Raises `IllegalStateError`
        without a ``group_id``.
        """
        return self._membership("a membership belongs").commits.membership()

    # --- state -------------------------------------------------------------------------------------------------------

    def metrics(self) -> ConsumerMetrics:
        """Return counters, and the position, end and lag of each assigned partition.

        The call sends no requests. The counters begin when the consumer is created, and the other values are from the
        last fetch of each partition.
        """
        return self._engine.reading.metrics(self._client.brokers.connections_made, self._client.metadata.metrics())

    def lag(self) -> ConsumerLag:
        """Return how many offsets this consumer is behind, by partition and in total.

        The lag is counted from the position or, in `run`, from the first unfinished record. The call sends no requests.
        """
        return self._engine.health.lag()

    def health(self) -> ConsumerHealth:
        """Return the consumer's health, for liveness probes.

        The call sends no requests and may be made at any time. ``healthy`` is False, with the reasons in ``problems``,
        in these cases:

        - The consumer is not running or has failed.
        - No broker has answered a fetch for ``request_timeout_ms`` although the application wants records.
        - The group's coordinator has not acknowledged a heartbeat for ``session_timeout_ms``, plus
          ``rebalance_timeout_ms`` in a rebalance. Under ``group_protocol="consumer"``, brokers do not tell members the
          session timeout (KIP-848). The limit is then nine heartbeat intervals, or ``session_timeout_ms`` if that is
          longer.
        - The application has worked on its records for ``max_poll_interval_ms``.
        - The event loop is blocked now, as observed by a probe in another thread.
        """
        return self._engine.health.health()

    def __repr__(self) -> str:
        return f"<Consumer client_id={self._config.client_id!r} partitions={len(self._engine.reading.positions)}>"


def _wanted(partitions: tuple[TopicPartition, ...]) -> frozenset[TopicPartition] | None:
    return frozenset(arguments.PARTITIONS("partitions", partitions)) if partitions else None
