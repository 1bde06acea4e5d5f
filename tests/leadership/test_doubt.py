"""Rules 33 and 34: brokers that answer and stay wrong, while another broker knows better."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import chain, repeat
from typing import Any

import anyio
import anyio.abc
import pytest

from aiokafka_lead import Consumer, Producer
from aiokafka_lead._core.metadata.refresh import WITNESSES
from aiokafka_lead._core.trust import DOUBT_AFTER
from aiokafka_lead._wire import decode_response, encode_response
from aiokafka_lead._wire.messages.metadata import MetadataResponse
from aiokafka_lead.errors import ClusterAuthorizationFailedError, UnknownServerError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late, started
from ..proxies import pump
from .support import ALWAYS, NOT_LEADER, TOGETHER, asked, consumer_of, fill, next_number, producer_of, until, values

pytestmark = pytest.mark.anyio

SHARED = pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
QUICK: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 100}
COUNTED: dict[str, Any] = {"retry_backoff_ms": 100, "retry_backoff_max_ms": 10_000}
"""For tests that count: a busy machine needs many backoffs of 20 ms to connect and ask another broker."""


def isolate(cluster: EmbeddedCluster, broker: int) -> None:
    """Move the leadership to another broker, unnoticed by the old leader."""
    cluster.freeze_metadata(ALWAYS, broker=broker)
    cluster.move_leader("t", to=broker % 3 + 1)


@pytest.mark.parametrize("code", [7, 19, 20, -1, 56])
@SHARED
async def test_rule_33_records_leave_a_leader_that_refuses_for_ever(
    cluster: EmbeddedCluster, code: int, shared: bool
) -> None:
    async with producer_of(cluster, shared=shared, **COUNTED) as producer:
        await producer.send_and_wait("t", b"0")
        rule = cluster.faults.add("Produce", broker=1, error_code=code)
        isolate(cluster, 1)
        with anyio.fail_after(20):
            await producer.send_and_wait("t", b"1")
    assert values(cluster) == [0, 1]
    # Until the doubt, plus requests in flight when metadata arrived.
    assert 1 <= rule.struck <= DOUBT_AFTER + 2


@pytest.mark.parametrize("code", [75, -1, 78, NOT_LEADER])
@SHARED
async def test_rule_33_reads_leave_a_leader_that_refuses_for_ever(
    cluster: EmbeddedCluster, code: int, shared: bool
) -> None:
    await fill(cluster, 1)
    async with consumer_of(cluster, "t", shared=shared, **QUICK) as consumer:
        assert await next_number(consumer) == 0
        cluster.faults.add("Fetch", broker=1, error_code=code)
        isolate(cluster, 1)
        await fill(cluster, 1, first=1)
        assert await next_number(consumer) == 1


@SHARED
async def test_rule_33_reads_leave_a_leader_whose_answers_are_of_no_use(cluster: EmbeddedCluster, shared: bool) -> None:
    await fill(cluster, 1)
    async with consumer_of(cluster, "t", shared=shared, **QUICK) as consumer:
        assert await next_number(consumer) == 0
        cluster.faults.add("Fetch", broker=1, error_code=UnknownServerError.code, whole=True)
        isolate(cluster, 1)
        await fill(cluster, 1, first=1)
        assert await next_number(consumer) == 1


@pytest.mark.parametrize("policy", ["earliest", "latest"])
async def test_a_broker_that_knows_only_the_former_topic_costs_no_record(cluster: EmbeddedCluster, policy: str) -> None:
    """Nothing is read again, and nothing is skipped."""
    cluster.freeze_metadata(ALWAYS, broker=3)
    cluster.delete_topic("t")
    cluster.create_topic("t", assignments=TOGETHER)
    topic_id = cluster.topic_id("t")
    await fill(cluster, 1)
    servers = f"{cluster.address(1)},{cluster.address(2)}"
    often: dict[str, Any] = {"auto_offset_reset": policy, "metadata_max_age_ms": 200, **QUICK}
    async with consumer_of(servers, "t", **often) as consumer:
        if policy == "earliest":
            assert await next_number(consumer) == 0
        held = [cluster.faults.add("Metadata", broker=broker, hold=True) for broker in (1, 2)]
        metadata = consumer._client.metadata
        await until(lambda: metadata.snapshot.topic_id("t") != topic_id)
        for rule in held:
            rule.remove()
        await fill(cluster, 1, first=1)
        assert await next_number(consumer) == 1


async def test_whole_answers_that_are_errors_are_a_problem(cluster: EmbeddedCluster) -> None:
    short: dict[str, Any] = {"auto_offset_reset": "earliest", "request_timeout_ms": 400, "fetch_max_wait_ms": 100}
    async with (
        started(Consumer("t", bootstrap_servers=cluster.bootstrap_servers, **short, **QUICK)) as consumer,
        anyio.create_task_group() as tasks,
    ):
        rule = cluster.faults.add("Fetch", error_code=UnknownServerError, whole=True)
        tasks.start_soon(next_number, consumer)
        await until(lambda: any("no broker has answered a fetch" in each for each in consumer.health().problems))
        rule.remove()
        await until(lambda: consumer.health().healthy)
        await fill(cluster, 1)


@SHARED
async def test_whole_answers_that_no_retry_can_help_are_raised(cluster: EmbeddedCluster, shared: bool) -> None:
    async with consumer_of(cluster, "t", shared=shared, **QUICK) as consumer:
        cluster.faults.add("Fetch", error_code=ClusterAuthorizationFailedError, whole=True)
        with pytest.raises(ClusterAuthorizationFailedError):
            await next_number(consumer)


async def test_rule_33_nobody_is_asked_where_there_is_nobody_else() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, producer_of(cluster, **QUICK) as producer:
        await producer.send_and_wait("t", b"0")
        before = cluster.requests.count("Metadata")
        rule = cluster.faults.add("Produce", error_code=19)
        delivery = await producer.send("t", b"1")
        await until(lambda: rule.struck >= 3 * DOUBT_AFTER)
        assert cluster.requests.count("Metadata") == before
        rule.remove()
        with anyio.fail_after(20):
            await delivery


@again_if_late(20, 200)
async def test_an_error_without_explanation_ends_a_batch_once_the_others_have_nothing_to_say(
    backoff_ms: int, cluster: EmbeddedCluster
) -> None:
    cluster.faults.clear()  # from the first attempt
    async with producer_of(cluster, retry_backoff_ms=backoff_ms, retry_backoff_max_ms=5 * backoff_ms) as producer:
        await producer.send_and_wait("t", b"0")
        rule = cluster.faults.add("Produce", error_code=UnknownServerError.code)
        with anyio.fail_after(20), pytest.raises(UnknownServerError):
            await producer.send_and_wait("t", b"1")
        assert rule.struck == 2 * DOUBT_AFTER


def answering(change: Callable[[MetadataResponse], None]) -> Callable[[bytes], bytes]:
    """Return a fault that changes a broker's answers to Metadata 12."""

    def changed(whole: bytes) -> bytes:
        correlation_id, response = decode_response(MetadataResponse, 12, memoryview(whole)[4:])
        change(response)
        return b"".join(encode_response(response, 12, correlation_id))

    return changed


