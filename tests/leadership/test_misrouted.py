"""Addresses that lead to another broker or cluster (KIP-1242) are detected on connect, before any other request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any

import anyio
import pytest

from aiokafka_lead import Client, Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.admin import AdminClient, NewTopic, OffsetSpec
from aiokafka_lead.errors import ClusterIdMismatchError, KafkaError
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

from ..names import STRANGE, needs_loopbacks, resolving
from ..share.support import configure
from .support import all_of, consumer_of, next_number, producer_of, until, values

pytestmark = pytest.mark.anyio

SHARED = pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
PARTITIONS = range(3)


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(brokers=3, cluster_id="ours") as cluster:
        cluster.create_topic("t", assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        yield cluster


@pytest.fixture
async def stranger() -> AsyncIterator[EmbeddedCluster]:
    """A cluster that has the topic, too."""
    async with EmbeddedCluster(brokers=3, cluster_id="theirs") as stranger:
        stranger.create_topic("t", assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        yield stranger


def make_older(*clusters: EmbeddedCluster) -> None:
    """Make brokers as before Kafka 4.4, which cannot refuse: the client asks them for their cluster."""
    for each in clusters:
        each.max_versions["ApiVersions"] = 4


BOOTSTRAP = {"ApiVersions", "Metadata"}
"""Requests that a wrong server may get: a bootstrap server is unknown until it has answered Metadata."""


def refused(cluster: EmbeddedCluster) -> int:
    """Return the number of misrouted connections that the cluster's brokers refused, or that asked for the cluster."""
    asked = [record for record in cluster.requests.select("Metadata") if record.request.topics == []]
    return len(asked) + sum(
        record.request.node_id not in (-1, record.broker) or record.request.cluster_id not in (None, cluster.cluster_id)
        for record in cluster.requests.select("ApiVersions")
    )


@SHARED
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("place", ["another broker", "another cluster", "another older cluster"])
async def test_rule_35_records_wait_until_the_address_is_right_again(
    cluster: EmbeddedCluster, stranger: EmbeddedCluster, shared: bool, transactional: bool, place: str
) -> None:
    options: dict[str, Any] = {"transactional_id": "x"} if transactional else {}
    there = cluster if place == "another broker" else stranger
    if place == "another older cluster":
        make_older(cluster, stranger)
    async with producer_of(cluster, shared=shared, **options) as producer:
        if transactional:
            await producer.begin_transaction()
        for partition in PARTITIONS:
            await producer.send_and_wait("t", b"0", partition=partition)
        cluster.lead_astray(1, 2, there)
        deliveries = [await producer.send("t", b"1", partition=partition) for partition in PARTITIONS]
        await until(lambda: refused(there) >= 3)
        assert await all_of(deliveries[1:]) == [1, 1]
        assert not deliveries[0].done()
        await until(lambda: producer.metrics().metadata.rebootstraps_required >= 1)
        cluster.lead_astray(1, 1)
        with anyio.fail_after(10):
            assert await deliveries[0] is not None
            if transactional:
                await producer.commit_transaction()
    assert [values(cluster, "t", partition) for partition in PARTITIONS] == [[0, 1]] * 3
    assert {record.api for record in stranger.requests.select()} <= BOOTSTRAP


@SHARED
@pytest.mark.parametrize("protocol", [None, "classic", "consumer"])
@pytest.mark.parametrize("older", [False, True], ids=["4.4", "older"])
async def test_rule_35_reading_goes_on_when_the_address_is_right_again(
    cluster: EmbeddedCluster, stranger: EmbeddedCluster, shared: bool, protocol: str | None, older: bool
) -> None:
    if older:
        make_older(cluster, stranger)
    group: dict[str, Any] = {} if protocol is None else {"group_id": "g", "group_protocol": protocol}
    async with (
        Producer(cluster.bootstrap_servers) as producer,
        consumer_of(cluster, "t", shared=shared, auto_offset_reset="earliest", **group) as consumer,
    ):
        await producer.send_and_wait("t", b"0", partition=0)
        assert await next_number(consumer) == 0
        await producer.send_and_wait("t", b"1", partition=0)
        cluster.lead_astray(1, 3, stranger)
        await until(lambda: refused(stranger) >= 2)
        cluster.lead_astray(1, 1)
        with anyio.fail_after(10):
            assert await next_number(consumer) == 1
    assert {record.api for record in stranger.requests.select()} <= BOOTSTRAP


