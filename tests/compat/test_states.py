"""Calls before the start, after the stop and outside of the loop, and options in aiokafka's forms."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lead.compat import (
    AIOKafkaClient,
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka_lead.compat.admin import AIOKafkaAdminClient
from aiokafka_lead.compat.errors import (
    ConsumerStoppedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    NoOffsetForPartitionError,
    ProducerClosed,
    UnknownTopicOrPartitionError,
)
from aiokafka_lead.compat.util import parse_kafka_version
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from ..patience import again_if_late
from ..ports import PortPool

pytestmark = pytest.mark.anyio

FIRST, SECOND = TopicPartition("events", 0), TopicPartition("events", 1)


# --- outside of the event loop ---------------------------------------------------------------------------------------


@pytest.fixture
def servers() -> Iterator[str]:
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.create_topic("events", 2)
        yield cluster.bootstrap_servers


async def started(servers: str) -> AIOKafkaProducer:
    producer = AIOKafkaProducer(bootstrap_servers=servers)
    await producer.start()
    return producer


async def batch_of_one(producer: AIOKafkaProducer) -> Any:
    batch = producer.create_batch()
    batch.append(timestamp=None, key=None, value=b"1")
    return await producer.send_batch(batch, "events", partition=0)


def test_a_future_is_its_loops_also_while_that_does_not_run(servers: str) -> None:
    loop = asyncio.new_event_loop()
    try:
        producer = loop.run_until_complete(started(servers))
        for sent in (producer.send("events", b"1", partition=0), batch_of_one(producer)):
            future: Any = loop.run_until_complete(sent)
            assert future.get_loop() is loop
            called: list[object] = []
            future.add_done_callback(called.append)
            assert loop.run_until_complete(future).partition == 0
            assert loop.run_until_complete(asyncio.gather(future))[0].topic == "events"
            assert called == [future]
        waiting: Any = loop.run_until_complete(producer.send("events", b"1", partition=0))
        assert waiting.cancel() is not waiting.done() or waiting.cancelled()
        loop.run_until_complete(producer.stop())
    finally:
        loop.close()


def test_a_future_in_another_thread_than_its_loops(servers: str) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def do(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(20)

    async def wait_for(future: Any) -> Any:
        return await future

    try:
        producer = do(started(servers))
        future = do(producer.send("events", b"1", partition=0))
        assert do(wait_for(future)).offset == 0
        assert future.get_loop() is loop
        assert asyncio.gather(future).get_loop() is loop
        called = threading.Event()
        loop.call_soon_threadsafe(future.add_done_callback, lambda _: called.set())
        assert called.wait(20)
        do(producer.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# --- before the start, after the stop --------------------------------------------------------------------------------


async def test_flush_of_a_producer_that_does_not_run_hides_nothing(cluster: EmbeddedCluster) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    await producer.flush()
    await producer.start()
    await producer.stop()
    await producer.flush()
    with pytest.raises(KafkaConnectionError):
        await start_and_clean_up(AIOKafkaProducer(bootstrap_servers="127.0.0.1:1"))


async def start_and_clean_up(producer: AIOKafkaProducer) -> None:
    try:
        await producer.start()
    finally:
        await producer.flush()
        await producer.stop()


async def test_a_start_may_be_tried_again_after_it_has_failed() -> None:
    with PortPool() as ports:
        port = ports.take()
        at: dict[str, Any] = {"bootstrap_servers": f"127.0.0.1:{port}"}
        by_pattern, assigned = AIOKafkaConsumer(**at), AIOKafkaConsumer(**at, auto_offset_reset="earliest")
        by_pattern.subscribe(pattern="ev")
        assigned.assign([FIRST, SECOND])
        assigned.pause(SECOND)
        producer, client, admin = AIOKafkaProducer(**at), AIOKafkaClient(**at), AIOKafkaAdminClient(**at)
        members = AIOKafkaConsumer("events", **at, group_id="g"), by_pattern, assigned
        starts = [producer.start, client.bootstrap, admin.start, *(one.start for one in members)]
        for start in starts * 2:
            with pytest.raises(KafkaConnectionError):
                await start()
        async with EmbeddedCluster(1, ports=[port]) as cluster, asyncio.timeout(30):
            cluster.create_topic("events", 2)
            for start in starts:
                await start()
            await producer.start()  # it runs already
            await producer.send_and_wait("events", b"1", partition=0)
            assert (await assigned.getone()).value == b"1"
            assert assigned.paused() == {SECOND}
            assert [one.assignment() for one in members] == [{FIRST, SECOND}] * 3
            assert await admin.list_topics() == ["events"]
            for stop in (producer.stop, client.close, admin.close, *(one.stop for one in members)):
                await stop()


@pytest.mark.parametrize("group_id", [None, "g"])
@again_if_late(100, 3_000)
async def test_a_start_may_be_tried_again_until_the_topic_exists(timeout_ms: int, group_id: str | None) -> None:
    async with EmbeddedCluster(1, auto_create_topics=False) as cluster, asyncio.timeout(30):
        reader = AIOKafkaConsumer(
            "events", bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, request_timeout_ms=timeout_ms
        )
        try:
            for _ in range(2):
                with pytest.raises(UnknownTopicOrPartitionError):
                    await reader.start()
            cluster.create_topic("events", 2)
            while True:
                with suppress(UnknownTopicOrPartitionError):  # not looked up since
                    await reader.start()
                    break
            # The first assignment may precede the topic's metadata.
            while reader.assignment() != {FIRST, SECOND}:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            with pytest.raises(AssertionError):
                await reader.start()
        finally:
            await reader.stop()


async def test_a_start_may_be_tried_again_after_a_stop() -> None:
    """Loops that wait for Kafka often stop a client after each start that fails."""
    with PortPool() as ports:
        port = ports.take()
        at: dict[str, Any] = {"bootstrap_servers": f"127.0.0.1:{port}"}
        producer, client, admin = AIOKafkaProducer(**at), AIOKafkaClient(**at), AIOKafkaAdminClient(**at)
        reader = AIOKafkaConsumer("events", **at, auto_offset_reset="earliest")
        lives = [
            (producer.start, producer.stop),
            (client.bootstrap, client.close),
            (admin.start, admin.close),
            (reader.start, reader.stop),
        ]
        for start, stop in lives * 2:
            with pytest.raises(KafkaConnectionError):
                await start()
            await stop()
        async with EmbeddedCluster(1, ports=[port]) as cluster, asyncio.timeout(30):
            cluster.create_topic("events", 2)
            for start, _ in lives:
                await start()
            await producer.send_and_wait("events", b"1", partition=0)
            assert (await reader.getone()).value == b"1"
            assert await client.force_metadata_update()
            assert await admin.list_topics() == ["events"]
            for _, stop in lives:
                await stop()
            assert not any(one._native._client.running for one in (producer, reader, admin))
            with pytest.raises(ProducerClosed):
                await producer.start()
            with pytest.raises(AssertionError):
                await reader.start()
            async with admin:  # these two may be used again
                assert await admin.list_topics() == ["events"]
            await client.bootstrap()
            assert await client.force_metadata_update()
            await client.close()


async def test_starts_at_the_same_time_are_one(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    producer, client = AIOKafkaProducer(bootstrap_servers=servers), AIOKafkaClient(bootstrap_servers=servers)
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    for start in (producer.start, client.bootstrap, admin.start):
        await asyncio.gather(start(), start())
        await start()
    await producer.send_and_wait("events", b"1", partition=0)
    assert await client.force_metadata_update()
    assert await admin.list_topics() == ["events"]
    for stop in (producer.stop, client.close, admin.close):
        await stop()


async def test_choices_of_partitions_exclude_each_other(cluster: EmbeddedCluster) -> None:
    reader = consumer(cluster, "events", group_id="g")
    with pytest.raises(ValueError, match="not a valid pattern"):
        reader.subscribe(pattern="^(ev(")
    with pytest.raises(IllegalStateError, match="mutually exclusive"):
        reader.subscribe(pattern="ev")
    async with reader:
        reader.unsubscribe()
        reader.assign([SECOND])
        assert reader.assignment() == {SECOND}  # although it has not left its group yet
        assert reader.highwater(SECOND) is None
        with pytest.raises(IllegalStateError, match="mutually exclusive"):
            reader.subscribe(["events"])


async def test_a_subclass_may_answer_for_itself(cluster: EmbeddedCluster) -> None:
    """Kstreams' test client overrides a real consumer in this way."""

    class Fake(AIOKafkaConsumer):
        def assignment(self) -> set[TopicPartition]:
            return {TopicPartition("invented", 0)}

    async with Fake("events", bootstrap_servers=cluster.bootstrap_servers) as reader:
        assert await reader.seek_to_end()
    assert reader.assignment() == {TopicPartition("invented", 0)}


