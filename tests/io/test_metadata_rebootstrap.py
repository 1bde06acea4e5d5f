"""Rebootstrapping: rules 24 to 30 of the leadership rules, against embedded brokers (KIP-899, KIP-1102)."""

from __future__ import annotations

import logging
import time

import anyio
import pytest

from aiokafka_lead._io.connection.settings import Lane
from aiokafka_lead._wire.messages.list_groups import ListGroupsRequest
from aiokafka_lead.errors import ClusterIdMismatchError, KafkaConnectionError, KafkaError, RebootstrapRequiredError
from aiokafka_lead.testing import EmbeddedCluster

from .metadata_support import make_client, running, until

pytestmark = pytest.mark.anyio


async def test_rule_24_the_bootstrap_swap_of_kip_899() -> None:
    """The bootstrap list names brokers 1 and 2, only 1 is up; then 1 stops and 2 starts."""
    async with EmbeddedCluster(2) as cluster:
        await cluster.stop_broker(2)
        async with running(cluster, retry_backoff_ms=100, reconnect_backoff_ms=50) as client:  # the defaults
            assert set(client.metadata.snapshot.brokers) == {1}
            await cluster.stop_broker(1)
            await cluster.start_broker(2)
            began = time.monotonic()
            client.metadata.request_update()  # a client without work need not notice
            await until(client, lambda snapshot: set(snapshot.brokers) == {2})
            assert time.monotonic() - began < 20
            assert client.metadata.metrics().rebootstraps_unavailable >= 1
            assert (await client.brokers.get(2)).ready


async def test_rule_24_strategy_none_stays_unavailable_until_its_broker_is_back() -> None:
    async with EmbeddedCluster(2) as cluster:
        await cluster.stop_broker(2)
        async with running(cluster, metadata_recovery_strategy="none") as client:
            await cluster.stop_broker(1)
            await cluster.start_broker(2)
            client.metadata.request_update()
            with pytest.raises(KafkaError):
                await client.metadata.topic("t", 1000)
            assert set(client.metadata.snapshot.brokers) == {1}
            await cluster.start_broker(1)
            await until(client, lambda snapshot: set(snapshot.brokers) == {1, 2})
            assert client.metadata.metrics().rebootstraps_unavailable == 0


async def test_rule_24_one_of_several_brokers_down_is_no_reason() -> None:
    async with EmbeddedCluster(2) as cluster, running(cluster) as client:
        await client.brokers.get(1)
        await cluster.stop_broker(1)
        await until(client, lambda snapshot: set(snapshot.brokers) == {2})
        assert client.metadata.metrics().rebootstraps_unavailable == 0


async def test_rule_24_a_broker_that_refuses_one_connection_and_leaves_another_waiting_is_unavailable() -> None:
    """Otherwise lanes that are refused in turn would keep each other from a rebootstrap."""
    async with (
        EmbeddedCluster(1) as cluster,
        running(cluster, socket_connection_setup_timeout_ms=120_000) as client,
    ):
        waiting = cluster.faults.add("ApiVersions", hold=True, count=1)
        assert client.brokers.ready(1, Lane.DATA) is None
        with anyio.fail_after(20):
            while not waiting.struck:  # noqa: ASYNC110 - no event
                await anyio.sleep(0.002)
        refusing = cluster.faults.add(disconnect=True)
        client.metadata.request_update()
        await until(client, lambda snapshot: set(snapshot.brokers) == {-1})
        refusing.remove()
        waiting.release()
        await until(client, lambda snapshot: set(snapshot.brokers) == {1})


async def test_rule_24_a_broker_that_is_being_connected_to_is_no_reason() -> None:
    async with (
        EmbeddedCluster(2) as cluster,
        running(cluster, socket_connection_setup_timeout_ms=120_000, request_timeout_ms=300) as client,
    ):
        waiting = cluster.faults.add("ApiVersions", broker=2, hold=True)
        known = client.metadata.metrics()
        await cluster.stop_broker(2)
        await cluster.start_broker(2)
        await cluster.stop_broker(1)
        client.metadata.request_update()
        with anyio.fail_after(20):
            while client.metadata.metrics().refresh_failures < known.refresh_failures + 3:  # noqa: ASYNC110
                await anyio.sleep(0.002)
        assert set(client.metadata.snapshot.brokers) == {1, 2}
        waiting.remove()
        waiting.release()
        await until(client, lambda snapshot: set(snapshot.brokers) == {2})
        assert client.metadata.metrics().rebootstraps_unavailable == 0