@pytest.mark.parametrize("kind", ["consumer", "share"])
async def test_rule_35_without_the_check_a_member_outgrows_the_assignment_of_another_cluster(kind: str) -> None:
    """Both coordinators have the member at the same epoch: they repeat its target only if it sends all fields."""
    groups = GroupOptions(consumer_heartbeat_interval_ms=50, share_heartbeat_interval_ms=50)
    async with EmbeddedCluster(3, groups=groups) as ours, EmbeddedCluster(3, groups=groups) as theirs:
        for each in (ours, theirs):
            each.create_topic("t", partitions=1)
        coordinator = ours.coordinator("g")
        ours.create_topic("u", assignments=[[coordinator % 3 + 1]])
        options: dict[str, Any] = {"bootstrap_servers": ours.bootstrap_servers, "metadata_cluster_check_enable": False}
        reader: Consumer[Any, Any] | ShareConsumer[Any, Any]
        if kind == "share":
            await configure(ours.bootstrap_servers, "g")
            reader = ShareConsumer("u", group_id="g", **options)
        else:
            reader = Consumer("u", group_id="g", group_protocol="consumer", auto_offset_reset="earliest", **options)
        async with Producer(ours.bootstrap_servers) as producer, reader:
            records = aiter(reader)
            await producer.send_and_wait("u", b"0")
            assert (await anext(records)).value == b"0"
            ours.lead_astray(coordinator, coordinator, theirs)
            api = f"{kind.capitalize()}GroupHeartbeat"
            await until(lambda: theirs.requests.count(api) >= 5)
            ours.lead_astray(coordinator, coordinator)
            await producer.send_and_wait("u", b"1")
            with anyio.fail_after(20):
                while (await anext(records)).value != b"1":
                    pass  # the first one was not committed


async def test_rule_35_share_consumers_and_administrators_are_not_misled_either(
    cluster: EmbeddedCluster, stranger: EmbeddedCluster
) -> None:
    await configure(cluster.bootstrap_servers, "s")
    async with (
        AdminClient(cluster.bootstrap_servers) as admin,
        Producer(cluster.bootstrap_servers) as producer,
        ShareConsumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="s") as member,
    ):
        for broker in cluster.broker_ids:
            cluster.lead_astray(broker, broker, stranger)
        await until(lambda: refused(stranger) >= 0 and len(stranger.requests.select()) > 3)
        for broker in cluster.broker_ids:
            cluster.lead_astray(broker, broker)
        with anyio.fail_after(15):
            await producer.send_and_wait("t", b"1", partition=0)
            async for record in member:
                assert record.value == b"1"
                break
            assert "t" in await admin.list_topics()
    asked = {record.api for record in stranger.requests.select()}
    assert asked <= {"ApiVersions", "Metadata"}  # bootstrap servers report their cluster


async def test_rule_30_a_cluster_in_place_of_another_is_refused_with_one_text(
    cluster: EmbeddedCluster, stranger: EmbeddedCluster
) -> None:
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        for broker in cluster.broker_ids:
            cluster.lead_astray(broker, broker, stranger)
        with pytest.raises(ClusterIdMismatchError, match=r"theirs.*ours"), anyio.fail_after(10):
            await producer.send_and_wait("t", b"1", partition=0)
    assert values(stranger, "t") == []


async def test_rule_30_bootstrap_servers_that_cannot_be_reached_are_waited_for_a_while(
    cluster: EmbeddedCluster, stranger: EmbeddedCluster
) -> None:
    async with producer_of(cluster) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        for broker in (2, 3):
            await cluster.kill_broker(broker, failover_delay_ms=0)
        cluster.lead_astray(1, 1, stranger)
        delivery = await producer.send("t", b"1", partition=0)
        await until(lambda: stranger.requests.count("Metadata") >= 1)
        cluster.lead_astray(1, 1)
        assert await all_of([delivery]) == [1]
        cluster.lead_astray(1, 1, stranger)
        with pytest.raises(ClusterIdMismatchError), anyio.fail_after(10):
            await producer.send_and_wait("t", b"2", partition=0)
    assert values(stranger, "t") == []


@SHARED
async def test_rule_30_only_metadata_is_asked_of_a_bootstrap_server_that_may_belong_to_another_cluster(
    cluster: EmbeddedCluster, stranger: EmbeddedCluster, shared: bool
) -> None:
    patient: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 60_000}
    servers = f"{cluster.address(1)},{stranger.address(1)}"
    await stranger.stop_broker(1)
    async with Client(servers, **patient) as client:
        admins = client.admin() if shared else AdminClient(servers, **patient)
        consumers = client.consumer() if shared else Consumer(bootstrap_servers=servers, **patient)
        async with producer_of(servers, shared=shared, **patient) as producer, admins as admin, consumers as consumer:
            assert await producer.partitions_for("t") == {0, 1, 2}
            for broker in cluster.broker_ids:
                await cluster.kill_broker(broker, failover_delay_ms=60_000)
            await stranger.start_broker(1)
            calls: list[Callable[..., Coroutine[Any, Any, Any]]] = [
                admin.list_topics,
                admin.describe_cluster,
                partial(admin.create_topics, [NewTopic("mine")]),
                partial(admin.delete_topics, ["t"]),
                partial(admin.describe_topics, ["t"]),
                partial(admin.list_consumer_group_offsets, "g"),
                partial(admin.list_offsets, {TopicPartition("t", 0): OffsetSpec.LATEST}),
                partial(consumer.end_offsets, [TopicPartition("t", 0)]),
                consumer.topics,
            ]

            async def call(one: Callable[..., Coroutine[Any, Any, Any]]) -> None:
                with pytest.raises(KafkaError):
                    await one(timeout_ms=500)

            delivery = await producer.send("t", b"0", partition=0)
            async with anyio.create_task_group() as tasks:
                for one in calls:
                    tasks.start_soon(call, one)
            with anyio.fail_after(30):
                await stranger.wait_for_requests("Metadata")
            for broker in cluster.broker_ids:
                await cluster.start_broker(broker)
            assert await all_of([delivery]) == [0]
            assert "t" in await admin.list_topics()
    assert {record.api for record in stranger.requests.select()} <= BOOTSTRAP


