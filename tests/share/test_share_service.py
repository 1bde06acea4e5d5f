"""`ShareConsumer` in a service: on shared connections, started before Kafka, with health checks."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import AcknowledgeType, Client, ShareConsumer
from aiokafka_lead.errors import ClientClosedError, ConfigError, RequestTimedOutError
from aiokafka_lead.testing import EmbeddedCluster
from tests.group.support import until
from tests.patience import started
from tests.ports import PortPool
from tests.service.test_start_without_kafka import QUICK

from .support import Handled, Record, configure, consumer, fill, take, values

pytestmark = pytest.mark.anyio

_, RELEASE, REJECT, RENEW = AcknowledgeType


# --- shared connections -----------------------------------------------------------------------------------------------


def member(client: Client, group: str = "workers", **options: Any) -> ShareConsumer:
    return client.share_consumer("jobs", group_id=group, fetch_max_wait_ms=50, **options)


def connections(cluster: EmbeddedCluster) -> int:
    return sum(cluster.connection_count(broker) for broker in cluster.broker_ids)


async def test_share_consumers_share_all_but_a_connection_to_each_leader(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    for group in ("one", "two"):
        await configure(servers, group)
    async with Client(servers, retry_backoff_ms=20) as client, client.producer() as producer:
        for number in range(30):
            await producer.send_and_wait("jobs", b"%d" % number, partition=number % 3)
        async with member(client, "one"), member(client, "two"):  # connections to their coordinators now exist
            before = connections(cluster) - 6
        async with member(client, "one") as one:
            assert values(await take(one, 30)) == list(range(30))
            assert connections(cluster) == before + 3
            async with member(client, "two") as two:
                assert values(await take(two, 30)) == list(range(30))
                assert connections(cluster) == before + 6
            await until(lambda: connections(cluster) == before + 3)
            assert set((await one.commit()).values()) == {None}
        await until(lambda: connections(cluster) == before)
        async with member(client, "two") as two:  # in place of the former, with its own session
            await producer.send_and_wait("jobs", b"30", partition=0)
            assert values(await take(two, 1)) == [30]


async def test_a_fetch_that_a_broker_holds_keeps_no_other_client_waiting(cluster: EmbeddedCluster) -> None:
    async with (
        Client(cluster.bootstrap_servers) as client,
        client.producer() as producer,
        member(client) as jobs,
        member(client, "others") as others,
        anyio.create_task_group() as tasks,
    ):
        held = cluster.faults.add("ShareFetch", hold=True)
        cluster.requests.clear()
        for waiting in (jobs, others):
            tasks.start_soon(partial(waiting.getmany, timeout_ms=30_000))
        await cluster.wait_for_requests("ShareFetch", count=6)
        with anyio.fail_after(25):
            await producer.send_and_wait("jobs", b"1")
            async with client.consumer("jobs", auto_offset_reset="earliest") as reader:
                assert (await reader.getone()).value == b"1"
        tasks.cancel_scope.cancel()
        cluster.faults.clear()
        held.release()


async def test_the_shared_client_s_end_gives_records_back(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 5)
    client = Client(cluster.bootstrap_servers, retry_backoff_ms=20)
    await client.start()
    jobs = member(client, share_acknowledgement_mode="explicit")
    await jobs.start()
    assert len(await take(jobs, 5)) == 5
    await client.stop()
    with pytest.raises(ClientClosedError):
        await jobs.getmany()
    async with consumer(cluster.bootstrap_servers) as other:
        assert {record.delivery_count for record in await take(other, 5)} == {2}


async def test_options_of_the_connections_are_the_shared_client_s(cluster: EmbeddedCluster) -> None:
    client = Client(cluster.bootstrap_servers, client_id="jobs-api", close_timeout_ms=500)
    with pytest.raises(ConfigError, match="retry_backoff_ms differs from the value of the shared Client"):
        member(client, retry_backoff_ms=7)
    assert member(client).client_id == "jobs-api"
    assert member(client, client_id="mine").client_id == "mine"


async def test_dead_letters_of_a_member_on_shared_connections(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 1)

    async def handle(record: Record) -> None:
        raise ValueError("never")

    async with (
        Client(cluster.bootstrap_servers, retry_backoff_ms=20) as client,
        member(client) as jobs,
        client.consumer("jobs.failed", auto_offset_reset="earliest") as failed,
        anyio.create_task_group() as tasks,
    ):

        async def run() -> None:
            await jobs.run(handle, retries=0, dead_letter_topic="jobs.failed")

        tasks.start_soon(run)
        with anyio.fail_after(20):
            assert (await failed.getone()).value == b"0"
        await jobs.stop()


# --- before Kafka is up -----------------------------------------------------------------------------------------------


async def test_members_that_start_while_kafka_is_down_work_when_it_is_up(ports: PortPool) -> None:
    port = ports.take()
    servers = f"127.0.0.1:{port}"
    client = Client(servers, **QUICK)
    await client.start(wait=False)
    alone, shared = consumer(servers, **{**QUICK, "group_id": "one"}), member(client, "two")
    try:
        for jobs in (alone, shared):
            await jobs.start(wait=False)
            with pytest.raises(RequestTimedOutError, match="assignment"):
                await jobs.wait_ready(10)
            assert jobs.health().joined is False
        async with EmbeddedCluster(1, ports=[port]) as cluster:
            cluster.create_topic("jobs")
            for group, jobs in (("one", alone), ("two", shared)):
                await configure(servers, group)
                await jobs.wait_ready()
                assert jobs.health().healthy
            await fill(servers, "jobs", 3)
            for jobs in (alone, shared):
                assert values(await take(jobs, 3)) == [0, 1, 2]
            await alone.stop()
            await client.stop()
    finally:
        await alone.stop(1000)
        await client.stop(1000)


async def test_waiting_for_the_group_ends_with_the_consumer(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ShareGroupHeartbeat", drop=True)
    jobs = consumer(cluster.bootstrap_servers)
    await jobs.start(wait=False)
    caught: list[BaseException] = []

    async def wait() -> None:
        try:
            await jobs.wait_ready()
        except ClientClosedError as error:
            caught.append(error)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await cluster.wait_for_requests("ShareGroupHeartbeat")
            await jobs.stop(500)
    assert len(caught) == 1


# --- watched ----------------------------------------------------------------------------------------------------------


async def test_what_is_counted(anyio_backend: str) -> None:
    async with EmbeddedCluster(brokers=2) as cluster:  # with locks of 30 s
        cluster.create_topic("single", partitions=1, replication_factor=2)
        servers = cluster.bootstrap_servers
        await configure(servers, "workers")
        await fill(servers, "single", 6)
        async with consumer(servers, "single", share_acknowledgement_mode="explicit", max_poll_records=6) as jobs:
            accepted, released, rejected, renewed, *_ = await take(jobs, 6)
            await jobs.acknowledge(accepted)
            await jobs.acknowledge(rejected, REJECT)
            await jobs.acknowledge(released, RELEASE)
            await jobs.acknowledge(renewed, RENEW)
            assert len(await take(jobs, 1)) == 1  # released records
            counts = jobs.metrics()
            single = counts.topics["single"]
            assert (single.records_consumed, single.records_lost) == (7, 0)
            assert (single.records_accepted, single.records_rejected, single.records_released) == (1, 1, 1)
            assert single.locks_renewed == 1
            assert single.bytes_fetched > 0
            assert (counts.failed_fetches, counts.buffered_records, counts.leader_moves) == (0, 0, 0)
            assert counts.fetches == counts.fetch_latency.count >= 2
            assert counts.acknowledge_latency.count >= 4
            cluster.move_leader("single", 0)
            assert len(await take(jobs, 4)) == 4
            counts = jobs.metrics()
            assert counts.leader_moves == 1
            assert (counts.topics["single"].records_consumed, counts.topics["single"].records_lost) == (11, 4)


async def test_what_waits_for_the_application_is_not_handed_out_yet(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "single", 10)
    async with consumer(cluster.bootstrap_servers, "single") as jobs:
        assert len(await take(jobs, 4)) == 4
        counts = jobs.metrics()
        assert (counts.topics["single"].records_consumed, counts.buffered_records) == (4, 6)
    assert jobs.metrics().topics["single"].records_consumed == 4
    single = jobs.metrics().topics["single"]
    assert (single.records_accepted, single.records_released) == (4, 6)


async def test_health(cluster: EmbeddedCluster) -> None:
    jobs = consumer(cluster.bootstrap_servers, request_timeout_ms=1000)
    assert jobs.health().problems == ("the consumer has not been started",)
    go_on = anyio.Event()
    at_work = Handled()

    async def handle(record: Record) -> None:
        at_work.note(record)
        await go_on.wait()

    async with started(jobs), anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run, handle)
        await fill(cluster.bootstrap_servers, "jobs", 1)
        await at_work.until(1)
        await until(lambda: jobs.health().healthy)  # a busy broker may take longer than the timeout for an answer
        health = jobs.health()
        assert (health.healthy, health.joined) == (True, True)
        assert health.handler_ms is not None
        assert health.since_fetch_ms is not None
        assert health.since_heartbeat_ms is not None
        assert health.coordinator in cluster.broker_ids
        go_on.set()
        await until(lambda: jobs.health().handler_ms is None)
        cluster.faults.add("ShareFetch", drop=True)
        await until(lambda: any("no broker has answered a fetch" in each for each in jobs.health().problems))
        cluster.faults.clear()
        await until(lambda: jobs.health().healthy)
        await jobs.stop()
    assert jobs.health().problems == ("the consumer has been stopped",)


async def test_a_long_pause_of_the_application_is_no_problem(cluster: EmbeddedCluster) -> None:
    async with started(consumer(cluster.bootstrap_servers, request_timeout_ms=100)) as jobs:
        while jobs.health().since_fetch_ms is None:
            await jobs.getmany(timeout_ms=10)
        await until(lambda: (jobs.health().since_fetch_ms or 0) > 700)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(jobs.getmany, timeout_ms=5_000))
            await anyio.lowlevel.checkpoint()
            assert jobs.health().healthy
            tasks.cancel_scope.cancel()


async def test_a_loop_that_asks_between_its_reads_learns_of_brokers_that_do_not_answer(
    cluster: EmbeddedCluster,
) -> None:
    async with started(consumer(cluster.bootstrap_servers, request_timeout_ms=1000)) as jobs:
        cluster.faults.add("ShareFetch", drop=True)
        with anyio.fail_after(20):
            while not any("no broker has answered a fetch" in each for each in jobs.health().problems):
                assert await jobs.getmany(timeout_ms=20) == {}
