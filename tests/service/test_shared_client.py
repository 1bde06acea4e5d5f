"""Producers, consumers and admin clients that share connections and metadata: `Client`."""

from __future__ import annotations

import gc
import itertools
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trustme

from aiokafka_lead import (
    AdminClient,
    Client,
    Consumer,
    Producer,
    ShareConsumer,
    TopicPartition,
    TransactionPipeline,
)
from aiokafka_lead.errors import ClientClosedError, ConfigError, ConfigTypeError, NotStartedError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from ..ports import PortPool

pytestmark = pytest.mark.anyio


@pytest.fixture(name="cluster")
async def three_brokers() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(3) as cluster:
        cluster.create_topic("events", partitions=6, replication_factor=3)
        yield cluster


async def take(consumer: Consumer[Any, Any], count: int) -> list[bytes]:
    with anyio.fail_after(20):
        return sorted([(await consumer.getone()).value for _ in range(count)])


def values(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))


async def fill(producer: Producer[Any, Any], topic: str, count: int, **options: Any) -> None:
    with anyio.fail_after(20):
        for outcome in await (await producer.send_many(topic, [b"%d" % n for n in range(count)], **options)):
            assert not isinstance(outcome, BaseException), outcome


@pytest.mark.parametrize("groups", [False, True])
async def test_everything_works_on_one_set_of_connections(cluster: EmbeddedCluster, groups: bool) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        readers = [
            client.consumer("events", group_id=f"g{n}" if groups else None, auto_offset_reset="earliest")
            for n in range(4)
        ]
        async with AsyncExitStack() as stack:
            producer = await stack.enter_async_context(client.producer())
            admin = await stack.enter_async_context(client.admin())
            assert isinstance(producer, Producer)
            assert isinstance(admin, AdminClient)
            async with anyio.create_task_group() as starting:
                for reader in readers:
                    starting.start_soon(stack.enter_async_context, reader)
            await fill(producer, "events", 60)
            for reader in readers:
                assert await take(reader, 60) == values(60)
            await fill(producer, "events", 30)
            for reader in readers:
                assert await take(reader, 30) == values(30)
            assert set(await admin.list_topics()) == {"events"}


async def connections_and_metadata_requests(
    cluster: EmbeddedCluster, age_ms: float, *, shared: bool
) -> tuple[int, int]:
    """Have ten consumers read a producer's records, beside an admin client, while leaders move; then repeat it.

    Metadata requests are counted while every view of the cluster is refreshed twenty times.
    """
    servers = cluster.bootstrap_servers
    refreshing: Any = {"metadata_max_age_ms": age_ms}
    reading: Any = {"auto_offset_reset": "earliest", "group_id": "g"}
    async with AsyncExitStack() as stack:
        if shared:
            client = await stack.enter_async_context(Client(servers, **refreshing))
            producer, admin = client.producer(), client.admin()
            readers = [client.consumer(**reading) for _ in range(10)]
        else:
            producer, admin = Producer(servers, **refreshing), AdminClient(servers, **refreshing)
            readers = [Consumer(bootstrap_servers=servers, **reading, **refreshing) for _ in range(10)]
        for reader in readers:
            reader.assign([TopicPartition("events", number) for number in range(9)])
        clients: list[Any] = [producer, admin, *readers]
        async with anyio.create_task_group() as starting:
            for one in clients:
                starting.start_soon(stack.enter_async_context, one)
        for _ in range(3):
            cluster.move_all_leaders("events")
            await fill(producer, "events", 45)
            for reader in readers:
                assert await take(reader, 45) == values(45)
                await reader.commit()
            await admin.describe_cluster()
        for reader in readers:
            await reader.seek_to_beginning()
            assert len(await take(reader, 135)) == 135
        connections = sum(cluster.connection_count(broker) for broker in cluster.broker_ids)
        cluster.requests.clear()

        def refreshes() -> int:
            views = [producer.metrics().metadata, admin.metrics(), *(reader.metrics().metadata for reader in readers)]
            return min(view.refreshes for view in views)

        until = refreshes() + 20
        while refreshes() < until:
            await cluster.wait_for_requests("Metadata", count=cluster.requests.count("Metadata") + 1)
        return connections, cluster.requests.count("Metadata")