def without_brokers(response: MetadataResponse) -> None:
    response.brokers, response.topics = [], []


def led_by(leader: int) -> Callable[[MetadataResponse], None]:
    """Return a change after which this broker leads as at first, and broker 3 is not known."""

    def change(response: MetadataResponse) -> None:
        response.brokers = [broker for broker in response.brokers if broker.node_id != 3]
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_id, partition.leader_epoch, partition.replica_nodes = leader, 0, [1, 2]

    return change


@pytest.mark.parametrize(
    "sick",
    [
        {"garbage": answering(without_brokers)},
        {"drop": True},
        {"topic": "new", "error_code": 3},
        {"topic": "new", "error_code": 5},
    ],
    ids=["names no brokers", "does not answer", "denies the topic", "names no leader"],
)
async def test_rule_33_metadata_comes_from_another_broker(cluster: EmbeddedCluster, sick: dict[str, Any]) -> None:
    """The faulty one is the only connected broker."""
    cluster.max_versions["Metadata"] = 12
    cluster.create_topic("new", assignments=[[2, 3]])
    async with producer_of(cluster.address(1), **QUICK) as producer:
        cluster.faults.add("Metadata", broker=1, **sick)
        with anyio.fail_after(20):
            await producer.send_and_wait("new", b"0")


