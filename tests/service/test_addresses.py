"""Clients of a cluster whose names have several addresses, the first of which is no broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.errors import KafkaConnectionError
from aiokafka_lead.testing import EmbeddedCluster

from ..io.script import Handler, Peer, serve
from ..names import Names, needs_loopbacks
from ..patience import again_if_late
from ..share.support import take

pytestmark = [pytest.mark.anyio, needs_loopbacks]

NAME, BAD, GOOD = "kafka.test", "127.0.0.2", "127.0.0.1"
QUICK: dict[str, Any] = {
    "socket_connection_setup_timeout_ms": 1000,
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "retry_backoff_ms": 20,
}


async def silent(peer: Peer) -> None:
    await peer.drain()


async def resetting(peer: Peer) -> None:
    await peer.read_frame()


kinds = pytest.mark.parametrize("bad", [silent, resetting], ids=lambda bad: bad.__name__)


@pytest.fixture(name="cluster")
async def advertised_by_name(names: Names) -> AsyncIterator[EmbeddedCluster]:
    names[NAME] = [GOOD]
    async with EmbeddedCluster(brokers=1, advertised_host=NAME) as cluster:
        cluster.create_topic("events")
        cluster.shares.configure("workers", {"share.auto.offset.reset": "earliest"})
        yield cluster


@asynccontextmanager
async def first_address(names: Names, cluster: EmbeddedCluster, bad: Handler) -> AsyncIterator[None]:
    """Put another address, with this server, before the broker's."""
    async with serve(bad, host=BAD, port=int(cluster.address(1).rpartition(":")[2])):
        names[NAME] = [BAD, GOOD]
        yield


@kinds
@pytest.mark.parametrize("shared", [False, True])
async def test_every_kind_of_client(cluster: EmbeddedCluster, names: Names, bad: Handler, shared: bool) -> None:
    where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, **QUICK}
    assert NAME in cluster.bootstrap_servers
    group: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with first_address(names, cluster, bad), AsyncExitStack() as stack:
        enter = stack.enter_async_context
        with anyio.fail_after(40):
            if shared:
                client = await enter(Client(**where))
                admin = await enter(client.admin())
                producer = await enter(client.producer())
                consumer = await enter(client.consumer("events", **group))
                jobs = await enter(client.share_consumer("events", group_id="workers"))
            else:
                admin = await enter(AdminClient(**where))
                producer = await enter(Producer(**where))
                consumer = await enter(Consumer("events", **where, **group))
                jobs = await enter(ShareConsumer("events", **where, group_id="workers"))
            assert await admin.list_topics()
            await producer.send_and_wait("events", b"v")
            assert (await consumer.getone()).value == b"v"
            await consumer.commit()
            assert [record.value for record in await take(jobs, 1)] == [b"v"]


@kinds
async def test_a_name_that_changes_while_clients_run(cluster: EmbeddedCluster, names: Names, bad: Handler) -> None:
    where: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, **QUICK}
    async with (
        Producer(**where, transactional_id="t") as producer,
        Consumer("events", **where, group_id="g", auto_offset_reset="earliest") as consumer,
    ):
        with anyio.fail_after(40):
            async with producer.transaction():
                await producer.send("events", b"before")
            assert (await consumer.getone()).value == b"before"
            async with first_address(names, cluster, bad):
                await cluster.stop_broker(1)
                await cluster.start_broker(1)
                async with producer.transaction():
                    await producer.send("events", b"after")
                assert (await consumer.getone()).value == b"after"
                await consumer.commit()
                stored = await consumer.committed(TopicPartition("events", 0))
    assert stored is not None
    assert stored.offset > 2


@kinds
async def test_bootstrapping_again(names: Names, bad: Handler) -> None:
    names[NAME] = [GOOD]
    async with EmbeddedCluster(brokers=1, bootstrap_port=0) as cluster:
        cluster.create_topic("events")
        port = int(cluster.bootstrap_address.rpartition(":")[2])
        async with Producer(f"{NAME}:{port}", **QUICK) as producer, serve(bad, host=BAD, port=port):
            with anyio.fail_after(40):
                await producer.send_and_wait("events", b"before")
                names[NAME] = [BAD, GOOD]
                await cluster.change_address(1)
                await producer.send_and_wait("events", b"after")


@again_if_late(1_000, 10_000)
async def test_a_start_that_fails_says_what_each_address_did(setup_ms: int, names: Names) -> None:
    names[NAME] = ["127.0.0.3", BAD, GOOD]
    async with serve(resetting) as port, serve(resetting, host=BAD, port=port):
        options: dict[str, Any] = {**QUICK, "socket_connection_setup_timeout_ms": setup_ms}
        with pytest.raises(KafkaConnectionError) as caught:
            await Producer(f"{NAME}:{port}", **options).start()
    assert f": {NAME}:{port}: 127.0.0.3: cannot connect: connection refused; 127.0.0.2, 127.0.0.1: " in str(
        caught.value
    )