async def test_a_partition_without_a_position_is_in_the_error(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    async with AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="none") as reader:
        reader.assign([SECOND])
        for read in (reader.getone, lambda: reader.getmany(timeout_ms=30_000)):
            with pytest.raises(NoOffsetForPartitionError, match="events-1 has no position") as raised:
                await read()
            assert raised.value.args == (SECOND,)


async def fill(cluster: EmbeddedCluster, count: int = 3) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            await producer.send_and_wait("events", b"%d" % number, partition=0)


def consumer(cluster: EmbeddedCluster, *topics: str, group_id: str | None) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics, bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, auto_offset_reset="earliest"
    )


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_a_stopped_consumer_says_where_it_was(cluster: EmbeddedCluster, group_id: str | None) -> None:
    await fill(cluster)
    async with consumer(cluster, "events", group_id=group_id) as reader:
        assert (await reader.getone()).offset == 0
        assert reader.highwater(FIRST) == 3
        assignment = reader.assignment()
    assert reader.assignment() == assignment
    assert reader.subscription() == {"events"}
    async with asyncio.timeout(30):
        assert await reader.position(FIRST) == 1
    assert reader.highwater(FIRST) == 3
    reader.pause(FIRST)
    reader.resume(FIRST)
    reader.seek(FIRST, 2)
    assert await reader.position(FIRST) == 2
    for read in (reader.getone, reader.getmany):
        with pytest.raises(ConsumerStoppedError):
            await read()
    reader.unsubscribe()
    assert reader.assignment() == set()
    await reader.stop()