@pytest.mark.parametrize(
    "known", [without_brokers, led_by(-1), led_by(1)], ids=["no broker", "no leader", "the old one"]
)
@SHARED
async def test_rule_33_bootstrap_servers_are_asked_when_all_known_brokers_answer_in_vain(
    cluster: EmbeddedCluster, known: Callable[[MetadataResponse], None], shared: bool
) -> None:
    """Broker 3 is known as a bootstrap server only, and leads by now."""
    cluster.max_versions["Metadata"] = 12
    before = cluster.faults.add("Metadata", garbage=answering(led_by(1)), after=True)
    servers = ",".join(cluster.address(node_id) for node_id in (1, 3))
    async with (
        producer_of(servers, shared=shared, leader_hint_policy="off", **QUICK) as producer,
        consumer_of(servers, "t", shared=shared, leader_hint_policy="off", **QUICK) as consumer,
    ):
        await producer.send_and_wait("t", b"0")
        assert await next_number(consumer) == 0
        for node_id in (1, 2):
            cluster.faults.add("Metadata", broker=node_id, garbage=answering(known), after=True)
        before.remove()
        cluster.move_leader("t", to=3)
        with anyio.fail_after(10):
            await producer.send_and_wait("t", b"1")
        assert await next_number(consumer) == 1
        assert producer.metrics().metadata.rebootstraps_timed_out == 0


async def test_rule_33_a_bootstrap_server_that_knows_no_more_is_left_for_another_broker_of_its_name(
    cluster: EmbeddedCluster,
) -> None:
    """The second server is a load balancer. When all known brokers are wrong, it leads to one of them at first."""
    cluster.max_versions["Metadata"] = 12
    before = cluster.faults.add("Metadata", garbage=answering(led_by(1)), after=True)
    targets: Iterator[int] = repeat(1)
    async with balancer(cluster, lambda: next(targets)) as name:
        servers = f"{cluster.address(1)},{name}"
        options: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 300}
        async with producer_of(servers, leader_hint_policy="off", **options) as producer:
            await producer.send_and_wait("t", b"0")
            for node_id in (1, 2):
                cluster.faults.add("Metadata", broker=node_id, garbage=answering(led_by(1)), after=True)
            before.remove()
            targets = chain([2], repeat(3))
            cluster.move_leader("t", to=3)
            with anyio.fail_after(10):
                await producer.send_and_wait("t", b"1")


@asynccontextmanager
async def balancer(cluster: EmbeddedCluster, chosen: Callable[[], int]) -> AsyncIterator[str]:
    """Yield an address whose connections lead to the broker that is chosen for each."""

    async def serve(client: anyio.abc.SocketStream) -> None:
        host, _, port = cluster.address(chosen()).rpartition(":")
        async with client, await anyio.connect_tcp(host, int(port)) as broker, anyio.create_task_group() as pumps:
            pumps.start_soon(pump, client, broker, pumps.cancel_scope)
            pumps.start_soon(pump, broker, client, pumps.cancel_scope)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()


async def test_a_topic_that_every_broker_denies_is_not_looked_for_at_more_and_more_of_them() -> None:
    async with EmbeddedCluster(brokers=6, auto_create_topics=False) as cluster:
        async with producer_of(cluster.address(1), max_block_ms=3_000, **QUICK) as producer:
            with anyio.fail_after(20), pytest.raises(Exception, match="missing"):
                await producer.send("missing", b"0")
        asked = {request.broker for request in cluster.requests.select("Metadata")}
        assert len(asked) <= DOUBT_AFTER + 1


# --- followers -------------------------------------------------------------------------------------------------------


