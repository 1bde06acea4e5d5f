"""Behaviour that programs written for aiokafka rely on."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from aiokafka_lead.compat import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka_lead.compat.errors import (
    ConsumerStoppedError,
    IllegalOperation,
    IllegalStateError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    ProducerClosed,
    ProducerFenced,
    TopicAuthorizationFailedError,
)
from aiokafka_lead.compat.structs import OffsetAndMetadata, RecordMetadata
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late

pytestmark = pytest.mark.anyio

FIRST, SECOND = TopicPartition("events", 0), TopicPartition("events", 1)


async def test_send_gives_a_future(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        future = await producer.send("events", b"v", key=b"k", partition=1, timestamp_ms=5, headers=[("h", b"1")])
        called: list[object] = []
        future.add_done_callback(called.append)
        found = await future
        assert found == RecordMetadata("events", 1, SECOND, 0, 5, 0, None)
        assert future.done()
        assert not future.cancel()
        assert future.exception() is None
        assert called == [future]
        others = [await producer.send("events", b"%d" % number, partition=0) for number in range(3)]
        assert await asyncio.wait(cast("Any", others)) == (set(others), set())
        assert [one.offset for one in await asyncio.gather(*others) if one is not None] == [0, 1, 2]
        with pytest.raises(AssertionError, match="key or value"):
            await producer.send("events")
        with pytest.raises(AssertionError, match="Unrecognized partition"):
            await producer.send("events", b"v", partition=2)
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send("events", bytes(2_000_000))
    with pytest.raises(ProducerClosed):
        await producer.send("events", b"v")


async def test_a_future_that_is_cancelled(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=50) as producer:
        future = await producer.send("events", b"v", partition=0)
        with pytest.raises(asyncio.InvalidStateError):
            future.result()
        called: list[object] = []
        future.add_done_callback(called.append)
        future.add_done_callback(print)
        assert future.remove_done_callback(print) == 1
        assert future.cancel()
        assert future.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await future
        await producer.flush()
        assert called == [future]
    assert cluster.end_offset("events", 0) == 1


async def test_without_acknowledgements_nothing_is_known(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks=0) as producer:
        assert await producer.send_and_wait("events", b"v") is None


async def test_serializers_get_none_too(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        key_serializer=lambda key: repr(key).encode(),
        value_serializer=lambda value: repr(value).encode(),
    ) as producer:
        await producer.send_and_wait("events", 5, partition=0)
        batch = producer.create_batch()
        assert batch.append(key="a", value=6, timestamp=None) is not None
        await (await producer.send_batch(batch, "events", partition=0))
    async with AIOKafkaConsumer(
        "events",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=lambda key: key.decode(),
    ) as consumer:
        records = [await consumer.getone(), await consumer.getone()]
    assert [(one.key, one.value, one.serialized_key_size) for one in records] == [("None", b"5", 4), ("'a'", b"6", 3)]


async def test_batches_are_sent_whole(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_batch_size=200) as producer:
        batch = producer.create_batch()
        taken = 0
        while batch.append(key=b"key", value=b"value", timestamp=7) is not None:
            taken += 1
        assert (batch.record_count(), batch.closed()) == (taken, True)
        assert batch.size() <= 200
        found = await (await producer.send_batch(batch, "events", partition=1))
        assert found is not None
        assert (found.offset, found.topic_partition) == (0, SECOND)
    assert cluster.end_offset("events", 1) == taken


async def test_the_records_of_a_batch_go_in_one_request(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"first", partition=1)
        before = cluster.requests.count("Produce")
        batch = producer.create_batch()
        for value in (b"1", b"2", b"3"):
            batch.append(key=None, value=value, timestamp=None, headers=[("kind", b"number")])
        await (await producer.send_batch(batch, "events", partition=1))
        assert cluster.requests.count("Produce") == before + 1
    assert [record.value for record in cluster.records("events", 1)] == [b"first", b"1", b"2", b"3"]


async def test_a_batch_waits_for_room_and_may_be_sent_again(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("Produce", hold=True)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        batch = producer.create_batch()
        assert batch.append(key=None, value=b"x" * 16_000, timestamp=None) is not None
        room_for = 32 * 2**20 // batch.size()
        sent = [await producer.send_batch(batch, "events", partition=0) for _ in range(room_for)]
        waits = asyncio.create_task(producer.send_batch(batch, "events", partition=0))
        await cluster.wait_for_requests("Produce")
        assert not waits.done()
        held.remove()
        sent.append(await waits)
        found = [await one for one in sent]
    assert [one and one.offset for one in found] == list(range(room_for + 1))


async def test_a_batch_without_records_is_done_and_sends_nothing(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert await (await producer.send_batch(producer.create_batch(), "events", partition=0)) is None
    assert cluster.end_offset("events", 0) == 0


async def test_start_waits_for_the_first_assignment(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    async with AIOKafkaConsumer("events", bootstrap_servers=servers, group_id="g") as first:
        assert first.assignment() == {FIRST, SECOND}
        async with (
            AIOKafkaConsumer("events", bootstrap_servers=servers, group_id="g") as second,
            AIOKafkaConsumer("events", bootstrap_servers=servers, group_id="g") as third,
        ):
            assert sorted(map(len, (first.assignment(), second.assignment(), third.assignment()))) == [0, 1, 1]


class Listener(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, set[TopicPartition]]] = []

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.calls.append(("revoked", revoked))

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.calls.append(("assigned", assigned))
        raise RuntimeError("no rebalance fails because of this")


async def test_listeners_get_all_partitions_and_no_stop(cluster: EmbeddedCluster) -> None:
    listener = Listener()
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g")
    consumer.subscribe(pattern="ev", listener=listener)
    await consumer.start()
    assert consumer.subscription() == {"events"}
    await consumer.stop()
    await consumer.stop()
    assert listener.calls == [("revoked", set()), ("assigned", {FIRST, SECOND})]


class SlowListener(Listener):
    """Takes as long as the test wants, and tries to stop its consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.consumer: AIOKafkaConsumer | None = None

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:  # type: ignore[override]
        await self.goes_on.wait()
        assert self.consumer is not None
        assert await self.consumer.position(FIRST) == 0
        await self.consumer.stop()


