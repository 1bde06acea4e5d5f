"""Records of many tasks are in the log in the order in which the tasks called."""

from __future__ import annotations

import itertools

import anyio
import pytest
from anyio.lowlevel import checkpoint

from aiokafka_lead.errors import BufferFull, UnknownTopicOrPartitionError
from aiokafka_lead.producer import Producer
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import values

pytestmark = pytest.mark.anyio

CALLS = 595


def numbered(number: int, size: int) -> bytes:
    return (b"%d" % number).ljust(size)


def numbers(cluster: EmbeddedCluster) -> list[int]:
    return [int(value or b"") for value in values(cluster)]


async def in_tasks(producer: Producer, size: int, *, together: int) -> None:
    """Send a record in each of many tasks, ``together`` of which begin in one turn; the values number the calls."""
    calls = itertools.count()

    async def send() -> None:
        await producer.send("events", numbered(next(calls), size), partition=0)

    async with anyio.create_task_group() as group:
        for _ in range(CALLS // together):
            for _ in range(together):
                group.start_soon(send)
            await checkpoint()


@pytest.mark.parametrize("together", [7, CALLS])
@pytest.mark.parametrize("size", [10, 5000])
async def test_calls_that_wait_for_a_topic_go_before_those_that_find_it(
    cluster: EmbeddedCluster, size: int, together: int
) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await in_tasks(producer, size, together=together)
    assert numbers(cluster) == list(range(CALLS))


@pytest.mark.parametrize("together", [7, CALLS])
async def test_calls_that_left_others_their_turn_go_before_later_ones(cluster: EmbeddedCluster, together: int) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.partitions_for("events")
        await in_tasks(producer, 5000, together=together)
    assert numbers(cluster) == list(range(CALLS))


@pytest.mark.parametrize("together", [7, CALLS])
async def test_calls_that_wait_for_memory_go_before_later_ones(cluster: EmbeddedCluster, together: int) -> None:
    async with Producer(cluster.bootstrap_servers, buffer_memory=100_000) as producer:
        await producer.partitions_for("events")
        await in_tasks(producer, 5000, together=together)
    assert numbers(cluster) == list(range(CALLS))


async def test_records_of_one_call_stay_in_order_and_begin_behind_calls_that_wait(cluster: EmbeddedCluster) -> None:
    calls = itertools.count()

    async def send_many() -> None:
        call = next(calls)
        await producer.send_many("events", [numbered(call * 1000 + number, 100) for number in range(1000)], partition=0)

    async with Producer(cluster.bootstrap_servers) as producer, anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(send_many)
            await checkpoint()
    got = numbers(cluster)
    assert [number for number in got if number % 1000 == 0] == list(range(0, 10_000, 1000))
    for call in range(10):
        assert [number for number in got if number // 1000 == call] == list(range(call * 1000, call * 1000 + 1000))


async def test_a_call_that_is_cancelled_in_line_is_not_taken_and_keeps_no_other(cluster: EmbeddedCluster) -> None:
    scopes: list[anyio.CancelScope] = []
    held = cluster.faults.add("Produce", hold=True)

    async def send(number: int) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await producer.send("events", numbered(number, 5000), partition=0)

    async with Producer(cluster.bootstrap_servers, buffer_memory=20_000) as producer:
        await producer.partitions_for("events")
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(send, number)
                await checkpoint()
            for scope in scopes[10:30:2]:
                scope.cancel()
            held.remove()
    assert numbers(cluster) == [number for number in range(30) if number < 10 or number % 2]


@pytest.mark.both_loops
@again_if_late(800, 5000)
async def test_calls_that_wait_too_long_in_line_say_for_what(max_block_ms: int, cluster: EmbeddedCluster) -> None:
    failed: list[type[Exception]] = []
    cluster.faults.add("Produce", hold=True)

    async def send(topic: str, size: int) -> None:
        try:
            await producer.send(topic, b"v" * size, partition=0)
        except (BufferFull, UnknownTopicOrPartitionError) as error:
            failed.append(type(error))

    producer = Producer(
        cluster.bootstrap_servers, max_block_ms=max_block_ms, buffer_memory=20_000, allow_auto_create_topics=False
    )
    await producer.start()
    await producer.partitions_for("events")
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(send, "nowhere", 1)
            group.start_soon(send, "events", 9_000)
            await checkpoint()
    await producer.stop(timeout_ms=0)
    assert failed.count(UnknownTopicOrPartitionError) == 5
    assert failed.count(BufferFull) == 3


async def test_a_call_for_an_unknown_topic_keeps_none_for_another_one(cluster: EmbeddedCluster) -> None:
    async with (
        Producer(cluster.bootstrap_servers, allow_auto_create_topics=False) as producer,
        anyio.create_task_group() as group,
    ):
        group.start_soon(producer.send, "nowhere", b"v")
        await checkpoint()
        for number in range(10):
            await producer.send_and_wait("events", b"%d" % number, partition=0)
        group.cancel_scope.cancel()
    assert numbers(cluster) == list(range(10))