@again_if_late(50, 500)
async def test_a_shared_client_has_a_tenth_of_the_connections_and_metadata_requests(age_ms: int) -> None:
    found = []
    for shared in (False, True):
        async with EmbeddedCluster(9) as cluster:
            cluster.create_topic("events", partitions=9, replication_factor=3)
            found.append(await connections_and_metadata_requests(cluster, age_ms, shared=shared))
    (connections, requests), (shared_connections, shared_requests) = found
    assert shared_connections <= connections / 10
    assert shared_requests <= requests / 10


async def test_members_of_one_group_do_not_wait_for_each_others_rebalance(cluster: EmbeddedCluster) -> None:
    options: Any = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 50}
    async with Client(cluster.bootstrap_servers) as client:
        first, second = client.consumer("events", **options), client.consumer("events", **options)
        with anyio.fail_after(20):
            async with first, second:
                while not (first.assignment() and second.assignment()):
                    await second.getmany(timeout_ms=50)
                    await first.getmany()
                assert len(first.assignment() | second.assignment()) == 6


async def test_heartbeats_go_on_while_another_member_waits_for_its_group(cluster: EmbeddedCluster) -> None:
    options: Any = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 50}
    async with Client(cluster.bootstrap_servers) as client, client.consumer("events", **options):
        cluster.faults.add("JoinGroup", drop=True)
        waiting = client.consumer("events", **options)
        await waiting.start(wait=False)
        await cluster.wait_for_requests("JoinGroup", count=2)
        seen = cluster.requests.count("Heartbeat")
        await cluster.wait_for_requests("Heartbeat", count=seen + 3)
        await waiting.stop(1000)


async def test_consumers_at_different_places_of_a_partition_both_go_on(cluster: EmbeddedCluster) -> None:
    first = TopicPartition("events", 0)
    async with Client(cluster.bootstrap_servers) as client, client.producer() as producer:
        await fill(producer, "events", 2000, partition=0)
        options: Any = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 2000}
        ahead, behind = client.consumer(**options), client.consumer(**options)
        for reader in (ahead, behind):
            reader.assign([first])
        async with ahead, behind:
            assert len(await take(ahead, 2000)) == 2000  # its next fetch is held
            assert await take(behind, 2000) == values(2000)
            behind.seek(first, 0)
            assert await take(behind, 2000) == values(2000)
            await fill(producer, "events", 5, partition=0)
            assert await take(ahead, 5) == await take(behind, 5) == values(5)


async def test_one_client_s_end_leaves_the_others(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client, client.producer() as producer:
        stays = client.consumer("events", auto_offset_reset="earliest")
        goes = client.consumer("events", auto_offset_reset="earliest")
        async with stays:
            async with goes:
                await fill(producer, "events", 10)
                assert await take(goes, 10) == values(10)
            with pytest.raises(ClientClosedError):
                await goes.getone()
            other = client.producer()
            await other.start()
            await fill(other, "events", 10)
            await other.stop()
            with pytest.raises(ClientClosedError):
                await other.send("events", b"x")
            await fill(producer, "events", 10)
            assert len(await take(stays, 30)) == 30


@pytest.mark.both_loops
async def test_the_client_s_end_is_that_of_all(cluster: EmbeddedCluster) -> None:
    client = Client(cluster.bootstrap_servers)
    producer, admin = client.producer(linger_ms=60_000), client.admin()
    reader = client.consumer("events", group_id="g", auto_offset_reset="earliest")
    with pytest.raises(NotStartedError, match="Client"):
        await admin.start()
    admin = client.admin()
    await client.start()
    for one in (producer, reader, admin):
        await one.start()
    delivery = await producer.send("events", b"1", partition=0)

    async def read_on() -> None:
        async for _ in reader:
            pass

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_on)
            await client.stop()
    assert (await delivery).offset == 0  # pending records are sent first
    assert cluster.requests.count("LeaveGroup") == 1
    calls: list[Any] = [lambda: producer.send("events", b"2"), reader.getone, admin.list_topics, admin.start]
    for call in calls:
        with pytest.raises(ClientClosedError):
            await call()
    with pytest.raises(ClientClosedError):
        await client.producer().start()
    await client.stop()


