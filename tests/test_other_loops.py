"""A client used from another event loop, or from a thread without one, raises at once and stays usable.

It cannot be passed to another process.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import time
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import pytest

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer, TopicPartition, TransactionPipeline
from aiokafka_lead.errors import KafkaError, WrongEventLoopError
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

E0 = TopicPartition("events", 0)

Call = Callable[[Any], object]

CALLS: dict[str, list[Call]] = {
    "producer": [lambda client: client.send("events", b"v"), lambda client: client.send_nowait("events", b"v")],
    "pipeline": [lambda client: client.settle()],
    "consumer": [
        lambda client: client.assign([E0]),
        lambda client: client.pause(E0),
        lambda client: client.resume(E0),
        lambda client: client.seek(E0, 0),
        lambda client: client.getmany(),
        lambda client: client.commit(),
        lambda client: client.unsubscribe(),
        lambda client: client.subscribe(["events"]),
    ],
    "share consumer": [
        lambda client: client.getmany(),
        lambda client: client.commit(),
        lambda client: client.unsubscribe(),
        lambda client: client.subscribe(["events"]),
    ],
    "admin": [lambda client: client.list_topics()],
    "client": [],
}


def made(kind: str, servers: str) -> Any:
    match kind:
        case "producer":
            return Producer(servers)
        case "pipeline":
            return TransactionPipeline(servers, transactional_id="p")
        case "consumer":
            return Consumer("events", bootstrap_servers=servers, group_id="g")
        case "share consumer":
            return ShareConsumer("events", bootstrap_servers=servers, group_id="s")
        case "admin":
            return AdminClient(servers)
    return Client(servers)


@pytest.mark.parametrize("kind", CALLS)
def test_another_event_loop_is_an_error_and_does_no_harm(kind: str) -> None:
    async def main(servers: str) -> None:
        async with made(kind, servers) as client:
            calls = [*CALLS[kind], lambda client: client.stop(), lambda client: client.stop(timeout_ms=0)]

            async def elsewhere() -> list[type[KafkaError] | None]:
                return [await outcome(client, call) for call in calls]

            raised = await anyio.to_thread.run_sync(lambda: asyncio.run(elsewhere()))
            assert raised == [WrongEventLoopError] * len(calls)
            for call in CALLS[kind]:
                assert await outcome(client, call) is None

    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        cluster.create_topic("events")
        asyncio.run(main(cluster.bootstrap_servers))


async def outcome(client: Any, call: Call) -> type[KafkaError] | None:
    try:
        pending = call(client)
        if inspect.isawaitable(pending):
            await pending
    except KafkaError as error:
        return type(error)
    return None


@pytest.mark.parametrize("kind", CALLS)
def test_what_ended_with_its_event_loop_can_be_stopped_in_another_one(kind: str) -> None:
    """The event loop took its tasks and connections with it."""

    async def start() -> None:
        await client.start()
        for _ in range(3):
            await asyncio.sleep(0)  # anyio warns if asyncio cancels a task that has not begun

    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        cluster.create_topic("events")
        client = made(kind, cluster.bootstrap_servers)
        asyncio.run(start())
        asyncio.run(client.stop())
        asyncio.run(client.stop(timeout_ms=0))


@pytest.mark.parametrize("kind", [Consumer, ShareConsumer])
def test_a_member_is_stopped_at_once_when_its_event_loop_has_ended(kind: Any) -> None:
    """After its event loop has ended, a member cannot send a LeaveGroup, so ``stop`` does not wait for one."""

    async def start() -> None:
        await client.start()

    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        cluster.create_topic("events")
        client = kind("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g")
        asyncio.run(start())
        began = time.monotonic()
        asyncio.run(client.stop(timeout_ms=120_000))
        assert time.monotonic() - began < 20


@pytest.mark.parametrize("kind", CALLS)
def test_a_client_that_is_pickled_for_another_process_says_what_to_do(kind: str) -> None:
    with pytest.raises(TypeError, match="create a client in each process"):
        pickle.dumps(made(kind, "localhost:1"))