@needs_loopbacks
async def test_rule_30_a_name_with_one_address_in_another_cluster() -> None:
    async with EmbeddedCluster(brokers=1, cluster_id="ours") as ours:
        port = int(ours.address(1).rpartition(":")[2])
        with resolving() as names:
            names["kafka.test"] = ["127.0.0.1", STRANGE]
            async with (
                EmbeddedCluster(brokers=1, host=STRANGE, ports=[port], cluster_id="theirs") as theirs,
                producer_of(f"kafka.test:{port}") as producer,
            ):
                await producer.send_and_wait("t", b"0", partition=0)
                names["kafka.test"] = [STRANGE, "127.0.0.1"]
                await ours.kill_broker(1)
                delivery = await producer.send("t", b"1", partition=0)
                await until(lambda: theirs.requests.count("Metadata") >= 1)
                await ours.start_broker(1)
                assert await all_of([delivery]) == [1]
                assert {record.api for record in theirs.requests.select()} <= BOOTSTRAP
    assert values(ours, "t") == [0, 1]


@pytest.mark.parametrize(
    "options", [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}], ids=["off", "none"]
)
async def test_rule_35_brokers_are_not_asked_without_the_check(
    cluster: EmbeddedCluster, options: dict[str, Any]
) -> None:
    async with producer_of(cluster, **options) as producer:
        for partition in PARTITIONS:
            await producer.send_and_wait("t", b"0", partition=partition)
    assert {record.request.node_id for record in cluster.requests.select("ApiVersions")} == {-1}


async def test_rule_35_without_the_check_another_cluster_gets_what_is_sent(
    cluster: EmbeddedCluster, stranger: EmbeddedCluster
) -> None:
    async with producer_of(cluster, metadata_cluster_check_enable=False, enable_idempotence=False) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        held = cluster.faults.add("Metadata", hold=True)
        cluster.lead_astray(1, 1, stranger)
        delivery = await producer.send("t", b"1", partition=0)
        await until(lambda: stranger.requests.count("Produce") > 0)
        cluster.lead_astray(1, 1)
        held.remove()
        with anyio.fail_after(10):
            await delivery


async def test_rule_35_brokers_below_4_4_are_not_asked(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"ApiVersions": 4}
    async with producer_of(cluster) as producer:
        for partition in PARTITIONS:
            await producer.send_and_wait("t", b"0", partition=partition)
        cluster.lead_astray(1, 2)
        delivery = await producer.send("t", b"1", partition=0)
        await until(lambda: cluster.requests.count("Produce", broker=2) > 1)
        cluster.lead_astray(1, 1)
        with anyio.fail_after(10):
            await delivery
    assert values(cluster, "t", 0) == [0, 1]


async def list_offsets(admin: AdminClient, consumer: Consumer[Any, Any]) -> Any:
    return await admin.list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST})


async def describe_group(admin: AdminClient, consumer: Consumer[Any, Any]) -> Any:
    return await admin.list_consumer_group_offsets("g")


async def end_offsets(admin: AdminClient, consumer: Consumer[Any, Any]) -> Any:
    return await consumer.end_offsets([TopicPartition("t", 0)])


@SHARED
@pytest.mark.parametrize("call", [list_offsets, describe_group, end_offsets])
async def test_rule_35_calls_are_back_as_soon_as_the_address_is_tried_again(
    cluster: EmbeddedCluster, call: Callable[..., Coroutine[Any, Any, Any]], shared: bool
) -> None:
    patient: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 5_000, "reconnect_backoff_max_ms": 50}
    if cluster.coordinator("g") != 1:
        cluster.move_coordinator("g", 1)
    async with Client(cluster.bootstrap_servers, **patient) as client:
        servers = cluster.bootstrap_servers
        admins = client.admin() if shared else AdminClient(servers, **patient)
        consumers = client.consumer() if shared else Consumer(bootstrap_servers=servers, **patient)
        async with admins as admin, consumers as consumer:
            await call(admin, consumer)
            cluster.lead_astray(1, 2)
            with anyio.fail_after(30):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call, admin, consumer)
                    # If the call had a separate backoff that doubles, 16 attempts would take 40 s.
                    await until(lambda: refused(cluster) > 16)
                    cluster.lead_astray(1, 1)
