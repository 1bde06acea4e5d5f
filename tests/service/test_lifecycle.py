"""How the lives of clients end, whatever their kind: stopped by several calls at once."""

from __future__ import annotations

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
    """A kind of client, and what its `stop` waits for."""

    make: Callable[[str], Any]
    awaits: str
    """The request that its `stop` waits for."""
    work: Callable[[Any], Any] | None = None
    """What has to happen before, for that request to be needed; it may return a delivery."""


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
            await sent  # nor has the second one cut short what the first one waits for