def refuse_connections(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ApiVersions", broker=3, disconnect=True)


def hang_in_the_handshake(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ApiVersions", broker=3, drop=True)


def refuse_the_login(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("SaslAuthenticate", broker=3, error_code=58)


def hang_up_at_each_fetch(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("Fetch", broker=3, disconnect=True)


def lag(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("Fetch", broker=3, error_code=78)


def lag_far_behind(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("Fetch", broker=3, error_code=1)


def freeze(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("Fetch", broker=3, drop=True)


LOGIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "u",
    "sasl_plain_password": "p",
}


@pytest.mark.parametrize(
    "trouble",
    [
        refuse_connections,
        hang_in_the_handshake,
        refuse_the_login,
        hang_up_at_each_fetch,
        lag,
        lag_far_behind,
        freeze,
    ],
)
@pytest.mark.parametrize("connected", [False, True], ids=["at first", "later"])
@SHARED
async def test_rule_34_a_follower_of_no_use_is_left_for_the_leader(
    trouble: Callable[[EmbeddedCluster], None], connected: bool, shared: bool
) -> None:
    async with EmbeddedCluster(brokers=3, racks=["a", "b", "c"], sasl_users={"u": "p"}) as cluster:
        cluster.create_topic("t", assignments=TOGETHER)
        async with (
            producer_of(cluster, **LOGIN) as producer,
            consumer_of(
                cluster,
                "t",
                shared=shared,
                client_rack="c",
                client_id="reader",
                request_timeout_ms=8_000,
                **QUICK,
                **LOGIN,
            ) as consumer,
        ):
            if connected:
                await producer.send_and_wait("t", b"0")
                assert await next_number(consumer) == 0
                await until(lambda: cluster.requests.select("Fetch", broker=3))
            trouble(cluster)
            if connected and trouble not in (hang_up_at_each_fetch, lag, lag_far_behind, freeze):
                await end_connections(cluster, 3)
            await producer.send_and_wait("t", b"1")
            assert await next_number(consumer) == 1
            await producer.send_and_wait("t", b"2")
            assert await next_number(consumer) == 2


async def end_connections(cluster: EmbeddedCluster, broker: int) -> None:
    """Reset open connections, so that the fault shows at the next connect."""
    await cluster.stop_broker(broker)
    await cluster.start_broker(broker)
    cluster.set_isr("t", 0, [1, 2, 3])


async def test_rule_34_a_follower_is_read_from_again_once_it_has_been_reached() -> None:
    """It leads another partition, so the client keeps reconnecting to it."""
    async with EmbeddedCluster(brokers=3, racks=["a", "b", "c"]) as cluster:
        cluster.create_topic("t", assignments=[[1, 2, 3], [3, 2, 1]])
        await fill(cluster, 1)
        rule = cluster.faults.add("ApiVersions", broker=3, drop=True, client_id="reader")
        brief: dict[str, Any] = {"auto_offset_reset": "earliest"}
        brief |= dict.fromkeys(("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"), 700)
        servers = cluster.bootstrap_servers
        consumer = Consumer("t", bootstrap_servers=servers, client_rack="c", client_id="reader", **brief, **QUICK)
        await consumer.start(wait=False)  # start would wait for broker 3 to answer
        try:
            assert await next_number(consumer) == 0
            assert not followed(cluster)
            rule.remove()
            await until(lambda: followed(cluster))
            await fill(cluster, 1, first=1)
            assert await next_number(consumer) == 1
        finally:
            await consumer.stop()


def followed(cluster: EmbeddedCluster) -> bool:
    """Return True if partition 0 has been fetched from the follower."""
    return bool(asked(cluster, "Fetch", broker=3))


# --- view of the application -----------------------------------------------------------------------------------------


async def test_a_partition_that_does_not_advance_is_a_problem_and_says_why(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("pair", assignments=[[1, 2, 3], [2, 3, 1]])
    rule = cluster.faults.add("Fetch", topic="pair", partition=1, error_code=75)
    short: dict[str, Any] = {"auto_offset_reset": "earliest", "request_timeout_ms": 400, "fetch_max_wait_ms": 100}
    async with (
        producer_of(cluster) as producer,
        started(Consumer("pair", bootstrap_servers=cluster.bootstrap_servers, **short, **QUICK)) as consumer,
        anyio.create_task_group() as tasks,
    ):
        for partition in range(2):
            await producer.send_and_wait("pair", b"0", partition=partition)
        read: list[int] = []

        async def reading() -> None:
            async for record in consumer:
                read.append(record.partition)

        tasks.start_soon(reading)
        await until(lambda: [tp.partition for tp in consumer.health().stuck] == [1])
        health = consumer.health()
        [(tp, why)] = health.stuck.items()
        assert (tp.topic, tp.partition) == ("pair", 1)
        assert "broker 2 has refused" in why
        assert "UnknownLeaderEpochError" in why
        assert why in health.problems
        assert not health.healthy
        assert health.live  # a new process would meet the same broker
        assert read == [0]
        rule.remove()
        await until(lambda: read == [0, 1])
        assert consumer.health().healthy
        tasks.cancel_scope.cancel()


async def test_rule_33_few_brokers_are_asked_about_a_partition_without_a_leader() -> None:
    """Each request used to go to any broker that records were sent to, and needed a connection, and a login, there."""
    async with EmbeddedCluster(brokers=14) as cluster:
        cluster.create_topic("wide", partitions=14, replication_factor=1)
        async with Producer(cluster.bootstrap_servers, **QUICK) as producer:
            for partition in range(14):
                await producer.send_and_wait("wide", b"0", partition=partition)
            await cluster.kill_broker(1, failover_delay_ms=0)
            cluster.requests.clear()
            await producer.send("wide", b"1", partition=0)
            await cluster.wait_for_requests("Metadata", count=40)
            told = {request.broker for request in cluster.requests if request.api == "Metadata"}
            await cluster.start_broker(1)
    assert len(told) <= WITNESSES + 2