async def test_a_listener_may_take_any_time(cluster: EmbeddedCluster) -> None:
    """The start does not wait for it, but reads do."""
    await filled(cluster, 1)
    listener = SlowListener()
    listener.consumer = consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        rebalance_timeout_ms=50,
    )
    consumer.subscribe(["events"], listener=listener)
    async with asyncio.timeout(30):
        await consumer.start()
        assert consumer.assignment() == {FIRST, SECOND}
        assert await consumer.getmany(timeout_ms=200) == {}
        listener.goes_on.set()
        assert (await consumer.getone()).value == b"0"
        await consumer.stop()
    assert not consumer._native._client.running


class FlushingListener(SlowListener):
    """Takes as long as the test wants to give up its partitions, and then commits."""

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if revoked and self.consumer is not None:
            self.calls.append(("begun", revoked))
            await self.goes_on.wait()
            await self.consumer.commit({FIRST: 1})
            self.calls.append(("ended", revoked))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:  # type: ignore[override]
        pass


async def test_a_stop_waits_for_the_listener(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g"}
    await filled(cluster, 1)
    listener = FlushingListener()
    listener.consumer = consumer = AIOKafkaConsumer(**options, rebalance_timeout_ms=60_000, enable_auto_commit=False)
    consumer.subscribe(["events"], listener=listener)
    async with asyncio.timeout(60):
        await consumer.start()
        other = AIOKafkaConsumer("events", **options)
        joining = asyncio.create_task(other.start())
        while not listener.calls:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        stopping = asyncio.create_task(consumer.stop())
        assert not (await asyncio.wait([stopping], timeout=4))[0]
        listener.goes_on.set()
        await stopping
        assert [name for name, _ in listener.calls] == ["begun", "ended"]
        await joining
        assert await other.committed(FIRST) == 1
        await other.stop()


async def filled(cluster: EmbeddedCluster, records: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(records):
            await producer.send("events", b"%d" % number, partition=0)


async def test_what_was_handed_out_is_committed_at_the_stop(cluster: EmbeddedCluster) -> None:
    await filled(cluster, 5)
    options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("events", **options) as consumer:  # type: ignore[arg-type]
        assert [(await consumer.getone()).value for _ in range(2)] == [b"0", b"1"]
    async with AIOKafkaConsumer("events", **options) as consumer:  # type: ignore[arg-type]
        assert await consumer.committed(FIRST) == 2
        assert await consumer.committed(SECOND) is None or await consumer.committed(SECOND) == 0
        (records,) = (await consumer.getmany(timeout_ms=20_000, max_records=1)).values()
        assert [record.value for record in records] == [b"2"]


async def test_a_rebalance_does_not_wait_for_the_application(cluster: EmbeddedCluster) -> None:
    await filled(cluster, 5)
    options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("events", enable_auto_commit=False, session_timeout_ms=60_000, **options) as first:  # type: ignore[arg-type]
        await first.getone()
        async with AIOKafkaConsumer("events", **options) as second:  # type: ignore[arg-type]
            assert len(first.assignment()) == len(second.assignment()) == 1


async def test_commits(cluster: EmbeddedCluster) -> None:
    await filled(cluster, 5)
    servers = cluster.bootstrap_servers
    async with AIOKafkaConsumer(
        "events", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        await consumer.getone()
        await consumer.commit()
        assert await consumer.committed(FIRST) == 1
        await consumer.commit({FIRST: (3, "why")})
        assert await consumer.committed(FIRST) == 3
        await consumer.commit({FIRST: OffsetAndMetadata(2, "")})
        assert await consumer.seek_to_committed(FIRST) == {FIRST: 2}
        assert await consumer.position(FIRST) == 2
        with pytest.raises(ValueError):
            await consumer.commit({FIRST: (1, 2, 3)})
        with pytest.raises(TypeError):
            await consumer.commit({"events": 1})  # type: ignore[dict-item]
        with pytest.raises(IllegalStateError):
            await consumer.commit({TopicPartition("events", 7): 1})
    async with AIOKafkaConsumer("events", bootstrap_servers=servers) as consumer:
        with pytest.raises(IllegalOperation):
            await consumer.commit()
        with pytest.raises(IllegalOperation):
            await consumer.committed(FIRST)


async def test_what_a_consumer_knows(cluster: EmbeddedCluster) -> None:
    await filled(cluster, 5)
    consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    consumer.assign([FIRST])
    with pytest.raises(IllegalStateError):
        consumer.subscribe(["events"])
    async with consumer:
        assert consumer.partitions_for_topic("events") == {0, 1}
        assert consumer.partitions_for_topic("none") is None
        cluster.create_topic("__consumer_offsets")
        assert await consumer.topics() == {"events"}
        assert await consumer.end_offsets([FIRST, SECOND]) == {FIRST: 5, SECOND: 0}
        assert await consumer.seek_to_beginning(FIRST)
        assert await consumer.position(FIRST) == 0
        consumer.seek(FIRST, 4)
        assert (await consumer.getone(FIRST)).offset == 4
        assert consumer.highwater(FIRST) == 5
        assert consumer.last_stable_offset(FIRST) == 5
        found = await consumer.offsets_for_times({FIRST: 0})
        assert [one and one.offset for one in found.values()] == [0]
        with pytest.raises(ValueError):
            consumer.seek(FIRST, -1)
        with pytest.raises(IllegalStateError):
            consumer.seek(SECOND, 0)
        with pytest.raises(AssertionError):
            consumer.highwater(SECOND)
        consumer.pause(FIRST)
        assert consumer.paused() == {FIRST}


async def test_tasks_that_read_take_turns_and_end_with_the_consumer(cluster: EmbeddedCluster) -> None:
    consumer = AIOKafkaConsumer("events", bootstrap_servers=cluster.bootstrap_servers)
    await consumer.start()
    reading = [asyncio.create_task(consumer.getone()) for _ in range(3)]
    await asyncio.sleep(0)
    await filled(cluster, 2)
    done, waiting = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 2:
        done, waiting = await asyncio.wait(reading, return_when=asyncio.FIRST_COMPLETED) if waiting else (done, waiting)
        await asyncio.sleep(0)
    assert {task.result().value for task in done} == {b"0", b"1"}
    assert await consumer.getmany() == {}
    await consumer.stop()
    for task in waiting:
        with pytest.raises(ConsumerStoppedError):
            await task
    with pytest.raises(ConsumerStoppedError):
        await consumer.getone()
    with pytest.raises(ConsumerStoppedError):
        await consumer.getmany()


async def test_tasks_read_their_partitions_independently(cluster: EmbeddedCluster) -> None:
    async with (
        asyncio.timeout(30),
        AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
        AIOKafkaConsumer("events", bootstrap_servers=cluster.bootstrap_servers) as consumer,
    ):
        waiting = [asyncio.create_task(consumer.getone(SECOND)) for _ in range(2)]
        await asyncio.sleep(0)
        for number in range(3):
            await producer.send_and_wait("events", b"%d" % number, partition=0)
        assert (await consumer.getone(FIRST)).value == b"0"
        (records,) = (await consumer.getmany(FIRST, timeout_ms=20_000, max_records=1)).values()
        assert [record.value for record in records] == [b"1"]
        assert (await consumer.getone()).value == b"2"
        assert not any(task.done() for task in waiting)
        for number in range(2):
            await producer.send_and_wait("events", b"%d" % number, partition=1)
        assert [record.value for record in await asyncio.gather(*waiting)] == [b"0", b"1"]


async def test_a_loop_leaves_the_records_to_other_calls(cluster: EmbeddedCluster) -> None:
    await filled(cluster, 8)
    async with AIOKafkaConsumer(
        "events", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        found = []
        async with asyncio.timeout(30):
            async for record in consumer:
                found.append(record.offset)
                if record.offset == 0:
                    found.append((await consumer.getone()).offset)
                    (records,) = (await consumer.getmany(timeout_ms=20_000, max_records=2)).values()
                    found += [record.offset for record in records]
                    consumer.seek(FIRST, 6)
                    found.append((await asyncio.create_task(consumer.getone())).offset)
                if record.offset == 7:
                    break
        assert found == [0, 1, 2, 3, 6, 7]


@pytest.mark.parametrize("loop", [True, False])
@again_if_late(1_000, 8_000)
async def test_slow_handlers_of_single_records_make_progress(
    interval_ms: int, cluster: EmbeddedCluster, loop: bool
) -> None:
    """They keep the membership, and automatic commits follow them."""
    count = 31 + interval_ms // 120 + 4
    await filled(cluster, count)
    given = []

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            pass

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            given.append(assigned)

    consumer = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        max_poll_interval_ms=interval_ms,
        session_timeout_ms=2 * interval_ms,
        heartbeat_interval_ms=500,
        auto_commit_interval_ms=200,
    )
    consumer.subscribe(["events"], listener=Listener())
    async with consumer:
        records = aiter(consumer)
        for number in range(count):
            await (anext(records) if loop else consumer.getone())
            if number > 30:  # after quick ones, so that many are handed out at once
                await asyncio.sleep(0.12)  # the handler's work
        assert (await consumer.committed(FIRST) or 0) > 31
    assert given == [{FIRST, SECOND}]


async def test_a_record_that_cannot_be_deserialized_comes_again(cluster: EmbeddedCluster) -> None:
    await filled(cluster, 3)
    refused = b"1"

    def deserialize(value: bytes) -> int:
        if value == refused:
            raise ValueError("not this one")
        return int(value)

    async with AIOKafkaConsumer(
        "events",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=deserialize,
    ) as consumer:
        assert (await consumer.getone()).value == 0
        for _ in range(2):
            with pytest.raises(ValueError, match="not this one"):
                await consumer.getmany(timeout_ms=20_000)
            with pytest.raises(ValueError, match="not this one"):
                await consumer.getone()
        records = aiter(consumer)
        with pytest.raises(ValueError, match="not this one"):
            await anext(records)
        refused = b""
        assert [(await anext(records)).value for _ in range(2)] == [1, 2]


async def test_an_iterator_goes_on_after_a_time_limit_and_serves_several_tasks(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaConsumer("events", bootstrap_servers=cluster.bootstrap_servers) as consumer:
        records = aiter(consumer)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(records), 0.01)
        found: list[int] = []

        async def read() -> None:
            async for record in records:
                found.append(record.offset)

        tasks = [asyncio.create_task(read()) for _ in range(2)]
        await asyncio.sleep(0)
        await filled(cluster, 3)
        async with asyncio.timeout(20):
            while len(found) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    await asyncio.gather(*tasks)
    assert found == [0, 1, 2]
    with pytest.raises(StopAsyncIteration):
        await anext(records)


async def abort(producer: AIOKafkaProducer) -> None:
    async with producer.transaction():
        await producer.send_and_wait("events", b"aborted", partition=0)
        raise ZeroDivisionError


async def test_transactions(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="tx") as producer:
        with pytest.raises(IllegalOperation):
            await producer.send("events", b"v")
        async with producer.transaction():
            await producer.send("events", b"committed", partition=0)
            await producer.send_offsets_to_transaction({SECOND: 7}, "g")
        with pytest.raises(ZeroDivisionError):
            await abort(producer)
        with pytest.raises(IllegalOperation):
            await producer.send_offsets_to_transaction({SECOND: 9}, "g")
        await producer.begin_transaction()
        with pytest.raises(MessageSizeTooLargeError):
            await producer.send("events", bytes(2_000_000), partition=0)
        await producer.send("events", b"last", partition=0)
        await producer.commit_transaction()
    async with AIOKafkaConsumer(
        "events",
        bootstrap_servers=servers,
        group_id="g",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        assert [(await consumer.getone()).value for _ in range(2)] == [b"committed", b"last"]
        assert consumer.last_stable_offset(FIRST) == 6
        assert await consumer.committed(SECOND) == 7
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        with pytest.raises(IllegalOperation):
            await producer.begin_transaction()


async def cancelled(cluster: EmbeddedCluster, api: str, call: Coroutine[Any, Any, None]) -> None:
    """Cancel a call as soon as a broker has received this request."""
    task = asyncio.create_task(call)
    await cluster.requests.wait_for(api)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def committed_values(cluster: EmbeddedCluster, number: int) -> list[bytes | None]:
    async with AIOKafkaConsumer(
        "events",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        return [(await consumer.getone(FIRST)).value for _ in range(number)]


@pytest.mark.parametrize("before", ["begin", "stop"])
async def test_a_commit_continues_if_its_caller_is_cancelled(cluster: EmbeddedCluster, before: str) -> None:
    held = cluster.faults.add("Produce", hold=True, count=1)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "transactional_id": "tx"}
    async with asyncio.timeout(30), AIOKafkaProducer(**options) as producer:
        await producer.begin_transaction()
        await producer.send("events", b"1", partition=0)
        await cancelled(cluster, "Produce", producer.commit_transaction())
        next_call = asyncio.create_task(producer.begin_transaction() if before == "begin" else producer.stop())
        held.remove()
        await next_call
    assert await committed_values(cluster, 1) == [b"1"]


async def test_a_stop_that_is_cancelled_while_a_commit_continues_closes_all_connections(
    cluster: EmbeddedCluster,
) -> None:
    cluster.faults.add("Produce", hold=True, count=1)
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="tx")
    await producer.start()
    await producer.begin_transaction()
    await producer.send("events", b"1", partition=0)
    await cancelled(cluster, "Produce", producer.commit_transaction())
    stopping = asyncio.create_task(producer.stop())
    await asyncio.sleep(0)  # until the stop waits
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert not producer.client._native.running


async def test_the_error_of_a_commit_whose_caller_was_cancelled_is_raised_later(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("Produce", error_code=TopicAuthorizationFailedError, hold=True, count=1)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "transactional_id": "tx"}
    async with asyncio.timeout(30), AIOKafkaProducer(**options) as producer:
        await producer.begin_transaction()
        await producer.send("events", b"1", partition=0)
        await cancelled(cluster, "Produce", producer.commit_transaction())
        held.remove()
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.begin_transaction()
        async with producer.transaction():
            await producer.send("events", b"2", partition=0)
    assert await committed_values(cluster, 1) == [b"2"]


async def test_offsets_are_added_to_a_transaction_even_if_the_caller_is_cancelled(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("TxnOffsetCommit", hold=True, count=1)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "transactional_id": "tx"}
    async with asyncio.timeout(30), AIOKafkaProducer(**options) as producer:
        await producer.begin_transaction()
        await cancelled(cluster, "TxnOffsetCommit", producer.send_offsets_to_transaction({FIRST: 7}, "g"))
        held.remove()
        await producer.commit_transaction()
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
        assert await consumer.committed(FIRST) == 7


async def fail_while_fenced(options: dict[str, Any], producer: AIOKafkaProducer) -> None:
    async with producer.transaction():
        await producer.send_and_wait("events", b"1", partition=0)
        async with AIOKafkaProducer(**options):
            pass
        with pytest.raises(ProducerFenced):
            await producer.send_and_wait("events", b"2", partition=0)
        raise ZeroDivisionError


async def test_the_block_of_a_fenced_transaction_raises_its_own_error(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "transactional_id": "tx"}
    async with asyncio.timeout(30), AIOKafkaProducer(**options) as producer:
        with pytest.raises(ZeroDivisionError):
            await fail_while_fenced(options, producer)
        with pytest.raises(ProducerFenced):
            await producer.begin_transaction()


async def test_a_position_is_that_of_the_group_again_after_a_rebalance(cluster: EmbeddedCluster) -> None:
    """Uncommitted records are delivered again, and a call that began before the rebalance waits for its end."""
    cluster.create_topic("other", partitions=1)
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "g",
        "auto_offset_reset": "earliest",
    }
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"v", partition=0)
    async with AIOKafkaConsumer("events", enable_auto_commit=False, **options) as consumer:
        await consumer.getone()
        assert await consumer.position(FIRST) == 1
        held = cluster.faults.add("OffsetFetch", hold=True)
        consumer.subscribe(["events", "other"])
        await consumer._subscription.wait_for_assignment()
        asked = asyncio.create_task(consumer.position(FIRST))
        await asyncio.sleep(0)
        assert not asked.done()
        consumer.subscribe(["events"])
        held.remove()
        held.release()
        assert await asked == 0
        held = cluster.faults.add("OffsetFetch", hold=True)
        consumer.subscribe(["events", "other"])
        await consumer._subscription.wait_for_assignment()
        asked = asyncio.create_task(consumer.position(FIRST))
        await asyncio.sleep(0)
        consumer.unsubscribe()
        held.remove()
        held.release()
        with pytest.raises(IllegalStateError):
            await asked


async def test_what_send_gives_is_a_future_to_asyncio(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=30_000) as producer:
        future: Any = await producer.send("events", b"1", partition=0)
        assert asyncio.isfuture(future)
        assert "pending" in repr(future)
        with pytest.raises(asyncio.InvalidStateError, match="Exception is not set"):
            future.exception()
        waiting = asyncio.ensure_future(_result(future))
        await asyncio.sleep(0)
        assert future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting  # at once, before the record is acknowledged
        assert cluster.end_offset("events", 0) == 0
        given_up: Any = await producer.send("events", b"2", partition=0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(given_up, 0.0001)
        assert given_up.cancelled()
        shielded: Any = await producer.send("events", b"3", partition=0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(shielded), 0.0001)
        await producer.flush()
        assert (await shielded).offset == 2
        with pytest.raises(asyncio.CancelledError):
            await asyncio.gather(shielded, future)
    assert [record.value for record in cluster.records("events", 0)] == [b"1", b"2", b"3"]


async def test_a_future_that_was_awaited_leaves_nothing_to_the_garbage_collector(cluster: EmbeddedCluster) -> None:
    class Callback:
        def __call__(self, _: object) -> None:
            pass

    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=5) as producer:
        gc.disable()
        try:
            future: Any = await producer.send("events", b"v", partition=0)
            callback = Callback()
            seen = weakref.ref(callback)
            future.add_done_callback(callback)
            await future
            del future, callback
            await asyncio.sleep(0)
            assert seen() is None
        finally:
            gc.enable()


async def _result(future: Any) -> Any:
    return await future


async def test_what_a_callback_raises_goes_to_the_event_loop(cluster: EmbeddedCluster) -> None:
    told: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    error = ValueError("mine")

    def fail(_: object) -> None:
        raise error

    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=50) as producer:
        future: Any = await producer.send("events", b"v", partition=0)
        called: list[object] = []
        future.add_done_callback(fail)
        future.add_done_callback(called.append)
        await future
    assert told == [error]
    assert called == [future]


