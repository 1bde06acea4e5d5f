"""Cancelling a stop repeatedly: a second Ctrl-C, a supervisor, a timeout.

asyncio's ``Task.cancel`` passes a shield, and interrupts every await.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer
from aiokafka_lead.errors import ClientClosedError
from aiokafka_lead.testing import EmbeddedCluster

from .metadata_support import make_client

pytestmark = pytest.mark.anyio

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])

CLUSTER = EmbeddedCluster.__module__.rpartition(".")[0]
"""Prefix of the names of the embedded cluster's own tasks."""

Cancel = Callable[[asyncio.Task[None]], Awaitable[None]]


async def in_each_round(task: asyncio.Task[None]) -> None:
    """Cancel the task in each round of the event loop until it ends."""
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)


def twice(rounds: int) -> Cancel:
    """Cancel it, and again some rounds of the event loop later."""

    async def cancel(task: asyncio.Task[None]) -> None:
        task.cancel()
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))

    return cancel


ways = pytest.mark.parametrize("cancel", [in_each_round, *map(twice, range(1, 9))])


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(1) as embedded:
        embedded.create_topic("events")
        async with Producer(embedded.bootstrap_servers) as producer:
            await producer.send_many("events", [b"v"] * 10)
        yield embedded


@asynccontextmanager
async def nothing_left(cluster: EmbeddedCluster) -> AsyncIterator[None]:
    """Check that the end leaves no tasks of clients and no connections that did not exist before."""
    before = asyncio.all_tasks()
    yield
    assert not [task for task in asyncio.all_tasks() - before if not task.get_name().startswith(CLUSTER)]
    await no_connections(cluster)


async def no_connections(cluster: EmbeddedCluster) -> None:
    """Wait for the broker, which notices the end of a connection a moment after the client."""
    with anyio.fail_after(20):
        while cluster.connection_count(1):  # noqa: ASYNC110
            await anyio.sleep(0.005)


def consumer_of(cluster: EmbeddedCluster, **options: Any) -> Consumer:
    return Consumer("events", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **options)


MAKERS: dict[str, Callable[[EmbeddedCluster], Any]] = {
    "producer": lambda cluster: Producer(cluster.bootstrap_servers),
    "consumer": consumer_of,
    "member": lambda cluster: consumer_of(cluster, group_id="g"),
    "admin": lambda cluster: AdminClient(cluster.bootstrap_servers),
}


async def use(client: Any, busy: anyio.Event) -> None:
    async with client:
        if isinstance(client, Producer):
            await client.send("events", b"v")
        elif isinstance(client, Consumer):
            await client.getone()
        busy.set()
        await anyio.sleep_forever()


async def cancelled(work: Awaitable[None], busy: anyio.Event, cancel: Cancel) -> None:
    """Start it, and cancel it once it is busy."""
    task = asyncio.ensure_future(work)
    await busy.wait()
    with anyio.fail_after(20):
        await cancel(task)
    with pytest.raises(asyncio.CancelledError):
        await task


@on_asyncio
@ways
@pytest.mark.parametrize("kind", MAKERS)
async def test_a_task_that_is_cancelled_inside_async_with(cluster: EmbeddedCluster, kind: str, cancel: Cancel) -> None:
    client = MAKERS[kind](cluster)
    busy = anyio.Event()
    async with nothing_left(cluster):
        await cancelled(use(client, busy), busy, cancel)
        with anyio.fail_after(20):
            await client.stop()
    assert cluster.requests.count("LeaveGroup") == (kind == "member")


@on_asyncio
@ways
@pytest.mark.parametrize("kind", MAKERS)
async def test_a_stop_that_is_cancelled_while_another_one_waits(
    cluster: EmbeddedCluster, kind: str, cancel: Cancel
) -> None:
    client = MAKERS[kind](cluster)
    await client.start()
    async with nothing_left(cluster):
        first = asyncio.create_task(client.stop())
        await asyncio.sleep(0)
        second = asyncio.create_task(client.stop())
        with anyio.fail_after(20):
            await cancel(first)
            await second
            await client.stop()


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_scope_that_is_cancelled_around_async_with(cluster: EmbeddedCluster, kind: str) -> None:
    client = MAKERS[kind](cluster)
    busy = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(use, client, busy)
        await busy.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(20):
        await client.stop()
    await no_connections(cluster)
    assert cluster.requests.count("LeaveGroup") == (kind == "member")


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_stop_in_a_scope_that_is_cancelled_already(cluster: EmbeddedCluster, kind: str) -> None:
    client = MAKERS[kind](cluster)
    await client.start()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.stop()
    with anyio.fail_after(20):
        await client.stop()
    await no_connections(cluster)


@on_asyncio
async def test_a_time_limit_on_stop(cluster: EmbeddedCluster) -> None:
    """asyncio's timeout, which cancels by ``Task.cancel``. The broker does not acknowledge."""
    cluster.faults.add("Produce", count=None, drop=True)
    producer = Producer(cluster.bootstrap_servers)
    await producer.start()
    async with nothing_left(cluster):
        delivery = await producer.send("events", b"v")
        with anyio.fail_after(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await producer.stop()
            await producer.stop()
            with pytest.raises(ClientClosedError, match="stopped before"):
                await delivery


@on_asyncio
@ways
async def test_a_run_that_is_cancelled_commits_what_is_done(cluster: EmbeddedCluster, cancel: Cancel) -> None:
    consumer = consumer_of(cluster, group_id="g")
    busy = anyio.Event()

    async def handle(record: Any) -> None:
        if record.offset == 4:
            busy.set()
            await anyio.sleep_forever()

    async def run() -> None:
        async with consumer:
            await consumer.run(handle, order="partition")

    async with nothing_left(cluster):
        await cancelled(run(), busy, cancel)
        with anyio.fail_after(20):
            await consumer.stop()
    assert cluster.requests.count("LeaveGroup") == 1
    async with consumer_of(cluster, group_id="g") as reader:
        assert (await reader.getone()).offset == 4


@on_asyncio
@ways
async def test_a_start_that_is_cancelled(cluster: EmbeddedCluster, cancel: Cancel) -> None:
    cluster.requests.clear()
    cluster.faults.add("Metadata", drop=True)
    client = make_client(cluster.bootstrap_servers)
    async with nothing_left(cluster):
        task = asyncio.create_task(client.start())
        await cluster.requests.wait_for("Metadata")
        await cancel(task)
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ClientClosedError):
            client.check()


@on_asyncio
@ways
async def test_an_embedded_cluster_that_is_cancelled(cancel: Cancel) -> None:
    before = asyncio.all_tasks()
    busy = anyio.Event()

    async def serve() -> None:
        async with EmbeddedCluster(2, bootstrap_port=0) as cluster, Producer(cluster.bootstrap_servers) as producer:
            await cluster.stop_broker(2)
            await producer.partitions_for("events")
            busy.set()
            await anyio.sleep_forever()

    await cancelled(serve(), busy, cancel)
    assert asyncio.all_tasks() - before == set()
