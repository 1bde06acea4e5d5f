"""Rules 24 to 31: no known broker is left (KIP-899, KIP-1102), and the effects on producers and consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead._wire import decode_response, encode_response
from aiokafka_lead._wire.messages.metadata import MetadataResponse
from aiokafka_lead.admin import ElectionType
from aiokafka_lead.errors import ClusterIdMismatchError, KafkaError, RebootstrapRequiredError
from aiokafka_lead.testing import EmbeddedCluster

from .support import (
    all_of,
    asked,
    consumer_of,
    fill,
    next_number,
    producer_of,
    until,
    values,
)

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

QUICK: dict[str, Any] = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100}


@asynccontextmanager
async def two_brokers() -> AsyncIterator[EmbeddedCluster]:
    """Both are bootstrap servers; only broker 1 is up, and leads the one partition of "t"."""
    async with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("t", assignments=[[1, 2]])
        await cluster.stop_broker(2)
        yield cluster


async def swap(cluster: EmbeddedCluster) -> None:
    """Stop broker 1, then start broker 2, which takes the leadership."""
    await cluster.stop_broker(1)
    await cluster.start_broker(2)
    async with AdminClient(cluster.address(2)) as admin:
        await admin.elect_leaders([TopicPartition("t", 0)], election_type=ElectionType.UNCLEAN)
    assert cluster.leader("t") == 2


@pytest.mark.parametrize("in_flight", [False, True], ids=["idle", "with a record pending"])
async def test_rule_24_the_bootstrap_swap_producer(in_flight: bool) -> None:
    """KIP-899, with default options."""
    async with two_brokers() as cluster, producer_of(cluster) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        deliveries = []
        if in_flight:
            rule = cluster.faults.add("Produce", drop=True, count=1)
            deliveries.append(await producer.send("t", b"1", partition=0))
            await until(lambda: rule.struck)
        await swap(cluster)
        deliveries.append(await producer.send("t", b"%d" % (1 + in_flight), partition=0))
        offsets = await all_of(deliveries, 20)
        assert offsets == list(range(1, 1 + len(offsets)))
        assert producer.metrics().metadata.rebootstraps_unavailable >= 1
    assert values(cluster) == list(range(1 + len(offsets)))


async def test_rule_24_the_bootstrap_swap_consumer() -> None:
    async with two_brokers() as cluster, consumer_of(cluster, "t") as consumer:
        await fill(cluster, 1)
        assert await next_number(consumer) == 0
        await swap(cluster)
        await fill(cluster, 1, first=1)
        assert await next_number(consumer) == 1
        assert consumer.metrics().metadata.rebootstraps_unavailable >= 1


async def test_rule_24_with_none_nobody_comes_back_before_the_broker_does() -> None:
    none = {**QUICK, "metadata_recovery_strategy": "none"}
    async with (
        two_brokers() as cluster,
        producer_of(cluster, **none) as producer,
        consumer_of(cluster, "t", **none) as consumer,
    ):
        await producer.send_and_wait("t", b"0", partition=0)
        assert await next_number(consumer) == 0
        await swap(cluster)
        since = len(cluster.requests.select(broker=2))
        delivery = await producer.send("t", b"1", partition=0)
        failures = producer.metrics().metadata.refresh_failures
        await until(lambda: producer.metrics().metadata.refresh_failures >= failures + 5)
        await until(lambda: consumer.metrics().metadata.refresh_failures >= 5)
        assert not delivery.done()
        assert len(cluster.requests.select(broker=2)) == since
        await cluster.start_broker(1)
        assert await all_of([delivery]) == [1]
        assert await next_number(consumer) == 1
        for metrics in (producer.metrics().metadata, consumer.metrics().metadata):
            assert metrics.rebootstraps_unavailable == metrics.rebootstraps_timed_out == 0


async def test_rule_24_a_busy_broker_is_not_unavailable(cluster: EmbeddedCluster) -> None:
    """Every broker has its maximum of requests in flight, and answers none of its requests for a while."""
    cluster.create_topic("three", partitions=3, replication_factor=3)
    options = {**QUICK, "max_in_flight_requests_per_connection": 1, "metadata_max_age_ms": 50}
    async with producer_of(cluster, **options) as producer:
        for partition in range(3):
            await producer.send_and_wait("three", b"0", partition=partition)
        cluster.faults.add("Produce", delay_ms=500, count=3)
        deliveries = [await producer.send("three", b"1", partition=partition) for partition in range(3)]
        assert await all_of(deliveries) == [1, 1, 1]
        assert producer.metrics().metadata.rebootstraps_unavailable == 0


async def test_rule_25_an_outage_without_any_move_ends_by_itself() -> None:
    """The same leaders at the same addresses and epochs are known again, which wakes pending batches and fetches."""
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        async with producer_of(cluster) as producer, consumer_of(cluster, "t") as consumer:
            await producer.send_and_wait("t", b"0", partition=0)
            assert await next_number(consumer) == 0
            outage = cluster.faults.add(disconnect=True)
            delivery = await producer.send("t", b"1", partition=0)
            await until(lambda: producer.metrics().metadata.rebootstraps_unavailable)
            await until(lambda: consumer.metrics().metadata.rebootstraps_unavailable)
            # The batch has had its backoff, so it is ready for a leader whose address is unknown.
            failures = producer.metrics().metadata.refresh_failures
            await until(lambda: producer.metrics().metadata.refresh_failures >= failures + 3)
            outage.remove()
            assert await all_of([delivery], 20) == [1]
            assert await next_number(consumer) == 1


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
async def test_rule_26_and_27_a_broker_asks_for_a_rebootstrap(cluster: EmbeddedCluster, strategy: str) -> None:
    """Error 129: every connection is closed; requests in flight are repeated, records are written once.

    With the strategy `none` the client backs off.
    """
    anew = strategy == "rebootstrap"
    options = {**QUICK, "metadata_recovery_strategy": strategy, "metadata_max_age_ms": 50}
    async with producer_of(cluster, **options) as producer, consumer_of(cluster, "t", **options) as consumer:
        await producer.send_and_wait("t", b"0", partition=0)
        assert await next_number(consumer) == 0
        slow = cluster.faults.add("Produce", hold=True, after=True, count=1)
        delivery = await producer.send("t", b"1", partition=0)
        await until(lambda: slow.struck)
        rule = cluster.faults.add("Metadata", error_code=RebootstrapRequiredError.code, whole=True)
        for client in (producer, consumer):
            failures = client.metrics().metadata.refresh_failures
            await until(lambda: client.metrics().metadata.refresh_failures > failures)  # noqa: B023
        rule.remove()
        slow.release()
        assert await all_of([delivery]) == [1]
        assert await next_number(consumer) == 1
        for metrics in (producer.metrics().metadata, consumer.metrics().metadata):
            assert (metrics.rebootstraps_required > 0) == anew
        assert producer.metrics().retries == int(anew)
        assert len({record.connection for record in asked(cluster, "Produce")}) == 1 + anew
    assert values(cluster) == [0, 1]


async def test_rule_28_an_answer_without_brokers_is_no_success(cluster: EmbeddedCluster) -> None:
    """Known brokers are kept."""

    def nobody(frame: bytes) -> bytes:
        correlation_id, response = decode_response(MetadataResponse, MetadataResponse.MAX_VERSION, frame[4:])
        response.brokers = []
        response.topics = []
        return b"".join(encode_response(response, MetadataResponse.MAX_VERSION, correlation_id))

    async with producer_of(cluster, metadata_max_age_ms=20, **QUICK) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        rule = cluster.faults.add("Metadata", garbage=nobody, after=True)
        await until(lambda: producer.metrics().metadata.refresh_failures >= 5)
        with anyio.fail_after(20):
            await producer.send_and_wait("t", b"1", partition=0)
        refreshes = producer.metrics().metadata.refreshes
        rule.remove()
        await until(lambda: producer.metrics().metadata.refreshes > refreshes)


async def test_rule_29_sending_goes_on_while_nobody_is_there() -> None:
    """`send` accepts records for known topics, keys map to the same partitions, and no record is lost."""
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("t", partitions=4)
        async with producer_of(cluster, **QUICK) as producer:
            for partition in range(4):
                await producer.send_and_wait("t", b"0", partition=partition)
            await cluster.kill_broker(1, failover_delay_ms=0)
            deliveries = []
            for number in range(1, 101):
                for partition in range(4):
                    deliveries.append(producer.send_nowait("t", b"%d" % number, partition=partition))
                await anyio.lowlevel.checkpoint()
            await until(lambda: producer.metrics().metadata.rebootstraps_unavailable)
            deliveries.append(producer.send_nowait("t", b"101", partition=0))
            await cluster.start_broker(1)
            await all_of(deliveries)
        for partition in range(4):
            assert values(cluster, "t", partition) == list(range(101 + (partition == 0)))


async def test_rule_30_another_cluster_is_a_clear_error() -> None:
    """Pending records fail with it, and so does every later call."""
    async with EmbeddedCluster(brokers=1, cluster_id="first") as cluster:
        cluster.create_topic("t")
        async with producer_of(cluster, **QUICK) as producer, consumer_of(cluster, "t", **QUICK) as consumer:
            await producer.send_and_wait("t", b"0", partition=0)
            assert await next_number(consumer) == 0
            port = int(cluster.bootstrap_servers.rpartition(":")[2])
            await cluster.kill_broker(1)
            delivery = await producer.send("t", b"1", partition=0)
            async with taking_over(port, "second") as other:
                with pytest.raises(ClusterIdMismatchError, match=r"second.*first"):
                    await all_of([delivery])
                with pytest.raises(ClusterIdMismatchError):
                    await producer.send("t", b"2", partition=0)
                with pytest.raises(ClusterIdMismatchError):
                    await next_number(consumer)
                assert other.end_offset("t") == 0


@pytest.mark.parametrize("policy", ["warn", "adopt"])
async def test_rule_30_another_cluster_is_adopted(policy: str) -> None:
    """Epochs, ids and the producer id of the former cluster are dropped; pending records go to the new cluster."""
    options = {**QUICK, "cluster_id_mismatch": policy}
    async with EmbeddedCluster(brokers=1, cluster_id="first") as cluster:
        cluster.create_topic("t")
        for _ in range(5):
            cluster.move_leader("t")
        async with producer_of(cluster, **options) as producer:
            await producer.send_and_wait("t", b"0", partition=0)
            port = int(cluster.bootstrap_servers.rpartition(":")[2])
            await cluster.kill_broker(1)
            delivery = await producer.send("t", b"1", partition=0)
            async with taking_over(port, "second") as other:
                assert await all_of([delivery]) == [0]
                assert values(other) == [1]


@asynccontextmanager
async def taking_over(port: int, cluster_id: str) -> AsyncIterator[EmbeddedCluster]:
    """Start another cluster at the address of a killed broker."""
    async with EmbeddedCluster(brokers=1, ports=[port], cluster_id=cluster_id) as cluster:
        cluster.create_topic("t")
        yield cluster


async def test_rule_31_the_admin_client_bootstraps_anew_too() -> None:
    async with two_brokers() as cluster, AdminClient(cluster.bootstrap_servers, **QUICK) as admin:
        assert set(await admin.list_topics()) == {"t"}
        await swap(cluster)
        with anyio.fail_after(20):
            assert [broker.node_id for broker in (await admin.describe_cluster()).brokers] == [2]
            assert (await admin.describe_topics(["t"]))["t"].partitions[0].leader_id == 2


async def test_rule_31_with_none_the_admin_client_does_not() -> None:
    none = {**QUICK, "metadata_recovery_strategy": "none"}
    async with two_brokers() as cluster, AdminClient(cluster.bootstrap_servers, **none) as admin:
        await admin.list_topics()
        await swap(cluster)
        with pytest.raises(KafkaError):
            await admin.list_topics(timeout_ms=500)
