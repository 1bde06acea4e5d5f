"""The embedded cluster starts, stops at once, leaves no traces, and reports errors."""

from __future__ import annotations

import os
import time
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer, errors
from aiokafka_lead._wire.messages.metadata import MetadataRequest, MetadataResponse
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster
from aiokafka_lead.testing._server.context import RequestContext

from .raw import batch, connected
from .test_fetch import fetch_request, wanted
from .test_produce import produce

pytestmark = pytest.mark.anyio


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files through /proc")
async def test_it_ends_at_once_and_leaves_nothing_open() -> None:
    async def once() -> float:
        async with EmbeddedCluster(brokers=3, bootstrap_port=0) as cluster:
            cluster.create_topic("t", 3)
            await cluster.kill_broker(3)
            async with connected(cluster.address(1)) as idle, connected(cluster.address(1)) as client:
                await client.send(fetch_request(wanted(0), max_wait_ms=60_000), 12)
                await cluster.wait_for_requests("Fetch")
                cluster.faults.add("Metadata", delay_ms=60_000)
                await idle.send(MetadataRequest(topics=None))
                await cluster.wait_for_requests("Metadata")
                began = time.monotonic()
                # The clients are still connected when the cluster stops.
                await cluster.__aexit__(None, None, None)
                ended = time.monotonic()
                for gone in (idle, client):
                    with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                        await gone.stream.receive()
        return ended - began

    await once()
    before = open_files()
    assert await once() < 20  # a third of what its clients wait for
    assert open_files() == before


async def test_the_block_s_error_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with EmbeddedCluster(brokers=1):
            raise KeyError("mine")


async def test_a_cancelled_block_ends() -> None:
    with anyio.move_on_after(0.05) as scope:
        async with EmbeddedCluster(brokers=2):
            await anyio.sleep_forever()
    assert scope.cancelled_caught


@pytest.mark.both_loops
async def test_a_mistake_of_the_cluster_itself_is_not_swallowed() -> None:
    def fail(context: RequestContext, request: Any) -> None:
        raise ZeroDivisionError

    cluster = EmbeddedCluster(brokers=1)
    await cluster.__aenter__()
    cluster._handlers[MetadataRequest.API_KEY] = fail
    async with connected(cluster.address(1)) as client:
        await client.send(MetadataRequest(topics=None))
        with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            await client.stream.receive()
    with pytest.raises(ExceptionGroup) as caught:
        await cluster.__aexit__(None, None, None)
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)


@pytest.mark.both_loops
async def test_another_task_may_leave_the_cluster() -> None:
    cluster = EmbeddedCluster(brokers=1)

    async def enter() -> None:
        await cluster.__aenter__()

    async def leave() -> None:
        await cluster.__aexit__(None, None, None)

    for _ in range(2):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(enter)
        async with connected(cluster.address(1)) as client:
            assert (await client.call(MetadataRequest(topics=None))).brokers
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(leave)
            assert await client.is_closed()
        assert not cluster.is_running(1)


async def test_a_cluster_has_addresses_once_it_has_started() -> None:
    cluster = EmbeddedCluster(brokers=1)
    for call in (lambda: cluster.bootstrap_servers, lambda: cluster.connection_count(1)):
        with pytest.raises(errors.IllegalStateError, match="has not been started"):
            call()
    with pytest.raises(errors.IllegalStateError, match="has not been started"):
        await cluster.start_broker(1)


async def test_ipv6() -> None:
    async with EmbeddedCluster(brokers=1, host="::1", bootstrap_port=0) as cluster:
        cluster.create_topic("t")
        for address in (cluster.bootstrap_servers, cluster.bootstrap_address):
            async with Producer(address) as producer:
                await producer.send_and_wait("t", b"v")
    assert cluster.end_offset("t") == 2


@pytest.mark.both_loops
async def test_a_port_that_is_taken_is_an_error_that_leaves_nothing() -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        port = int(cluster.address(1).rpartition(":")[2])
        with pytest.raises(OSError):
            async with EmbeddedCluster(brokers=2, ports=[0, port]):
                pass


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"brokers": 0}, "brokers"),
        ({"brokers": [1, 1]}, "brokers"),
        ({"brokers": 2, "ports": [1]}, "ports"),
        ({"brokers": 2, "racks": ["a"]}, "racks"),
    ],
)
async def test_options_are_checked(options: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.ConfigError, match=named):
        EmbeddedCluster(**options)


async def test_one_address_leads_to_whoever_runs() -> None:
    async with EmbeddedCluster(brokers=2, bootstrap_port=0) as cluster:
        for stopped in (None, 1):
            if stopped is not None:
                await cluster.stop_broker(stopped)
            async with connected(cluster.bootstrap_address) as client:
                assert (await client.call(MetadataRequest(topics=None))).brokers
        await cluster.stop_broker(2)
        async with connected(cluster.bootstrap_address) as client:
            assert await client.is_closed()
        await cluster.change_address(2)
        await cluster.start_broker(2)
        async with connected(cluster.bootstrap_address) as client:
            assert [b.node_id for b in (await client.call(MetadataRequest(topics=None))).brokers] == [2]
    async with EmbeddedCluster(brokers=1) as cluster:
        with pytest.raises(errors.ConfigError, match="bootstrap_port"):
            _ = cluster.bootstrap_address