async def test_the_future_of_a_batch(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        assert await (await producer.send_batch(producer.create_batch(), "events", partition=0)) is None
        batch = producer.create_batch()
        taken = [batch.append(key=None, value=b"%d" % number, timestamp=number) for number in range(3)]
        assert [(one.offset, one.size, one.timestamp) for one in taken if one is not None] == [
            (0, 8, 0), (1, 8, 1), (2, 8, 2)
        ]  # fmt: skip
        tasks = asyncio.all_tasks()
        future: Any = await producer.send_batch(batch, "events", partition=0)
        assert asyncio.all_tasks() == tasks
        called: list[object] = []
        future.add_done_callback(called.append)
        future.add_done_callback(print)
        assert future.remove_done_callback(print) == 1
        assert not future.done()
        found = await future
        assert (found.topic, found.partition, found.offset) == ("events", 0, 0)
        assert future.done()
        assert called == [future]
        assert future.exception() is None
        assert (await future).offset == 0


async def test_a_custom_partitioner_gets_lists(cluster: EmbeddedCluster) -> None:
    asked: list[tuple[object, object, object]] = []

    def last(key: object, every: list[int], available: list[int]) -> int:
        asked.append((key, every, available))
        return every[-1]

    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, partitioner=last) as producer:
        found = await producer.send_and_wait("events", b"v", key=b"k")
    assert found is not None
    assert found.partition == 1
    assert asked == [(b"k", [0, 1], [0, 1])]


async def test_an_offset_that_is_out_of_range_is_in_the_error(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1", partition=0)
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign([FIRST])
        for read in (consumer.getone, lambda: consumer.getmany(timeout_ms=30_000)):
            consumer.seek(FIRST, 7)
            with pytest.raises(OffsetOutOfRangeError, match="offset 7 of events-0") as raised:
                await read()
            assert raised.value.args[0] == {FIRST: 7}
            await consumer.seek_to_beginning(*raised.value.args[0])
            record = await consumer.getone()
            assert (record.offset, type(record.timestamp_type)) == (0, int)


async def test_nothing_is_assigned_after_unsubscribe(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
        assert consumer.assignment() == {FIRST, SECOND}
        consumer.unsubscribe()
        assert consumer.assignment() == set()
