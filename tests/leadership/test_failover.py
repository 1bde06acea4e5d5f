"""Rule 32: the refreshes of earlier leader moves do not delay the refresh after the death of a broker."""

from __future__ import annotations

import time
from functools import partial

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.testing import EmbeddedCluster

from .support import NEVER, consumer_of, fill, next_number, producer_of, until

pytestmark = pytest.mark.anyio

MOVES = 16
"""If each refresh waited twice as long as the previous one, the last would take ten minutes."""
T0 = TopicPartition("t", 0)


async def test_rule_32_a_producer_notices_the_death_of_a_broker_after_a_burst_of_moves() -> None:
    async with EmbeddedCluster() as cluster, producer_of(cluster, **NEVER) as producer:
        cluster.create_topic("t", assignments=[[1, 2, 3]])
        await producer.send_and_wait("t", b"0", partition=0)
        for number in range(MOVES):
            cluster.move_leader("t")
            await producer.send_and_wait("t", b"%d" % (1 + number), partition=0)
            await until(partial(_confirmed, producer, 1 + number))
        await cluster.kill_broker(cluster.leader("t"))
        with anyio.fail_after(20):
            await producer.send_and_wait("t", b"last", partition=0)


async def test_rule_32_a_consumer_notices_the_death_of_a_broker_after_a_burst_of_moves() -> None:
    async with EmbeddedCluster() as cluster, consumer_of(cluster, "t", **NEVER) as consumer:
        cluster.create_topic("t", assignments=[[1, 2, 3]])
        await fill(cluster, 1)
        assert await next_number(consumer) == 0
        for number in range(MOVES):
            cluster.move_leader("t")
            await fill(cluster, 1, first=1 + number)
            assert await next_number(consumer) == 1 + number
            await until(partial(_confirmed, consumer, 1 + number))
        await cluster.kill_broker(cluster.leader("t"))
        await fill(cluster, 1, first=1 + MOVES)
        assert await next_number(consumer) == 1 + MOVES


async def test_rule_32_a_broker_that_nobody_needs_is_not_asked_about_for_ever() -> None:
    """It is back and leads again without traffic to it: its lost connection no longer matters."""
    async with EmbeddedCluster() as cluster, producer_of(cluster, request_timeout_ms=2_000) as producer:
        cluster.create_topic("t", assignments=[[1, 2, 3], [2, 3, 1]])
        for partition in range(2):
            await producer.send_and_wait("t", b"0", partition=partition)
        await cluster.kill_broker(2)
        await until(lambda: cluster.leader("t", 1) != 2)
        await producer.send_and_wait("t", b"1", partition=1)
        await cluster.start_broker(2)
        cluster.move_leader("t", 1, to=2)
        cluster.move_leader("t", 0, to=3)
        await producer.send_and_wait("t", b"2", partition=0)  # brings metadata that names broker 2
        await until(lambda: time.monotonic() > cluster.requests.select("Metadata")[-1].time + 2.5)


async def test_rule_32_a_query_of_offsets_goes_on_with_the_leader_epoch() -> None:
    """Without the backoff that its former leader's answer started."""
    async with EmbeddedCluster() as cluster, consumer_of(cluster, "t", **NEVER) as consumer:
        cluster.create_topic("t", assignments=[[1, 2, 3]])
        await fill(cluster, 2)
        assert await next_number(consumer) == 0
        await cluster.kill_broker(cluster.leader("t"))
        with anyio.fail_after(20):
            assert await consumer.end_offsets([T0]) == {T0: 2}


@pytest.mark.parametrize("connected", [True, False], ids=["its connection breaks", "its connection broke before"])
async def test_rule_32_a_commit_finds_the_coordinator_that_took_over(connected: bool) -> None:
    """Without waiting out the backoffs of lookups, or of the connection to the dead broker."""
    patience = {**NEVER, "reconnect_backoff_ms": 60_000, "reconnect_backoff_max_ms": 60_000}
    async with EmbeddedCluster() as cluster:
        cluster.create_topic("t", assignments=[[1, 2, 3]])
        await fill(cluster, 1)
        servers = cluster.bootstrap_servers
        async with Consumer(bootstrap_servers=servers, group_id="g", enable_auto_commit=False, **patience) as consumer:
            consumer.assign([T0])
            await consumer.commit({T0: 1})
            coordinator = cluster.coordinator("g")
            connections = cluster.connection_count(coordinator)
            assert connections
            if connected:
                cluster.faults.add("OffsetCommit", drop=True, count=1)
            killing = cluster.kill_broker(coordinator)
            if connected:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_commit, consumer)
                    await until(lambda: cluster.requests.select("OffsetCommit")[1:])
                    await killing
            else:
                await killing
                await _commit(consumer)
            assert await consumer.committed(T0) is not None


def _confirmed(client: Producer | Consumer, hints: int) -> bool:
    """Return True once refreshes have confirmed this number of hints."""
    return client.metrics().metadata.hints_confirmed >= hints


async def _commit(consumer: Consumer) -> None:
    with anyio.fail_after(20):
        await consumer.commit({T0: 1})
