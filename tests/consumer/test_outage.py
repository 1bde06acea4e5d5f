"""A consumer's health while no broker can be reached."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from aiokafka_lead.consumer import Consumer
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import started
from .support import consumer_of, fill, numbers, take, values

pytestmark = pytest.mark.anyio

LIMIT_MS = 600
"""Longest time of a fetch without an answer, from the options below."""


def reader(cluster: EmbeddedCluster) -> Consumer[bytes, bytes]:
    return consumer_of(cluster, "events", request_timeout_ms=500, fetch_max_wait_ms=100)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(30):
        while not condition():  # noqa: ASYNC110 - no event
            await anyio.sleep(0.01)


async def test_brokers_that_are_away_are_no_reason_to_start_the_process_anew(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(1))
    async with started(reader(cluster)) as consumer, anyio.create_task_group() as tasks:
        await take(consumer, 1)
        assert consumer.health().reachable
        tasks.start_soon(take, consumer, 1)
        for broker in cluster.broker_ids:
            await cluster.kill_broker(broker)
        await until(lambda: (consumer.health().since_fetch_ms or 0) > 2 * LIMIT_MS and not consumer.health().reachable)
        health = consumer.health()
        assert (health.live, health.reachable, health.own_problems) == (True, False, ())
        (problem,) = health.problems
        assert problem.startswith("no broker has answered a fetch")
        for broker in cluster.broker_ids:
            await cluster.start_broker(broker)
        await until(lambda: consumer.health().healthy)
        assert consumer.health().reachable
        await fill(cluster, values(1))


async def test_brokers_that_are_there_and_do_not_answer_are_a_problem(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(1))
    async with started(reader(cluster)) as consumer, anyio.create_task_group() as tasks:
        await take(consumer, 1)
        tasks.start_soon(take, consumer, 1)
        cluster.faults.add("Fetch", drop=True)
        await until(lambda: any("no broker has answered a fetch" in each for each in consumer.health().own_problems))
        cluster.faults.clear()
        await until(lambda: consumer.health().healthy)
        await fill(cluster, values(1))


async def test_an_answer_that_cannot_be_read_is_asked_for_again(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(1))
    async with consumer_of(cluster, "events", reconnect_backoff_ms=10, retry_backoff_ms=10) as consumer:
        await take(consumer, 1)
        rule = cluster.faults.add(
            "Fetch",
            broker=cluster.leader("events"),
            count=3,
            garbage=lambda answer: answer[:4] + b"\x7f" * 4 + answer[8:],
        )
        await fill(cluster, values(1, start=1))
        with anyio.fail_after(20):
            assert numbers(await take(consumer, 1)) == [1]
        assert rule.struck == 3