async def test_reads_of_a_consumer_that_could_not_start_raise(cluster: EmbeddedCluster) -> None:
    reader = AIOKafkaConsumer("events", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(KafkaConnectionError):
        await reader.start()
    async with asyncio.timeout(30):
        for read in (reader.getone, reader.getmany):
            with pytest.raises(KafkaError):
                await read()
    await reader.stop()


# --- no records yet --------------------------------------------------------------------------------------------------


async def one(reader: AIOKafkaConsumer) -> Any:
    return (await reader.getone()).value


async def many(reader: AIOKafkaConsumer) -> Any:
    while not (found := await reader.getmany(timeout_ms=1000)):
        pass
    return found[FIRST][0].value


async def each(reader: AIOKafkaConsumer) -> Any:
    async for record in reader:
        return record.value
    return None


@pytest.mark.parametrize("read", [one, many, each])
@pytest.mark.parametrize("group_id", [None, "g"])
async def test_reads_wait_for_a_subscription(
    cluster: EmbeddedCluster, read: Callable[[AIOKafkaConsumer], Awaitable[Any]], group_id: str | None
) -> None:
    await fill(cluster)
    async with asyncio.timeout(30), consumer(cluster, group_id=group_id) as reader:
        first = asyncio.ensure_future(read(reader))
        await asyncio.sleep(0)
        assert not first.done()
        reader.subscribe(["events"])
        assert await first == b"0"
        reader.unsubscribe()
        await fill(cluster, 1)
        again = asyncio.ensure_future(read(reader))
        await asyncio.sleep(0)
        assert not again.done()
        reader.assign([FIRST]) if group_id is None else reader.subscribe(["events"])
        assert await again is not None


async def test_a_read_outlives_an_unsubscribe_and_ends_with_the_consumer(cluster: EmbeddedCluster) -> None:
    async with asyncio.timeout(30):
        async with consumer(cluster, "events", group_id=None) as reader:
            reading = asyncio.ensure_future(reader.getone())
            await asyncio.sleep(0.01)
            reader.unsubscribe()
            await asyncio.sleep(0.01)
            assert not reading.done()
            reader.subscribe(["events"])
            await fill(cluster, 1)
            assert (await reading).value == b"0"
            reader.unsubscribe()
            left = [asyncio.ensure_future(read()) for read in (reader.getone, reader.getmany)]
            await asyncio.sleep(0.01)
        for task in left:
            with pytest.raises(ConsumerStoppedError):
                await task


@pytest.mark.parametrize("group_id", [None, "g"])
@again_if_late(100, 3_000)
async def test_reads_wait_for_a_topic_that_does_not_exist(timeout_ms: int, group_id: str | None) -> None:
    async with EmbeddedCluster(1, auto_create_topics=False) as cluster, asyncio.timeout(30):
        cluster.create_topic("events", 2)
        async with AIOKafkaConsumer(
            "events",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group_id,
            request_timeout_ms=timeout_ms,
            metadata_max_age_ms=50,
            auto_offset_reset="earliest",
        ) as reader:
            reader.subscribe(["late"])
            assert await reader.getmany(timeout_ms=300) == {}
            reading = asyncio.ensure_future(reader.getone())
            assert not (await asyncio.wait([reading], timeout=0.3))[0]
            cluster.create_topic("late")
            async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send_and_wait("late", b"1")
            assert (await reading).value == b"1"
            if group_id is None:
                reader.unsubscribe()
                reader.assign([TopicPartition("none", 0)])
                assert not await reader.seek_to_end()


# --- options and arguments in aiokafka's forms -----------------------------------------------------------------------


async def test_times_may_be_any_number(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for given, kept in ((1.9, 1), (True, 1), (1_700_000_000_000.5, 1_700_000_000_000)):
            sent = await producer.send_and_wait("events", b"v", partition=0, timestamp_ms=given)
            assert sent is not None
            assert sent.timestamp == kept
            batch = producer.create_batch()
            taken = batch.append(timestamp=given, key=None, value=b"v")
            assert taken is not None
            assert taken.timestamp == kept
        with pytest.raises(TypeError):
            await producer.send("events", b"v", timestamp_ms="5")  # type: ignore[arg-type]


async def test_headers_may_be_any_pairs(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"v", headers={"a": b"1"}.items())  # type: ignore[arg-type]
    assert cluster.records("events")[0].headers == (("a", b"1"),)


PRODUCERS: list[dict[str, Any]] = [
    {"linger_ms": -1},
    {"max_batch_size": 1e6, "max_request_size": 2.0**31},
    {"request_timeout_ms": 0, "metadata_max_age_ms": 0},
    {"connections_max_idle_ms": 0, "retry_backoff_ms": True},
    {"enable_idempotence": 1},
    {"client_id": ""},
    {"client_id": 5, "transactional_id": UUID(int=1)},
    {"acks": True},
]
CONSUMERS: list[dict[str, Any]] = [
    {"fetch_max_wait_ms": 50_000, "request_timeout_ms": 1_000},
    {"group_id": "g", "session_timeout_ms": 1_000},
    {"group_id": "g", "heartbeat_interval_ms": 0, "max_poll_interval_ms": 1e13},
    {"enable_auto_commit": None, "check_crcs": 0, "exclude_internal_topics": 1},
    {"group_instance_id": "i", "partition_assignment_strategy": ()},
    {"group_id": "g", "group_instance_id": "", "client_rack": ""},
    {"client_id": 5, "group_id": UUID(int=1), "group_instance_id": 6, "client_rack": 7},
    {"fetch_max_bytes": 5e7, "fetch_min_bytes": -1, "max_partition_fetch_bytes": 10**12},
    {"auto_offset_reset": "smallest", "max_poll_records": 10**12},
    {"auto_offset_reset": "EARLIEST"},
]


@pytest.mark.parametrize("options", PRODUCERS)
async def test_options_of_a_producer(cluster: EmbeddedCluster, options: dict[str, Any]) -> None:
    AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options)._closed = True


@pytest.mark.parametrize("options", CONSUMERS)
async def test_options_of_a_consumer(cluster: EmbeddedCluster, options: dict[str, Any]) -> None:
    async with AIOKafkaConsumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as reader:
        assert reader.subscription() == {"events"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_options_of_other_mechanisms_are_ignored(mechanism: str) -> None:
    options: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "ann",
        "sasl_plain_password": "secret",
        "sasl_kerberos_domain_name": "kafka.example.org",
        "sasl_oauth_token_provider": object(),
    }
    async with EmbeddedCluster(1, sasl_users={"ann": "secret"}) as cluster:
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
            await producer.send_and_wait("events", b"1")
        assert [record.value for record in cluster.records("events")] == [b"1"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_timeout_ms", "10000"),
        ("heartbeat_interval_ms", "3"),
        ("request_timeout_ms", None),
        ("fetch_max_wait_ms", None),
        ("auto_offset_reset", None),
        ("linger_ms", "5"),
    ],
)
async def test_an_option_of_a_wrong_type_is_named(name: str, value: object) -> None:
    kind: Any = AIOKafkaProducer if name == "linger_ms" else AIOKafkaConsumer
    with pytest.raises(TypeError, match=f"{name} must be"):
        kind(**{name: value})