async def test_rule_25_down_then_up_without_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    """While no broker is up, the client rebootstraps once, then retries the bootstrap servers with backoff."""
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        with caplog.at_level(logging.INFO, logger="aiokafka_lead"):
            await client.brokers.get(1)
            await cluster.stop_broker(1)
            with pytest.raises(KafkaError):
                await client.metadata.topic("t", 1000)
            with anyio.fail_after(20):
                while not client.metadata.metrics().rebootstraps_unavailable:  # noqa: ASYNC110
                    await anyio.sleep(0.002)
            assert client.metadata.metrics().rebootstraps_unavailable == 1
            await cluster.start_broker(1)
            assert (await client.metadata.topic("t", 10_000)).name == "t"
        lines = [record for record in caplog.records if "bootstrapping again" in record.message]
        assert len(lines) == client.metadata.metrics().rebootstraps_unavailable


async def test_rule_25_all_brokers_at_new_addresses_but_the_bootstrap_server() -> None:
    async with EmbeddedCluster(3) as cluster:
        bootstrap = cluster.address(1)
        async with running(bootstrap) as client:
            await cluster.create_topic("t", 3, replication_factor=3)
            await client.metadata.topic("t", 5000)
            for broker in (1, 2, 3):
                await cluster.stop_broker(broker)
            for broker in (2, 3):
                await cluster.start_broker(broker, port=0)
            await cluster.start_broker(1)
            snapshot = await until(
                client,
                lambda snapshot: all(
                    node_id in snapshot.brokers
                    and f"{snapshot.brokers[node_id].host}:{snapshot.brokers[node_id].port}" == cluster.address(node_id)
                    for node_id in (1, 2, 3)
                ),
            )
            assert snapshot.partition_count("t") == 3


async def test_rule_26_no_metadata_for_too_long() -> None:
    async with (
        EmbeddedCluster(1) as cluster,
        running(cluster, metadata_recovery_rebootstrap_trigger_ms=300, request_timeout_ms=60_000) as client,
    ):
        await client.brokers.get(1)
        fault = cluster.faults.add("Metadata", drop=True)
        client.metadata.request_update()
        began = time.monotonic()
        await until(client, lambda snapshot: set(snapshot.brokers) == {-1})
        assert 0.3 <= time.monotonic() - began < 20
        fault.remove()
        await until(client, lambda snapshot: set(snapshot.brokers) == {1})
        assert client.metadata.metrics().rebootstraps_timed_out >= 1


async def test_rule_28_answers_that_are_no_success_do_not_stop_the_timer() -> None:
    async with (
        EmbeddedCluster(1) as cluster,
        running(cluster, metadata_recovery_rebootstrap_trigger_ms=300) as client,
    ):
        fault = cluster.faults.add("Metadata", error_code=-1, whole=True)
        client.metadata.request_update()
        await until(client, lambda _: client.metadata.metrics().rebootstraps_timed_out >= 1)
        fault.remove()
        await until(client, lambda snapshot: set(snapshot.brokers) == {1})


async def test_rule_26_and_27_a_broker_asks_for_a_rebootstrap() -> None:
    """Error 129: every connection is closed, and requests in flight fail with a retriable error."""
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        coordinator = await client.brokers.get(1, Lane.COORDINATOR)
        cluster.faults.add("ListGroups", drop=True)
        failures: list[KafkaError] = []

        async def in_flight() -> None:
            try:
                await coordinator.request(ListGroupsRequest())
            except KafkaError as error:
                failures.append(error)

        async with anyio.create_task_group() as callers:
            callers.start_soon(in_flight)
            await cluster.requests.wait_for("ListGroups")
            cluster.faults.add("Metadata", error_code=RebootstrapRequiredError.code, whole=True, count=1)
            client.metadata.request_update()
        assert [(error.retriable, isinstance(error, KafkaConnectionError)) for error in failures] == [(True, True)]
        await until(client, lambda snapshot: set(snapshot.brokers) == {1})
        assert client.metadata.metrics().rebootstraps_required == 1


async def test_rule_26_under_none_error_129_is_a_failure_with_backoff() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster, metadata_recovery_strategy="none") as client:
        cluster.faults.add("Metadata", error_code=RebootstrapRequiredError.code, whole=True, count=3)
        client.metadata.request_update()
        refreshes = client.metadata.metrics().refreshes
        await until(client, lambda _: client.metadata.metrics().refreshes > refreshes)
        assert client.metadata.metrics().refresh_failures == 3
        assert client.metadata.metrics().rebootstraps_required == 0


