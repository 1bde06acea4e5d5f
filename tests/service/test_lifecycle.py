"""Ends of clients of every kind: stopped by several calls at once, or not at all."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from aiokafka_lead import Client, Consumer, Delivery, Producer, ShareConsumer, TransactionPipeline
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio


@pytest.fixture(name="cluster")
async def one_broker() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(1) as cluster:
        cluster.create_topic("events")
        yield cluster


# --- stopped by several calls at once --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of client, and the wait of its `stop`."""

    make: Callable[[str], Any]
    awaits: str
    """The request that its `stop` waits for."""
    work: Callable[[Any], Any] | None = None
    """Makes that request necessary; may return a delivery."""


async def send(producer: Any) -> Delivery:
    delivery: Delivery = await producer.send("events", b"v")
    return delivery


async def commit(pipeline: Any) -> None:
    async with pipeline.transaction() as transaction:
        await transaction.send("events", b"v")


async def send_on_it(client: Any) -> Delivery:
    producer = client.producer()
    await producer.start()
    return await send(producer)


KINDS = {
    "producer": Kind(Producer, "Produce", send),
    "pipeline": Kind(lambda servers: TransactionPipeline(servers, transactional_id="copier"), "EndTxn", commit),
    "consumer": Kind(lambda servers: Consumer("events", bootstrap_servers=servers, group_id="g"), "LeaveGroup"),
    "share": Kind(
        lambda servers: ShareConsumer("events", bootstrap_servers=servers, group_id="s"), "ShareGroupHeartbeat"
    ),
    "client": Kind(Client, "Produce", send_on_it),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_second_stop_ends_within_its_own_time(cluster: EmbeddedCluster, kind: str) -> None:
    of = KINDS[kind]
    client = of.make(cluster.bootstrap_servers)
    await client.start()
    held = cluster.faults.add(of.awaits, hold=True)
    sent = None if of.work is None else await of.work(client)
    ended = anyio.Event()

    async def stop_first() -> None:
        await client.stop(30_000)
        ended.set()

    with anyio.fail_after(25):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_first)
            await anyio.wait_all_tasks_blocked()
            await client.stop(timeout_ms=200)
            assert not ended.is_set()
            held.remove()
        await client.stop(timeout_ms=200)
        if sent is not None:
            await sent  # the second stop has not cut the first one short


# --- not stopped ------------------------------------------------------------------------------------------------------

LEFT_OPEN = textwrap.dedent(
    """
    import sys

    import anyio

    from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer, TransactionPipeline

    way, kind, servers = sys.argv[1:]

    async def main():
        match kind:
            case "Producer":
                client = Producer(servers, linger_ms=60_000)
            case "TransactionPipeline":
                client = TransactionPipeline(servers, transactional_id="t")
            case "AdminClient" | "Client":
                client = {"AdminClient": AdminClient, "Client": Client}[kind](servers)
            case "Consumer":
                client = Consumer("events", bootstrap_servers=servers, group_id="g")
            case "ShareConsumer":
                client = ShareConsumer("events", bootstrap_servers=servers, group_id="s")
        await client.start()
        if kind == "Client":
            producer = client.producer(linger_ms=60_000)
            await producer.start()
            await producer.send_many("events", [b"v"] * 10)
            stopped = client.producer(linger_ms=60_000)
            await stopped.start()
            await stopped.stop()
        if kind == "Producer":
            await client.send_many("events", [b"v"] * 1000)
            client.send_nowait("nowhere", b"v")
            async with Producer(servers) as other:
                await other.send_and_wait("events", b"v")
            Producer(servers)  # never started

    if way == "left":
        import asyncio

        asyncio.new_event_loop().run_until_complete(main())
    elif way == "closed":
        import asyncio

        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()
    else:
        anyio.run(main, backend=way)
    """
)
RECORDS = {"Producer": 1001, "Client": 10}


async def said_by(*args: str, show: bool) -> list[str]:
    """Return the log lines about clients, and Python's output, of a program that must succeed."""
    shown = ["-W", "always::ResourceWarning"] if show else []
    ended = await anyio.run_process(
        [sys.executable, *shown, "-c", LEFT_OPEN, *args], check=False, stdin=subprocess.DEVNULL
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stderr.decode().splitlines()


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("Producer", "loop"),
        ("TransactionPipeline", "loop"),
        ("Consumer", "loop"),
        ("ShareConsumer", "loop"),
        ("AdminClient", "loop"),
        ("Client", "loop"),
        ("Producer", "closed"),
        ("Client", "left"),
    ],
)
async def test_one_that_nobody_stops_is_named_and_nothing_else_is_said(
    cluster: EmbeddedCluster, anyio_backend: str, kind: str, way: str
) -> None:
    if way == "loop":
        way = anyio_backend
    elif anyio_backend == "trio":
        pytest.skip("trio has no event loop that one could leave")
    lines = await said_by(way, kind, cluster.bootstrap_servers, show=True)
    warned = [line for line in lines if "ResourceWarning: unclosed" in line]
    assert len(warned) == 1, lines
    assert f"unclosed {kind} (" in warned[0]
    if kind in RECORDS:
        assert f": {RECORDS[kind]} records were not sent" in warned[0]
    assert not [line for line in lines if "never awaited" in line or "Traceback" in line or "destroyed" in line]


async def test_lost_records_are_in_the_log_of_a_program_that_shows_no_warnings(
    cluster: EmbeddedCluster, anyio_backend: str
) -> None:
    lines = await said_by(anyio_backend, "Producer", cluster.bootstrap_servers, show=False)
    (line,) = [line for line in lines if "unclosed" in line]  # plain Python adds a line
    assert "unclosed Producer" in line
    assert "1001 records were not sent" in line