async def test_a_broker_is_replaced_by_another() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("t", assignments=[[1, 2]])
        async with connected(cluster.address(1)) as client:
            await produce(client, batch(b"a"))
        assert await cluster.add_broker(rack="r") == 3
        cluster.hold_reassignments = True
        cluster.reassign("t", 0, [3, 2])
        assert cluster.leader("t") == 1
        assert cluster.replicas("t") == [3, 2, 1]
        cluster.complete_reassignments()
        assert (cluster.leader("t"), cluster.leader_epoch("t"), cluster.isr("t")) == (3, 1, [3, 2])
        await cluster.stop_broker(1)
        async with connected(cluster.address(3)) as client:
            assert (await produce(client, batch(b"b"))).base_offset == 1
            brokers = (await client.call(MetadataRequest(topics=None))).brokers
            assert [(b.node_id, b.rack) for b in brokers] == [(2, None), (3, "r")]
        with pytest.raises(errors.ConfigError):
            await cluster.add_broker(3)


async def test_connections_are_counted() -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        async with connected(cluster.address(1)) as client, connected(cluster.address(1)) as other:
            for each in (client, other):
                await each.call(MetadataRequest(topics=None))
            assert cluster.connection_count(1) == 2
        with anyio.fail_after(20):
            while cluster.connection_count(1):
                await anyio.lowlevel.checkpoint()


@pytest.mark.both_loops
async def test_a_client_that_does_not_read_stops_being_served() -> None:
    """Answers waiting for a client are bounded: a broker accepts no more of its requests until it reads."""
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        await produce(client, batch(*[b"x" * 1000] * 900))
        with anyio.move_on_after(0.5):
            for _ in range(100):
                await client.send(fetch_request(wanted(0)), 12)
        served = cluster.requests.count("Fetch")
        assert served < 30
        with anyio.fail_after(20):
            for _ in range(served):
                await client.receive_frame()
        await cluster.wait_for_requests("Fetch", count=min(100, served + 1))


async def test_a_thread_s_cluster_from_a_plain_function() -> None:
    def use() -> None:
        with ClusterThread(EmbeddedCluster(brokers=2)) as cluster:
            cluster.create_topic("t", 2)
            cluster.stop_broker(1)
            assert [cluster.leader("t", p) for p in (0, 1)] == [2, 2]
            cluster.start_broker(1)
            cluster.kill_broker(2, failover_delay_ms=0)
            assert cluster.leader("t") == 1
            assert cluster.add_broker() == 3
            with pytest.raises(TimeoutError):
                cluster.wait_for_requests("Fetch", timeout_ms=10)
            with pytest.raises(errors.TopicAlreadyExistsError):
                cluster.create_topic("t")
        with pytest.raises(RuntimeError, match="context manager"):
            ClusterThread(EmbeddedCluster()).create_topic("t")

    await anyio.to_thread.run_sync(use)


async def test_a_thread_s_cluster_from_an_event_loop() -> None:
    with ClusterThread(EmbeddedCluster(brokers=2)) as cluster:
        await cluster.create_topic("t", 2)
        await cluster.stop_broker(1)
        assert cluster.leader("t") == 2
        await cluster.start_broker(1)
        async with anyio.create_task_group() as tasks, connected(cluster.address(1)) as client:

            async def wait() -> None:
                await cluster.wait_for_requests("Metadata")

            tasks.start_soon(wait)
            await client.call(MetadataRequest(topics=None))


@pytest.mark.both_loops
async def test_any_thread_may_release_the_requests_that_a_fault_holds() -> None:
    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        for release in ("release", "remove", "clear"):
            held = cluster.faults.add("Metadata", hold=True)
            async with connected(cluster.address(1)) as client:
                await client.send(MetadataRequest(topics=None))
                await cluster.wait_for_requests("Metadata")
                cluster.requests.clear()
                cluster.faults.clear() if release == "clear" else getattr(held, release)()
                assert (await client.receive(MetadataResponse, MetadataRequest.MAX_VERSION))[1].brokers
            cluster.faults.clear()


async def test_a_function_of_a_fault_may_call_the_cluster_in_a_thread() -> None:
    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        cluster.create_topic("t")
        cluster.faults.add("Metadata", when=lambda _: cluster.end_offset("t") == 0, error_code=35, whole=True)
        async with connected(cluster.address(1)) as client:
            assert (await client.call(MetadataRequest(topics=None))).error_code == 35


@pytest.mark.both_loops
async def test_an_operation_that_is_cancelled_ends() -> None:
    began = time.monotonic()
    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        with anyio.move_on_after(0.05) as scope:
            await cluster.wait_for_requests("Fetch", timeout_ms=60_000)
        assert scope.cancelled_caught
    assert time.monotonic() - began < 30


async def test_an_operation_that_is_not_awaited_is_a_warning() -> None:
    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        with pytest.warns(RuntimeWarning, match="wait_for_requests' was never awaited"):
            cluster.wait_for_requests("Fetch", timeout_ms=1)
        await cluster.stop_broker(1)