# --- names that libraries use ----------------------------------------------------------------------------------------


def test_versions_of_kafka() -> None:
    assert parse_kafka_version("2.3.1") == (2, 3, 1)
    assert parse_kafka_version("0.10") == (0, 10, 0)
    for wrong in ("3.0", "0.8.2", "2", "x.1", "1.2.3.4"):
        with pytest.raises(ValueError, match=wrong):
            parse_kafka_version(wrong)


async def test_the_listener_of_a_subscription(cluster: EmbeddedCluster) -> None:
    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            pass

        def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            pass

    reader, listener = consumer(cluster, group_id="g"), Listener()
    reader.subscribe(["events"], listener=listener)
    assert reader._subscription._listener is listener
    await reader.stop()


def sending(producer: AIOKafkaProducer) -> bool:
    """Return True if a health check takes the producer for running."""
    task = producer._sender.sender_task
    assert task is producer._sender._sender_task
    return task is not None and not task.done()


async def test_the_task_that_sends(cluster: EmbeddedCluster) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    assert not sending(producer)
    await producer.start()
    assert sending(producer)
    await producer.stop()
    assert not sending(producer)
    failed = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    await failed.start()
    failed._native._client.fail(KafkaError("fatal"))
    assert not sending(failed)
    await failed.stop()


