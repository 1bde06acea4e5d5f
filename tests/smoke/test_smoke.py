"""Each kind of client does its main work once, on sockets: the first check after a change (``make quick``)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Literal

import anyio
import pytest

from aiokafka_lead import AdminClient, Client, Consumer, ConsumerRecord, Producer, ShareConsumer, TransactionPipeline
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType, NewTopic
from aiokafka_lead.compat import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka_lead.testing import EmbeddedCluster
from tests.embedded import cluster_with
from tests.programs import Program

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
cluster = cluster_with(brokers=3, events=3)

VALUES = [b"%02d" % number for number in range(20)]


@pytest.fixture
async def servers(cluster: EmbeddedCluster) -> str:
    """Cluster whose topic has `VALUES`."""
    async with Producer(cluster.bootstrap_servers) as producer:
        await fill(producer)
    return cluster.bootstrap_servers


def consumer(servers: str, **options: Any) -> Consumer:
    return Consumer("events", bootstrap_servers=servers, auto_offset_reset="earliest", **options)


async def fill(producer: Producer) -> None:
    for outcome in await (await producer.send_many("events", VALUES)):
        assert not isinstance(outcome, BaseException), outcome


async def take(reader: Consumer | ShareConsumer) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < len(VALUES):
        for records in (await reader.getmany(timeout_ms=1000)).values():
            values += [record.value for record in records]
    return in_order(values)


def in_order(values: Iterable[bytes | None]) -> list[bytes | None]:
    return sorted(values, key=str)


async def test_producer_and_consumer_while_leaders_move(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer, consumer(cluster.bootstrap_servers) as reader:
        await fill(producer)
        assert await take(reader) == VALUES
        for partition in range(3):
            cluster.move_leader("events", partition)
        await fill(producer)
        assert await take(reader) == VALUES


@on_asyncio
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_of_a_group_goes_on_where_it_committed(
    servers: str, protocol: Literal["classic", "consumer"]
) -> None:
    async with consumer(servers, group_id="g", group_protocol=protocol) as member:
        assert await take(member) == VALUES
        await member.commit()
    async with consumer(servers, group_id="g", group_protocol=protocol) as member, Producer(servers) as producer:
        await producer.send_and_wait("events", b"new")
        assert (await member.getone()).value == b"new"


@on_asyncio
async def test_handlers(servers: str) -> None:
    handled: list[bytes | None] = []
    async with consumer(servers, group_id="g") as reader:

        async def handle(record: ConsumerRecord[bytes | None, bytes | None]) -> None:
            handled.append(record.value)
            if len(handled) == len(VALUES):
                await reader.stop()

        await reader.run(handle)
    assert in_order(handled) == VALUES


@on_asyncio
async def test_transactions(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    async with Producer(servers, transactional_id="t") as producer:
        await producer.begin_transaction()
        await producer.send("events", b"of no account")
        await producer.abort_transaction()
        async with producer.transaction():
            await fill(producer)
    async with TransactionPipeline(servers, transactional_id="p") as pipeline:
        async with pipeline.transaction() as txn:
            await txn.send("events", b"last")
        await pipeline.settle()
    async with consumer(servers, isolation_level="read_committed") as reader:
        assert in_order([(await reader.getone()).value for _ in [*VALUES, b"last"]]) == [*VALUES, b"last"]


@on_asyncio
async def test_a_share_group_and_an_admin_client(servers: str) -> None:
    earliest = [ConfigChange("share.auto.offset.reset", "earliest")]
    async with AdminClient(servers) as admin:
        await admin.create_topics([NewTopic("made", 2)])
        assert set(await admin.list_topics()) == {"events", "made"}
        await admin.incremental_alter_configs({ConfigResource(ConfigResourceType.GROUP, "s"): earliest})
    async with ShareConsumer("events", bootstrap_servers=servers, group_id="s") as jobs:
        assert await take(jobs) == VALUES


@on_asyncio
async def test_clients_that_share_connections(cluster: EmbeddedCluster) -> None:
    async with (
        Client(cluster.bootstrap_servers) as client,
        client.producer() as producer,
        client.consumer("events", auto_offset_reset="earliest") as reader,
    ):
        await fill(producer)
        assert await take(reader) == VALUES


@on_asyncio
async def test_a_program_of_aiokafka(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await asyncio.gather(*[await producer.send("events", value) for value in VALUES])
    async with AIOKafkaConsumer("events", bootstrap_servers=servers, auto_offset_reset="earliest") as reader:
        assert in_order([(await reader.getone()).value for _ in VALUES]) == VALUES


@on_asyncio
async def test_the_command_line(servers: str) -> None:
    command = ("consume", "events", "-b", servers, "-o", "beginning", "--until", "end")

    def said() -> list[str]:
        with Program("-m", "aiokafka_lead.cli", *command) as program:
            assert program.wait() == 0
            return sorted(line.strip() for line in program.lines)

    assert await anyio.to_thread.run_sync(said) == [value.decode() for value in VALUES]
