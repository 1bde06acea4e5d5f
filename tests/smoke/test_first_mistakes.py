"""Mistakes of first programs: each error names what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer
from aiokafka_lead.errors import ConfigTypeError, HandlerError, IllegalStateError
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio

SERVERS = "localhost:9092"


@pytest.fixture
async def servers() -> AsyncIterator[str]:
    async with EmbeddedCluster(1) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("kind", [Consumer, ShareConsumer])
@pytest.mark.parametrize("topics", [["events"], ("events",), {"events"}])
def test_topics_in_a_list(kind: Any, topics: object) -> None:
    with pytest.raises(ConfigTypeError, match=r"topics are separate arguments, not a \w+: put a \* before it"):
        kind(topics, bootstrap_servers=SERVERS, group_id="g")


@pytest.mark.parametrize("kind", [Consumer, ShareConsumer])
def test_topics_by_name(kind: Any) -> None:
    with pytest.raises(ConfigTypeError, match="topics are arguments without a name"):
        kind(topics=["events"], bootstrap_servers=SERVERS, group_id="g")
    with pytest.raises(ConfigTypeError, match="topics is not an option of this client"):
        Producer(SERVERS, topics=["events"])  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("kind", "name", "instead"),
    [
        (Producer, "produce", r"await send\(\)"),
        (Consumer, "poll", r"await getone\(\) or await getmany\(\)"),
        (ShareConsumer, "poll", r"await getone\(\) or await getmany\(\)"),
        *[(kind, "close", r"await stop\(\), or async with") for kind in (Producer, Consumer, AdminClient, Client)],
    ],
)
def test_methods_of_other_clients(kind: Any, name: str, instead: str) -> None:
    options: dict[str, Any] = {"group_id": "g"} if kind is ShareConsumer else {}
    client = kind(bootstrap_servers=SERVERS, **options)
    assert not hasattr(client, name)
    with pytest.raises(AttributeError, match=f"'{kind.__name__}' object has no attribute '{name}': use {instead}"):
        getattr(client, name)


async def test_the_offset_of_a_record_that_was_not_awaited(servers: str) -> None:
    async with Producer(servers, linger_ms=60_000) as producer:
        delivery = await producer.send("events", b"1")
        with pytest.raises(IllegalStateError, match="await the delivery"):
            _ = delivery.offset
        await producer.flush()
        assert (await delivery).offset == delivery.offset == 0


async def test_a_serializer_that_returns_text(servers: str) -> None:
    async def later(value: int) -> str:
        return str(value)

    for serializer in (str, later):
        broken: Any = serializer
        async with Producer(servers, value_serializer=broken) as producer:
            with pytest.raises(ConfigTypeError, match=r"must be bytes or None, not str; call encode\(\) on it"):
                await producer.send("events", 1)


async def test_a_failed_record_without_a_dead_letter_topic(servers: str) -> None:
    async def handle(record: object) -> None:
        raise ValueError("no such order")

    async with Producer(servers) as producer:
        await producer.send_and_wait("events", b"1")
    async with Consumer("events", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        with pytest.raises(HandlerError, match="with a dead_letter_topic, run would continue"):
            await consumer.run(handle, retries=0)


ARROW = """
import asyncio
from aiokafka_lead import Consumer, Producer
from aiokafka_lead.testing import EmbeddedCluster

async def main():
    async with EmbeddedCluster(1) as cluster:
        servers = cluster.bootstrap_servers
        async with Producer(servers) as producer:
            await producer.send_and_wait("events", b"1")
        async with Consumer("events", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            async for batch in consumer.batches():
                batch.to_arrow()

asyncio.run(main())
"""
REGISTRY = "from aiokafka_lead.schema import SchemaRegistry; SchemaRegistry('http://localhost:8081')"


@pytest.mark.parametrize(
    ("module", "program", "extra"),
    [
        ("pyarrow", ARROW, "arrow"),
        ("pyarrow", f"{REGISTRY}.columns()", "arrow"),
        ("fastavro", f"{REGISTRY}.avro_serializer({{'type': 'string'}})", "avro"),
        ("jsonschema", f"{REGISTRY}.json_serializer({{'type': 'object'}})", "jsonschema"),
        ("google", f"{REGISTRY}.protobuf_serializer(object)", "protobuf"),
    ],
)
def test_a_missing_extra(module: str, program: str, extra: str) -> None:
    without = f"import sys; sys.modules[{module!r}] = None\n{program}"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, timeout=60)
    [*_, last] = done.stderr.strip().splitlines()
    assert last.startswith("aiokafka_lead.errors.ConfigError: ")
    assert f"pip install 'aiokafka-lead[{extra}]'" in last  # in quotes, because shells expand brackets