async def test_the_coordinator_of_a_member(cluster: EmbeddedCluster) -> None:
    async with AIOKafkaConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as reader:
        assert reader._coordinator is not None
        assert reader._coordinator.coordinator_id == 1
        assert await reader._client.ready(1)


async def test_metadata_of_all_topics_while_there_are_none(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("other")
    async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as reader:
        assert reader.partitions_for_topic("events") is None
        assert await reader._client.force_metadata_update()
        assert reader.partitions_for_topic("events") == {0, 1}
        assert reader._client.cluster.topics() == {"events", "other"}
    client = AIOKafkaClient(bootstrap_servers=cluster.bootstrap_servers)
    await client.bootstrap()
    every = await client.fetch_all_metadata()
    assert every.topics() == {"events", "other"}
    assert every.partitions_for_topic("events") == every.available_partitions_for_topic("events") == {0, 1}
    assert every.leader_for_partition(SECOND) == 1
    assert every.leader_for_partition(TopicPartition("events", 2)) is None
    assert every.partitions_for_broker(1) == {FIRST, SECOND, TopicPartition("other", 0)}
    assert every.partitions_for_broker(7) is None
    assert client.cluster.topics() == set()
    assert await client.force_metadata_update()
    assert client.cluster.topics() == {"events", "other"}
    assert await client.add_topic("events")
    assert client.cluster.topics() == {"events"}
    assert await client.set_topics(["other"])
    assert client.cluster.topics() == {"other"}
    await client.close()


async def test_options_are_attributes_with_an_underscore(cluster: EmbeddedCluster) -> None:
    context = ssl.create_default_context()
    reader = AIOKafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        fetch_max_wait_ms=10,
        auto_offset_reset="earliest",
        security_protocol="SSL",
        ssl_context=context,
    )
    assert (reader._fetch_max_wait_ms, reader._auto_offset_reset, reader._enable_auto_commit) == (10, "earliest", True)
    assert reader._client._ssl_context is context
    writer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, ssl_context=context)
    assert writer.client._ssl_context is context
    await writer.stop()
    with pytest.raises(AttributeError, match="_sasl_plain_password"):
        _ = reader._sasl_plain_password
    await reader.stop()


async def test_private_names_that_are_not_there_say_so(cluster: EmbeddedCluster) -> None:
    reader = consumer(cluster, group_id=None)
    assert not hasattr(reader, "_fetcher")
    with pytest.raises(AttributeError, match=r"has no attribute '_fetcher'.*guide"):
        _ = reader._fetcher
    with pytest.raises(AttributeError, match=r"has no attribute 'fetch_it'$"):
        _ = reader.fetch_it
    await reader.stop()