async def test_options_of_the_connections_are_the_client_s(cluster: EmbeddedCluster) -> None:
    client = Client(cluster.bootstrap_servers, client_id="orders", request_timeout_ms=5000, close_timeout_ms=1000)
    client.producer(client_id="orders", request_timeout_ms=5000.0, close_timeout_ms=2000, linger_ms=1)
    makes: list[Any] = [client.producer, client.consumer, client.admin]
    for make in makes:
        with pytest.raises(ConfigError, match="retry_backoff_ms differs from the value of the shared Client"):
            make(retry_backoff_ms=7)
        assert make()._client.config.client_id == "orders"
        assert make(client_id="mine")._client.config.client_id == "mine"
        with pytest.raises(ConfigError, match="bootstrap_servers"):
            make(bootstrap_servers="elsewhere:9092")
        with pytest.raises(ConfigTypeError, match="request_timeout_ms"):
            make(request_timeout_ms="1")
        with pytest.raises(ConfigTypeError, match="linger_mss"):
            make(linger_mss=1)
    with pytest.raises(ConfigError, match="max_in_flight"):
        Client(cluster.bootstrap_servers, max_in_flight_requests_per_connection=6).producer(enable_idempotence=True)


async def test_constructors_take_a_client(cluster: EmbeddedCluster) -> None:
    async with (
        Client(cluster.bootstrap_servers, client_id="orders") as client,
        Producer(client=client) as producer,
        Consumer("events", client=client, auto_offset_reset="earliest") as consumer,
    ):
        await producer.send_and_wait("events", b"v")
        assert (await consumer.getone()).value == b"v"
        assert producer.client_id == "orders"
        assert repr(client) == "<Client client_id='orders' clients=2>"
        makes: list[Any] = [Producer, Consumer, ShareConsumer, TransactionPipeline]
        for make in makes:
            with pytest.raises(ConfigError, match="bootstrap_servers is an option of the shared Client"):
                make(client=client, bootstrap_servers="elsewhere:9092")
            with pytest.raises(ConfigTypeError, match="client must be a Client, not Producer"):
                make(client=producer)
            with pytest.raises(ConfigTypeError, match="bootstrap_servers"):
                make()


async def test_a_leader_that_one_learns_of_is_known_to_all(cluster: EmbeddedCluster) -> None:
    async with (
        Client(cluster.bootstrap_servers) as client,
        client.producer() as producer,
        client.consumer("events", auto_offset_reset="earliest") as one,
        client.consumer("events", auto_offset_reset="earliest") as other,
    ):
        for number in range(10):
            await fill(producer, "events", 12)
            assert len(await take(one, 12)) == len(await take(other, 12)) == 12
            if number < 8:
                cluster.move_all_leaders("events")
            elif number == 8:
                await cluster.kill_broker(cluster.leader("events", 0), failover_delay_ms=0)
        assert client.metrics() == one.metrics().metadata == producer.metrics().metadata
    assert cluster.protocol_errors == []


