"""Lasting faults: another cluster, refused credentials, every broker at another address."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead.errors import (
    ClusterIdMismatchError,
    CoordinatorLoadInProgressError,
    DeliveryTimeoutError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lead.producer import Producer
from aiokafka_lead.testing import EmbeddedCluster
from tests.patience import again_if_late

pytestmark = pytest.mark.anyio


async def test_failure_in_the_background_reaches_every_call_and_record() -> None:
    async with EmbeddedCluster(brokers=1, cluster_id="one") as first:
        first.create_topic("events")
        port = int(first.bootstrap_servers.rpartition(":")[2])
        producer = Producer(
            first.bootstrap_servers, retry_backoff_ms=20, reconnect_backoff_ms=10, reconnect_backoff_max_ms=50
        )
        await producer.start()
        await producer.send_and_wait("events", b"v")
    pending = await producer.send("events", b"v")
    async with EmbeddedCluster(brokers=1, cluster_id="two", ports=[port]) as second:
        second.create_topic("events")
        with anyio.fail_after(20), pytest.raises(ClusterIdMismatchError):
            await pending
        with pytest.raises(ClusterIdMismatchError):
            await producer.send("events", b"v")
        with pytest.raises(ClusterIdMismatchError):
            producer.send_nowait("events", b"v")
        with pytest.raises(ClusterIdMismatchError):
            await producer.flush()
        with anyio.fail_after(20):
            await producer.stop()
        assert second.records("events") == []


async def test_another_cluster_that_is_adopted_gets_another_producer_id() -> None:
    async with EmbeddedCluster(brokers=1, cluster_id="one") as first:
        first.create_topic("events")
        port = int(first.bootstrap_servers.rpartition(":")[2])
        producer = Producer(
            first.bootstrap_servers,
            cluster_id_mismatch="adopt",
            linger_ms=0,
            retry_backoff_ms=20,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=50,
        )
        await producer.start()
        for _ in range(3):
            await producer.send_and_wait("events", b"v")
    async with EmbeddedCluster(brokers=1, cluster_id="two", ports=[port]) as second:
        second.create_topic("events")
        with anyio.fail_after(20):
            for offset in range(3):
                assert (await producer.send_and_wait("events", b"w")).offset == offset
        assert second.requests.count("InitProducerId") == 1
        await producer.stop()


async def test_every_broker_at_another_address(cluster: EmbeddedCluster) -> None:
    """Only the bootstrap server's address stays: batches are kept, and sent to the brokers' new addresses (KIP-899)."""
    async with Producer(
        cluster.address(1), linger_ms=0, retry_backoff_ms=20, reconnect_backoff_ms=10, reconnect_backoff_max_ms=50
    ) as producer:
        deliveries = [await producer.send("events", b"%d" % number, partition=number % 3) for number in range(30)]
        for broker in cluster.broker_ids:
            await cluster.kill_broker(broker, failover_delay_ms=0)
        with anyio.fail_after(20):  # it accepts records meanwhile
            for number in range(30, 60):
                deliveries.append(await producer.send("events", b"%d" % number, partition=number % 3))
        await anyio.sleep(0.1)
        await cluster.start_broker(1)
        await cluster.start_broker(2, port=0)
        await cluster.start_broker(3, port=0)
        with anyio.fail_after(20):
            await producer.flush()
        assert all(delivery.result().offset >= 0 for delivery in deliveries)
    for partition in range(3):
        values = [record.value for record in cluster.records("events", partition)]
        assert values == [b"%d" % number for number in range(partition, 60, 3)]


async def test_topic_that_is_deleted_under_way(cluster: EmbeddedCluster) -> None:
    async with Producer(
        cluster.bootstrap_servers,
        allow_auto_create_topics=False,
        max_block_ms=1000,
        delivery_timeout_ms=2500,
        request_timeout_ms=1500,
        retry_backoff_ms=20,
    ) as producer:
        await producer.send_and_wait("events", b"v", partition=0)
        cluster.delete_topic("events")
        delivery = await producer.send("events", b"v", partition=0)
        with anyio.fail_after(20):
            with pytest.raises(DeliveryTimeoutError) as caught:
                await delivery
            assert isinstance(caught.value.__cause__, KafkaError)
            with pytest.raises(UnknownTopicOrPartitionError, match="events"):
                await producer.send("events", b"v", partition=0)


@again_if_late(300, 4_000)
async def test_records_that_expire_without_a_producer_id_tell_why(time_ms: int, cluster: EmbeddedCluster) -> None:
    cluster.faults.clear()  # from the first attempt
    cluster.faults.add("InitProducerId", error_code=CoordinatorLoadInProgressError)
    short: dict[str, Any] = {
        "linger_ms": 0,
        "request_timeout_ms": time_ms,
        "delivery_timeout_ms": time_ms,
        "retry_backoff_ms": 20,
    }
    why = "never sent; no producer id was obtained: InitProducerId: "
    async with Producer(cluster.bootstrap_servers, **short) as producer:
        with anyio.fail_after(20), pytest.raises(DeliveryTimeoutError, match=why):
            await producer.send_and_wait("events", b"v")
