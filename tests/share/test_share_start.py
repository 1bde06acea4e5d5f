"""Start of a share consumer: a group that begins at the end begins at that time."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from aiokafka_lead import Client, ShareConsumer, TopicPartition
from aiokafka_lead.errors import RequestTimedOutError, TopicAuthorizationFailedError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import consumer, fill, take, values

pytestmark = pytest.mark.anyio


def late(cluster: EmbeddedCluster, topic: str = "jobs", **options: Any) -> ShareConsumer:
    """Return a member of a group that begins at its topics' ends, the default."""
    return consumer(cluster.bootstrap_servers, topic, group_id="late", **options)


async def test_a_new_group_gets_everything_since_its_first_member_has_started(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    await fill(servers, "jobs", 6)
    async with late(cluster) as jobs:
        for partition in range(3):
            await fill(servers, "jobs", 2, first=10 * partition + 10, partition=partition)
        assert values(await take(jobs, 6)) == [10, 11, 20, 21, 30, 31]


async def test_the_same_on_shared_connections(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client, client.share_consumer("jobs", group_id="late") as jobs:
        await fill(cluster.bootstrap_servers, "jobs", 3)
        assert values(await take(jobs, 3)) == [0, 1, 2]


async def test_no_more_than_one_record_of_each_broker_is_acquired_before_somebody_reads(
    cluster: EmbeddedCluster,
) -> None:
    await fill(cluster.bootstrap_servers, "single", 5)
    async with consumer(cluster.bootstrap_servers, "single") as jobs:
        deliveries = cluster.shares.deliveries("workers", "single")
        assert [each.state for each in deliveries].count("acquired") == 1
        found = await take(jobs, 5)
        assert values(found) == [0, 1, 2, 3, 4]
        assert {record.delivery_count for record in found} == {1}


async def test_a_leader_that_refuses_for_ever_is_not_waited_for(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ShareFetch", broker=cluster.leader("jobs", 1), error_code=75)
    with anyio.fail_after(20):  # request_timeout_ms is 30,000
        async with late(cluster) as jobs:
            with pytest.raises(RequestTimedOutError, match=r"still waiting for the leaders of jobs-1$"):
                await jobs.wait_ready(100)


@again_if_late(1_000, 10_000)
async def test_each_leader_is_waited_for(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    cluster.faults.clear()  # from the first attempt
    broker = cluster.leader("jobs", 1)
    held = cluster.faults.add("ShareFetch", broker=broker, hold=True)
    jobs = late(cluster)
    await jobs.start(wait=False)
    with pytest.raises(RequestTimedOutError, match=r"still waiting for the leaders of jobs-1$"):
        await jobs.wait_ready(timeout_ms)
    held.remove()
    await jobs.wait_ready()
    await jobs.stop()


@again_if_late(500, 8_000)
async def test_a_leader_that_does_not_answer_in_time_is_waited_for_in_the_background(
    timeout_ms: int, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    cluster.faults.clear()  # from the first attempt
    rule = cluster.faults.add("ShareFetch", broker=cluster.leader("single", 0), error_code=15)
    jobs = consumer(cluster.bootstrap_servers, "single", request_timeout_ms=timeout_ms)
    with caplog.at_level(logging.WARNING):
        await jobs.start()
    assert "is still waiting for the leaders of single-0" in caplog.text
    rule.remove()
    await jobs.wait_ready()
    await jobs.stop()


async def test_a_partition_that_cannot_be_read_keeps_nobody_waiting(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ShareFetch", error_code=TopicAuthorizationFailedError)
    with anyio.fail_after(20):
        async with late(cluster) as jobs:
            with pytest.raises(TopicAuthorizationFailedError):
                await jobs.getmany(timeout_ms=10_000)


async def test_a_topic_that_does_not_exist_keeps_nobody_waiting(cluster: EmbeddedCluster) -> None:
    with anyio.fail_after(20):
        async with late(cluster, "nowhere", allow_auto_create_topics=False) as jobs:
            assert not jobs.assignment()


async def test_a_topic_that_is_added_is_waited_for(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    await fill(servers, "single", 2)
    async with late(cluster) as jobs:
        jobs.subscribe(["jobs", "single"])
        await jobs.wait_ready()
        assert TopicPartition("single", 0) in jobs.assignment()
        await fill(servers, "single", 2, first=10)
        assert values(await take(jobs, 2)) == [10, 11]