async def test_rule_29_topics_stay_known_during_a_rebootstrap() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        await cluster.create_topic("t", 7)
        await client.metadata.topic("t", 5000)
        await client.brokers.get(1)
        await cluster.stop_broker(1)
        await until(client, lambda snapshot: set(snapshot.brokers) == {-1})
        assert len((await client.metadata.topic("t", 0)).partitions) == 7


async def replaced(old: EmbeddedCluster, new_id: str) -> EmbeddedCluster:
    """Start another cluster at the address of a stopped one."""
    port = int(old.bootstrap_servers.rpartition(":")[2])
    return EmbeddedCluster(1, ports=[port], cluster_id=new_id)


async def test_rule_30_another_cluster_is_a_clear_error() -> None:
    async with EmbeddedCluster(1, cluster_id="first") as cluster:
        client = make_client(cluster.bootstrap_servers)
        await client.start()
        await client.brokers.get(1)
        failed = anyio.Event()
        client.on_fatal(lambda _: failed.set())
    try:
        async with await replaced(cluster, "second"):
            with anyio.fail_after(20):
                await failed.wait()
            with pytest.raises(ClusterIdMismatchError, match=r"second.*first"):
                client.check()
            with pytest.raises(ClusterIdMismatchError):
                await client.metadata.topic("t", 1000)
    finally:
        await client.stop()


async def test_rule_30_a_single_address_that_now_belongs_to_another_cluster() -> None:
    """A known broker's address answers for another cluster: the bootstrap servers have the right one."""
    unchecked = {"metadata_cluster_check_enable": False}
    async with EmbeddedCluster(2, cluster_id="first") as cluster, running(cluster.address(1), **unchecked) as client:
        port = int(cluster.address(2).rpartition(":")[2])
        await cluster.kill_broker(2, failover_delay_ms=60_000)
        async with EmbeddedCluster(1, ports=[port], cluster_id="second") as other:
            # Broker 1 still names broker 2; it is slow just now, so that the other one is asked as well.
            slow = cluster.faults.add("Metadata", broker=1, hold=True, count=1)
            client.metadata.request_update()
            await until(client, lambda _: client.metadata.metrics().rebootstraps_other_cluster == 1)
            assert other.requests.count("Metadata") >= 1
            slow.release()
            await until(client, lambda snapshot: set(snapshot.brokers) == {1, 2})
            assert client.metadata.snapshot.cluster_id == "first"
            client.check()


@pytest.mark.parametrize("policy", ["warn", "adopt"])
async def test_rule_30_another_cluster_is_adopted(policy: str) -> None:
    async with EmbeddedCluster(1, cluster_id="first") as cluster:
        await cluster.create_topic("t", 2)
        client = make_client(cluster.bootstrap_servers, cluster_id_mismatch=policy)
        await client.start()
        client.metadata.add_topics(["t"])
        await until(client, lambda snapshot: snapshot.partition_count("t") == 2)
    try:
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(client.metadata.topic, "new", 20_000)  # such a call does not fail meanwhile
            async with await replaced(cluster, "second") as second:
                await second.create_topic("t", 3)
                await second.create_topic("new", 1)
                await until(client, lambda snapshot: snapshot.cluster_id == "second")
                await until(client, lambda snapshot: snapshot.partition_count("new") == 1)
                snapshot = await until(client, lambda snapshot: snapshot.partition_count("t") == 3)
                assert snapshot.topics["t"].topic_id == second.topic_id("t")
                client.check()
    finally:
        await client.stop()


@pytest.mark.parametrize("policy", ["fail", "warn", "adopt"])
async def test_rule_30_the_own_cluster_is_preferred_while_a_bootstrap_server_leads_to_it(policy: str) -> None:
    async with EmbeddedCluster(2, cluster_id="first") as cluster:
        servers = f"{cluster.address(1)},{cluster.address(2)}"
        port = int(cluster.address(1).rpartition(":")[2])
        async with running(servers, cluster_id_mismatch=policy) as client:
            await cluster.kill_broker(1, failover_delay_ms=0)
            slow = cluster.faults.add("Metadata", broker=2, hold=True)
            async with EmbeddedCluster(1, ports=[port], cluster_id="second") as other:
                client.metadata.request_update()
                await other.requests.wait_for("Metadata")
                slow.remove()
                slow.release()
                await until(client, lambda snapshot: set(snapshot.brokers) == {2})
                assert client.metadata.snapshot.cluster_id == "first"
                client.check()