async def test_calls_end_when_their_client_does(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        cluster.faults.add("ListOffsets", drop=True)
        reader = client.consumer("events")
        await reader.start(wait=False)
        caught: list[BaseException] = []

        async def ask() -> None:
            try:
                await reader.end_offsets([TopicPartition("events", 0)])
            except ClientClosedError as error:
                caught.append(error)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                await cluster.wait_for_requests("ListOffsets")
                await reader.stop()
        assert len(caught) == 1


async def test_a_client_that_starts_while_kafka_is_down(ports: PortPool) -> None:
    port = ports.take()
    client = Client(f"127.0.0.1:{port}", reconnect_backoff_ms=10, reconnect_backoff_max_ms=50)
    await client.start(wait=False)
    producer, reader = client.producer(), client.consumer("events", auto_offset_reset="earliest")
    try:
        await reader.start(wait=False)
        async with EmbeddedCluster(1, ports=[port]) as cluster:
            cluster.create_topic("events")
            with anyio.fail_after(20):
                await producer.start()
                await reader.wait_ready()
            await fill(producer, "events", 3)
            assert await take(reader, 3) == values(3)
    finally:
        await client.stop(1000)


async def test_what_several_producers_send_while_a_broker_is_busy_leaves_in_one_request(
    cluster: EmbeddedCluster,
) -> None:
    cluster.create_topic("wide", assignments=[[1]] * 20)
    async with Client(cluster.bootstrap_servers) as client, AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(client.producer(linger_ms=0)) for _ in range(5)]
        for number, producer in enumerate(producers):
            await producer.send_and_wait("wide", b"first", partition=number)
        cluster.requests.clear()
        held = cluster.faults.add("Produce", hold=True)
        deliveries = []
        for number in range(20):
            deliveries.append(await producers[number % 5].send("wide", b"%d" % number, partition=number))
            await anyio.lowlevel.checkpoint()
        await cluster.requests.wait_for("Produce")
        held.remove()
        for delivery in deliveries:
            await delivery
        requests = cluster.requests.select("Produce")
        partitions = [len(record.request.topic_data[0].partition_data) for record in requests]
        assert sum(partitions) == 20
        assert len(partitions) <= 4
        assert [record.value for n in range(5, 20) for record in cluster.records("wide", n)] == values_in_order(5, 20)


