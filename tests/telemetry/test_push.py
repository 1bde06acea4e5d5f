"""Clients push metrics to brokers that subscribe to some (KIP-714): on the embedded cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer
from aiokafka_lead.errors import (
    BrokerError,
    ClientClosedError,
    ConfigError,
    IllegalStateError,
    InvalidRecordError,
    RequestTimedOutError,
    TelemetryTooLargeError,
    ThrottlingQuotaExceededError,
    UnknownSubscriptionIdError,
    UnsupportedVersionError,
)
from aiokafka_lead.testing import EmbeddedCluster, TelemetryPush
from tests.leadership.support import until

from .support import Pushed, read, totals

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

INTERVAL_MS = 100
"""The shortest that brokers allow."""


@pytest.fixture(name="cluster")
async def cluster_that_asks() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(3, client_telemetry=True) as cluster:
        cluster.create_topic("events", partitions=3, replication_factor=3)
        cluster.telemetry.subscribe("all", interval_ms=INTERVAL_MS)
        yield cluster


def of(pushes: list[TelemetryPush], name: str) -> list[Pushed]:
    return [each for push in pushes for each in read(push.metrics) if each.name == name]


async def test_a_producer_pushes_what_it_counts(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, client_id="orders") as producer:
        instance_id = await producer.client_instance_id()
        for n in range(30):
            await producer.send_and_wait("events", b"%d" % n, partition=n % 3)
        await until(lambda: len(cluster.telemetry.pushes) >= 2)
    metrics = producer.metrics()
    pushes = cluster.telemetry.pushes
    assert {(push.client_id, push.client_instance_id, push.compression_type) for push in pushes} == {
        ("orders", instance_id, "zstd")
    }
    assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert len({push.broker for push in pushes}) == 1, "one broker as long as it is there"
    sums = totals(pushes)
    assert sums["producer.record.send.total"] == metrics.records_sent == 30
    assert sums["producer.connection.creation.total"] == metrics.connections
    assert totals(pushes, "events") == {"producer.topic.record.send.total": 30, "producer.topic.record.error.total": 0}
    latencies = of(pushes, "producer.node.request.latency.max")
    assert {each.attributes["node_id"] for each in latencies} == {1, 2, 3} == set(metrics.request_latency)
    assert max(each.value for each in latencies) <= max(h.sum_ms for h in metrics.request_latency.values())
    for name in ("producer.record.queue.time.avg", "producer.produce.throttle.time.max"):
        assert of(pushes, name), name


async def test_a_member_pushes_what_it_counts(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, enable_metrics_push=False) as producer:
        await (await producer.send_many("events", [b"x"] * 50))
    options: dict[str, Any] = {
        "group_id": "g",
        "group_instance_id": "one",
        "client_rack": "rack-a",
        "enable_auto_commit": False,
    }
    options |= {"auto_offset_reset": "earliest"}
    async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        taken = 0
        while taken < 50:
            taken += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
        await consumer.commit()
        before = len(cluster.telemetry.pushes)
        await until(lambda: len(cluster.telemetry.pushes) >= before + 2)
        metrics = consumer.metrics()
    pushes = cluster.telemetry.pushes
    (member_id,) = {each.resource["group_member_id"] for each in read(pushes[-2].metrics)}
    assert read(pushes[-2].metrics)[0].resource == {
        "client_rack": "rack-a",
        "group_id": "g",
        "group_instance_id": "one",
        "group_member_id": member_id,
    }
    sums = totals(pushes)
    assert sums["consumer.fetch.manager.records.consumed.total"] == 50
    assert sums["consumer.fetch.manager.bytes.consumed.total"] == metrics.bytes_fetched
    assert totals(pushes, "events") == {
        "consumer.fetch.manager.records.consumed.total": 50,
        "consumer.fetch.manager.bytes.consumed.total": metrics.bytes_fetched,
    }
    assert sums["consumer.coordinator.rebalance.latency.total"] == pytest.approx(metrics.rebalance_latency.sum_ms)
    assert of(pushes[:-1], "consumer.coordinator.assigned.partitions")[-1].value == 3
    assert of(pushes, "consumer.fetch.manager.records.lag.max")[-1].value == 0
    (commit,) = [each for each in of(pushes, "consumer.coordinator.commit.latency.max") if each.value]
    assert commit.value == pytest.approx(metrics.commit_latency.sum_ms)
    assert all(0 <= each.value <= 1 for each in of(pushes, "consumer.poll.idle.ratio.avg"))
    for name in ("node.request.latency.avg", "connection.creation.rate", "coordinator.rebalance.latency.max"):
        assert of(pushes, f"consumer.{name}"), name
    assert of(pushes, "consumer.fetch.manager.fetch.latency.avg")


async def test_a_member_of_a_share_group_pushes_what_it_counts(cluster: EmbeddedCluster) -> None:
    cluster.shares.configure("workers", {"share.auto.offset.reset": "earliest"})
    servers = cluster.bootstrap_servers
    async with Producer(servers, enable_metrics_push=False) as producer:
        await (await producer.send_many("events", [b"x"] * 30, partition=0))
    async with ShareConsumer("events", bootstrap_servers=servers, group_id="workers", client_rack="rack-a") as jobs:
        await jobs.client_instance_id()
        taken = 0
        async for _ in jobs:
            taken += 1
            if taken == 30:
                break
        await jobs.commit()
    pushes = cluster.telemetry.pushes
    sums = totals(pushes)
    assert sums["consumer.share.fetch.manager.acknowledgements.send.total"] == 30
    assert sums["consumer.share.fetch.manager.records.consumed.total"] == 30
    assert sums["consumer.share.fetch.manager.fetch.total"] >= 1
    assert sums["consumer.share.fetch.manager.bytes.consumed.total"] > 30
    of_topic = totals(pushes, "events")
    assert of_topic == {name: sums[name] for name in of_topic}
    assert of_topic["consumer.share.fetch.manager.records.consumed.total"] == 30
    assert sums["consumer.share.coordinator.heartbeat.total"] == cluster.requests.count("ShareGroupHeartbeat")
    (resource,) = {tuple(each.resource.items()) for push in pushes for each in read(push.metrics)}
    assert resource[:2] == (("client_rack", "rack-a"), ("group_id", "workers"))
    assert resource[2][0] == "group_member_id"
    for name in ("node.request.latency.max", "share.fetch.manager.fetch.latency.avg", "share.poll.idle.ratio.avg"):
        assert of(pushes, f"consumer.{name}"), name


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_pushes_come_in_the_broker_s_favourite_codec(cluster: EmbeddedCluster, codec: str) -> None:
    cluster.telemetry.accept([codec, "gzip"], delta=False)
    async with Producer(cluster.bootstrap_servers, transactional_id="t"):
        await until(lambda: cluster.telemetry.pushes)
    (first, *_) = cluster.telemetry.pushes
    assert first.compression_type == codec
    assert {tuple(each.resource.items()) for each in read(first.metrics)} == {(("transactional_id", "t"),)}
    assert not any(each.delta for each in read(first.metrics))


async def test_the_last_push_has_what_happened_at_the_end(cluster: EmbeddedCluster) -> None:
    cluster.telemetry.subscribe("all", interval_ms=3_600_000)
    producer = Producer(cluster.bootstrap_servers)
    await producer.start()
    await cluster.wait_for_requests("GetTelemetrySubscriptions")
    await producer.client_instance_id()
    await producer.send("events", b"1")
    await producer.stop()
    (push,) = cluster.telemetry.pushes
    assert push.terminating
    assert totals([push])["producer.record.send.total"] == 1


async def test_a_stop_waits_for_the_last_push_a_second_at_most(cluster: EmbeddedCluster) -> None:
    cluster.telemetry.subscribe("all", interval_ms=3_600_000)
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.client_instance_id()
        held = cluster.faults.add("PushTelemetry", hold=True)
    assert held.struck == 1
    assert cluster.telemetry.pushes == []


async def test_only_what_is_wanted_is_pushed_and_a_change_is_noticed(cluster: EmbeddedCluster) -> None:
    name = "org.apache.kafka.producer.record.send.total"
    cluster.telemetry.subscribe("all", [name], interval_ms=INTERVAL_MS)
    async with AdminClient(cluster.bootstrap_servers) as admin, Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1")
        await until(lambda: totals(cluster.telemetry.pushes).get("producer.record.send.total") == 1)
        assert {each.name for push in cluster.telemetry.pushes for each in read(push.metrics)} == {
            "producer.record.send.total"
        }
        assert await admin.list_client_metrics_resources() == ["all"]
        cluster.telemetry.subscribe("all", ["org.apache.kafka.producer.connection."], interval_ms=INTERVAL_MS)
        await until(lambda: of(cluster.telemetry.pushes, "producer.connection.creation.total"))
        before = len(cluster.telemetry.pushes)
        cluster.telemetry.subscribe("all", ["nothing.of.this.client"], interval_ms=INTERVAL_MS)
        await until(lambda: len(cluster.telemetry.pushes) > before + 1)
        assert cluster.telemetry.pushes[-1].metrics == b""
        assert cluster.telemetry.pushes[-1].compression_type == "none"
    assert totals(cluster.telemetry.pushes)["producer.record.send.total"] == 1


async def test_no_broker_asks_and_nothing_is_sent() -> None:
    async with EmbeddedCluster(1) as cluster:
        cluster.create_topic("events")
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("events", b"1")
            with pytest.raises(UnsupportedVersionError, match="KIP-714"):
                await producer.client_instance_id()
        assert cluster.requests.count("GetTelemetrySubscriptions") == 0


async def test_a_client_that_is_not_to_push_does_not() -> None:
    async with EmbeddedCluster(1, client_telemetry=True) as cluster:
        cluster.create_topic("events")
        cluster.telemetry.subscribe("all", interval_ms=INTERVAL_MS)
        async with Producer(cluster.bootstrap_servers, enable_metrics_push=False) as producer:
            await producer.send_and_wait("events", b"1")
            with pytest.raises(IllegalStateError, match="enable_metrics_push"):
                await producer.client_instance_id()
        assert cluster.requests.count("GetTelemetrySubscriptions") == 0


async def test_clients_of_one_kind_are_chosen_by_what_they_are(cluster: EmbeddedCluster) -> None:
    cluster.telemetry.subscribe(
        "all", interval_ms=INTERVAL_MS, match=["client_id=order-.*", "client_software_name=aiokafka-lead"]
    )
    servers = cluster.bootstrap_servers
    async with Producer(servers, client_id="order-1") as chosen, Producer(servers, client_id="other") as other:
        await other.client_instance_id()
        await until(lambda: len(cluster.telemetry.pushes) > 2)
        assert {push.client_id for push in cluster.telemetry.pushes} == {"order-1"}
        assert await chosen.client_instance_id() != await other.client_instance_id()


async def test_clients_that_share_connections_are_one_instance(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        with pytest.raises(ConfigError, match="enable_metrics_push"):
            client.producer(enable_metrics_push=False)
        admin = client.admin()
        consumer = client.consumer("events", group_id="g", auto_offset_reset="earliest")
        async with client.producer() as one, client.producer() as other, admin, consumer:
            ids = {await each.client_instance_id() for each in (client, one, other, admin, consumer)}
            assert len(ids) == 1
            for n in range(10):
                await (one, other)[n % 2].send_and_wait("events", b"%d" % n)
            assert len(await consumer.getmany(timeout_ms=20_000)) > 0
            await one.stop()
            with pytest.raises(ClientClosedError):
                await one.client_instance_id()
        connections = client._client.brokers.connections_made
    pushes = cluster.telemetry.pushes
    assert {push.client_instance_id for push in pushes} == ids
    assert [push.terminating for push in pushes].count(True) == 1
    sums = totals(pushes)
    assert sums["producer.record.send.total"] == 10, "both, also the one that stopped early"
    assert sums["client.connection.creation.total"] == connections
    assert not {"producer.connection.creation.total", "consumer.connection.creation.total"} & sums.keys()
    assert {each.resource.get("group_id") for each in of(pushes, "consumer.fetch.manager.fetch.total")} == {"g"}


async def test_an_admin_client_has_an_id_and_pushes_nothing(cluster: EmbeddedCluster) -> None:
    async with AdminClient(cluster.bootstrap_servers) as admin:
        await admin.list_topics()
        assert cluster.requests.count("GetTelemetrySubscriptions") == 0
        first = await admin.client_instance_id()
        assert isinstance(first, UUID)
        assert await admin.client_instance_id(timeout_ms=0) == first
    assert cluster.telemetry.pushes == []


@pytest.mark.parametrize("kind", ["producer", "member", "admin", "shared"])
async def test_metrics_of_the_application_are_pushed_with_the_client_s(cluster: EmbeddedCluster, kind: str) -> None:
    """KIP-1076."""
    servers = cluster.bootstrap_servers
    asked = {"open": 0, "done": 100}

    def value(name: str) -> int:
        asked[name] += 1
        return asked[name]

    async with AsyncExitStack() as stack:
        client: Any
        if kind == "shared":
            shared = await stack.enter_async_context(Client(servers))
            client = await stack.enter_async_context(shared.producer())
        elif kind == "member":
            client = Consumer("events", bootstrap_servers=servers, group_id="g", client_rack="rack-a")
            await stack.enter_async_context(client)
        else:
            client = await stack.enter_async_context({"producer": Producer, "admin": AdminClient}[kind](servers))
        client.register_metric_for_subscription("orders.open", lambda: value("open"), attributes={"shop": "a", "n": 1})
        client.register_metric_for_subscription("orders.done", lambda: value("done"), is_sum=True)
        await until(lambda: len(of(cluster.telemetry.pushes, "orders.done")) >= 3)
        client.unregister_metric_from_subscription("orders.open", attributes={"n": 1, "shop": "a"})
        client.unregister_metric_from_subscription("orders.unknown")
        before = len(cluster.telemetry.pushes)
        calls = asked["open"]
        await until(lambda: len(cluster.telemetry.pushes) > before + 2)
        assert asked["open"] == calls
    pushes = cluster.telemetry.pushes
    levels, counts = of(pushes, "orders.open"), of(pushes, "orders.done")
    assert [each.value for each in levels] == list(range(1, len(levels) + 1))
    assert {each.is_sum for each in levels} == {False}
    assert levels[0].attributes == {"shop": "a", "n": 1}
    assert not of(pushes[before + 1 :], "orders.open")
    assert [(each.is_sum, each.delta) for each in counts] == [(True, True)] * len(counts)
    assert sum(each.value for each in counts) == asked["done"]
    if kind == "member":
        assert counts[-1].resource["client_rack"] == "rack-a"
        assert counts[-1].resource["group_id"] == "g"


async def test_a_metric_of_the_application_that_fails_is_left_out(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([1.5, KeyError("gone"), "text", float("nan"), True, 2**70, 3])

    def value() -> Any:
        answer = next(answers, 4)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with Producer(cluster.bootstrap_servers) as producer:
        producer.register_metric_for_subscription("size", value)
        await until(lambda: any(each.value == 4 for each in of(cluster.telemetry.pushes, "size")))
        assert [each.value for each in of(cluster.telemetry.pushes, "size")][:4] == [1.5, 2.0**70, 3, 4]
    warnings = [record.getMessage() for record in caplog.records if "the application's metric" in record.getMessage()]
    assert len(warnings) == 1
    assert "KeyError('gone')" in warnings[0]


async def test_no_broker_asks_for_metrics_of_the_application() -> None:
    def value() -> float:
        raise AssertionError

    async with EmbeddedCluster(1) as cluster:
        cluster.create_topic("events")
        for pushes in (True, False):
            async with Producer(cluster.bootstrap_servers, enable_metrics_push=pushes) as producer:
                producer.register_metric_for_subscription("size", value)
                await producer.send_and_wait("events", b"1")
                producer.unregister_metric_from_subscription("size")
        with pytest.raises(ClientClosedError):
            producer.register_metric_for_subscription("size", value)
        assert cluster.requests.count("GetTelemetrySubscriptions") == 0


async def test_another_broker_takes_over_and_nothing_is_lost(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1")
        await until(lambda: cluster.telemetry.pushes)
        before = cluster.telemetry.pushes[-1].broker
        await cluster.kill_broker(before)
        await producer.send_and_wait("events", b"2")
        await until(lambda: cluster.telemetry.pushes[-1].broker != before)
        await producer.send_and_wait("events", b"3")
    pushes = cluster.telemetry.pushes
    assert len({push.client_instance_id for push in pushes}) == 1
    # More than that if the answer to a push was lost, since its metrics may have arrived.
    assert totals(pushes)["producer.record.send.total"] >= 3


@pytest.mark.parametrize("error", [UnknownSubscriptionIdError, TelemetryTooLargeError, ThrottlingQuotaExceededError])
async def test_a_push_that_was_refused_is_part_of_a_later_one(
    cluster: EmbeddedCluster, error: type[BrokerError]
) -> None:
    cluster.faults.add("PushTelemetry", error_code=error, count=2)
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1")
        await until(lambda: len(cluster.telemetry.pushes) > 1)
    assert totals(cluster.telemetry.pushes)["producer.record.send.total"] == 1


async def test_a_refusal_for_good_ends_it_and_harms_nothing(cluster: EmbeddedCluster) -> None:
    fault = cluster.faults.add("PushTelemetry", error_code=InvalidRecordError)
    async with Producer(cluster.bootstrap_servers) as producer:
        await until(lambda: fault.struck)
        await producer.send_and_wait("events", b"1")
    assert fault.struck == 1
    assert cluster.telemetry.pushes == []


async def test_an_id_that_nobody_gives_is_not_waited_for_longer_than_asked(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("GetTelemetrySubscriptions", error_code=ThrottlingQuotaExceededError)
    async with Producer(cluster.bootstrap_servers) as producer:
        with pytest.raises(RequestTimedOutError, match="50 ms"):
            await producer.client_instance_id(timeout_ms=50)


async def test_a_payload_is_cut_to_what_brokers_take(cluster: EmbeddedCluster) -> None:
    cluster.telemetry.accept(["none"], max_bytes=300)
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1")
        await until(lambda: len(cluster.telemetry.pushes) > 1)
    assert all(len(push.metrics) <= 300 for push in cluster.telemetry.pushes)
    assert of(cluster.telemetry.pushes, "producer.connection.creation.total")
    assert not of(cluster.telemetry.pushes, "producer.buffer.available.bytes")