@again_if_late(800, 8_000)
async def test_handlers_have_nearly_all_of_the_client_s_end(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    handled: list[int] = []
    at_work = anyio.Event()

    async def handle(record: Any) -> None:
        at_work.set()
        await anyio.sleep(timeout_ms * 0.45 / 1000)
        await producer.send("copies", record.value)
        handled.append(record.offset)

    client = Client(cluster.bootstrap_servers)
    producer = client.producer(linger_ms=60_000)
    consumer = client.consumer("events", group_id="g", auto_offset_reset="earliest")
    async with anyio.create_task_group() as tasks:
        with anyio.fail_after(30):
            for each in (client, producer, consumer):
                await each.start()
            await producer.send("events", b"1", partition=0)
            await producer.flush()
            tasks.start_soon(consumer.run, handle)
            await at_work.wait()
            await client.stop(timeout_ms)
    assert handled == [0]
    assert [record.value for record in cluster.records("copies")] == [b"1"]
    async with AdminClient(cluster.bootstrap_servers) as admin:
        committed = (await admin.list_consumer_group_offsets("g"))[TopicPartition("events", 0)]
        assert committed is not None
        assert committed.offset == 1


def values_in_order(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


async def test_one_partition_s_batches_of_several_producers_leave_one_after_the_other(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client, AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(client.producer(linger_ms=0)) for _ in range(4)]
        held = cluster.faults.add("Produce", hold=True)
        deliveries = [await producer.send("events", b"%d" % n, partition=0) for n in range(5) for producer in producers]
        await cluster.requests.wait_for("Produce")
        held.remove()
        with anyio.fail_after(20):
            for delivery in deliveries:
                await delivery
        written = [record.value or b"" for record in cluster.records("events", 0)]
        assert sorted(written) == sorted(b"%d" % n for n in range(5) for _ in producers)


@again_if_late(300, 2_000)
async def test_producers_of_one_partition_do_not_wait_for_each_other_at_a_slow_broker(
    delay_ms: int, cluster: EmbeddedCluster
) -> None:
    cluster.faults.clear()  # from the first attempt
    number = 6
    written_before = len(cluster.records("events", 0))
    async with Client(cluster.bootstrap_servers) as client, AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(client.producer(linger_ms=0)) for _ in range(number)]
        for producer in producers:
            await producer.send_and_wait("events", b"first", partition=0)
        before = cluster.requests.count("Produce")
        cluster.faults.add("Produce", delay_ms=delay_ms)

        async def send_on(producer: Producer[Any, Any], name: int) -> None:
            for count in range(5):
                await producer.send_and_wait("events", b"%d %d" % (name, count), partition=0)

        began = anyio.current_time()
        async with anyio.create_task_group() as sending:
            for name, producer in enumerate(producers):
                sending.start_soon(send_on, producer, name)
        took_s = anyio.current_time() - began
        assert cluster.requests.count("Produce") - before == 5 * number
        assert took_s < 5 * number * delay_ms / 1000 / 2  # the timeout of one connection
        records = cluster.records("events", 0)[written_before + number :]
        written = [bytes(record.value or b"") for record in records]
        for name in range(number):
            own = [value for value in written if value.startswith(b"%d " % name)]
            assert own == [b"%d %d" % (name, count) for count in range(5)]


async def test_producers_of_one_partition_take_turns(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client, AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(client.producer(linger_ms=0)) for _ in range(4)]
        for producer in producers:
            await producer.send_and_wait("events", b"first", partition=0)
        cluster.faults.add("Produce", delay_ms=5)
        running = True

        async def send_on(producer: Producer[Any, Any], name: int) -> None:
            while running:
                await producer.send_and_wait("events", b"%d" % name, partition=0)

        async with anyio.create_task_group() as sending:
            for name, producer in enumerate(producers):
                sending.start_soon(send_on, producer, name)
            await cluster.requests.wait_for("Produce", count=80)
            running = False
        written = [bytes(record.value or b"") for record in cluster.records("events", 0)][4:-4]
        for name in range(4):
            places = [-1, *(at for at, value in enumerate(written) if value == b"%d" % name), len(written)]
            assert max(after - at for at, after in itertools.pairwise(places)) <= 12, written


async def test_a_client_that_has_stopped_leaves_nothing_in_the_shared_one(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client:

        async def produce() -> None:
            async with client.producer() as producer:
                await producer.send_and_wait("events", b"x")

        async def commit() -> None:
            async with client.producer(transactional_id="t") as producer, producer.transaction() as transaction:
                await transaction.send("events", b"x")

        async def consume() -> None:
            async with client.consumer("events", group_id="g", auto_offset_reset="earliest") as consumer:
                await consumer.getone()

        async def share() -> None:
            async with client.share_consumer("events", group_id="s") as consumer:
                await consumer.getmany(timeout_ms=1)

        async def ask() -> None:
            async with client.admin() as admin:
                await admin.list_topics()

        for live in (produce, commit, consume, share, ask):
            for _ in range(3):
                await live()
            before = ours()
            for _ in range(20):
                await live()
            kept = {name: count for name, count in (ours() - before).items() if count >= 10}
            assert not kept, live.__name__


def ours() -> Counter[str]:
    """Return the objects of a client, without those that belong to the embedded cluster."""
    gc.collect()
    names = (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
    return Counter(name for name in names if name.startswith(("aiokafka_lead._io", "aiokafka_lead._core")))


async def test_what_waits_for_a_busy_broker_is_sent_elsewhere_when_that_goes(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client, AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(client.producer(linger_ms=0)) for _ in range(4)]
        for producer in producers:
            await producer.send_and_wait("events", b"first", partition=0)
        leader = cluster.leader("events", 0)
        held = cluster.faults.add("Produce", hold=True, broker=leader)
        deliveries = [await producer.send("events", b"%d" % n, partition=0) for n in range(5) for producer in producers]
        await cluster.requests.wait_for("Produce")
        await cluster.stop_broker(leader)
        held.remove()
        with anyio.fail_after(20):
            for delivery in deliveries:
                await delivery
        written = [record.value or b"" for record in cluster.records("events", 0)]
        assert sorted(written) == sorted([b"first"] * 4 + [b"%d" % n for n in range(5) for _ in producers])


async def test_records_read_one_by_one_do_not_make_a_consumer_back_off(cluster: EmbeddedCluster) -> None:
    async with (
        Client(cluster.bootstrap_servers, retry_backoff_ms=90_000, retry_backoff_max_ms=90_000) as client,
        client.producer() as producer,
        client.consumer("events", auto_offset_reset="earliest") as consumer,
    ):
        with anyio.fail_after(60):
            for number in range(30):
                await producer.send_and_wait("events", b"%d" % number, partition=number % 6)
                assert (await consumer.getone()).value == b"%d" % number


async def test_pipelines_on_shared_connections_do_not_wait_for_each_others_ends(cluster: EmbeddedCluster) -> None:
    options: Any = {"linger_ms": 0, "in_flight": 3}
    async with Client(cluster.bootstrap_servers) as client, client.producer() as plain:
        one, other = (client.transaction_pipeline(transactional_id=f"p-{n}", **options) for n in range(2))
        async with one, other:
            held = cluster.faults.add("EndTxn", hold=True, count=1)
            with anyio.fail_after(20):
                async with one.transaction() as waits:
                    await waits.send("events", b"one", partition=0)
                await cluster.requests.wait_for("EndTxn")
                async with other.transaction() as txn:
                    await txn.send("events", b"other", partition=1)
                await other.settle()
                await plain.send_and_wait("events", b"plain", partition=2)
                assert (waits.outcome, txn.outcome) == (None, "committed")
                held.remove()
                await one.settle()
            assert waits.outcome == "committed"
        with pytest.raises(ClientClosedError):
            one.transaction()
        await plain.send_and_wait("events", b"plain", partition=2)  # it continues without them


async def test_the_client_s_end_commits_what_pipelines_have_in_flight(cluster: EmbeddedCluster) -> None:
    client = Client(cluster.bootstrap_servers)
    await client.start()
    pipeline = client.transaction_pipeline(transactional_id="p", client_id="copier", linger_ms=0)
    await pipeline.start()
    assert pipeline.client_id == "copier"
    held = cluster.faults.add("EndTxn", hold=True, count=1)
    with anyio.fail_after(20):
        async with pipeline.transaction() as txn:
            await txn.send("events", b"1", partition=0)
        await cluster.requests.wait_for("EndTxn")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.stop)
            await anyio.lowlevel.checkpoint()
            held.remove()
    assert txn.outcome == "committed"
    with pytest.raises(ClientClosedError):
        await pipeline.settle()
    with pytest.raises(ConfigError, match="retry_backoff_ms differs from the value of the shared Client"):
        client.transaction_pipeline(transactional_id="p", retry_backoff_ms=7)


async def test_a_run_copies_with_a_pipeline_on_the_consumer_s_own_connections(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("copies", partitions=1)
    async with Client(cluster.bootstrap_servers) as client, client.producer() as producer:
        await fill(producer, "events", 300)
        pipeline = client.transaction_pipeline(transactional_id="copier", in_flight=3)
        source = client.consumer("events", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
        copies = client.consumer("copies", auto_offset_reset="earliest", isolation_level="read_committed")

        async def copy(record: Any, txn: Any) -> None:
            await txn.send("copies", record.value)

        async with pipeline, source, copies, anyio.create_task_group() as tasks:
            tasks.start_soon(partial(source.run, copy, exactly_once=pipeline, max_transaction_records=20))
            assert await take(copies, 300) == values(300)
            await source.stop()


async def test_a_client_may_be_created_while_certificates_are_replaced(tmp_path: Path) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    own = tmp_path / "own.pem"
    own.write_bytes(authority.issue_cert("alice@example.org").private_key_and_cert_chain_pem.bytes())
    files: dict[str, Any] = {"ssl_cafile": tmp_path / "ca.pem", "ssl_certfile": own}
    async with EmbeddedCluster(brokers=1, ssl_context=server) as cluster:
        cluster.create_topic("events")
        async with Client(cluster.bootstrap_servers, security_protocol="SSL", **files) as client:
            own.write_bytes(b"half of a")
            async with (
                client.producer() as producer,
                client.consumer("events", auto_offset_reset="earliest") as consumer,
            ):
                await producer.send_and_wait("events", b"v")
                assert (await consumer.getone()).value == b"v"
        with pytest.raises(ConfigError, match="ssl_certfile"):
            Producer(cluster.bootstrap_servers, security_protocol="SSL", **files)
