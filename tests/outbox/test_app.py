"""A relay in an application of FastAPI, in a separate process, and its metrics in Prometheus."""

from __future__ import annotations

import anyio
import httpx
import pytest
from fastapi import Depends, FastAPI
from prometheus_client import CollectorRegistry
from sqlalchemy.ext.asyncio import AsyncEngine

from aiokafka_lead import Client
from aiokafka_lead.errors import ConfigError
from aiokafka_lead.fastapi import Kafka
from aiokafka_lead.outbox import Outbox, Relay
from aiokafka_lead.prometheus import KafkaCollector
from aiokafka_lead.testing import EmbeddedCluster

from ..ports import PortPool
from .support import TOPIC, put, relaying, until, until_empty, values

pytestmark = pytest.mark.anyio


async def test_an_app_publishes_what_its_requests_enqueue(
    cluster: EmbeddedCluster, engine: AsyncEngine, outbox: Outbox
) -> None:
    kafka = Kafka(cluster.bootstrap_servers, client_id="shop")
    relay = kafka.relay(outbox, engine, poll_ms=600_000, lease_ms=3_000)
    app = FastAPI(lifespan=kafka.lifespan)
    app.include_router(kafka.router())

    async def order(published: Relay = Depends(relay)) -> None:  # noqa: B008 - FastAPI's way
        await put(engine, outbox, b"1")
        published.wake()

    app.post("/orders")(order)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop") as http,
    ):
        running = await relay()

        async def has_its_shards() -> bool:
            return running.metrics().shards == 4

        await until(has_its_shards)
        assert (await http.post("/orders")).status_code == 200
        await until_empty(engine, outbox)
        assert (await http.get("/health/ready")).json() == {"healthy": True, "problems": []}

        async def is_counted() -> bool:  # a moment after the row is gone
            return 'kafka_outbox_records_total{client_id="shop"} 1.0' in (await http.get("/metrics")).text

        await until(is_counted)
    assert values(cluster.records(TOPIC)) == [b"1"]
    assert not running.health().live


async def test_an_app_whose_outbox_is_not_there_is_not_live(cluster: EmbeddedCluster, engine: AsyncEngine) -> None:
    kafka = Kafka(cluster.bootstrap_servers)
    kafka.relay(Outbox("no_such"), engine)
    app = FastAPI(lifespan=kafka.lifespan)
    app.include_router(kafka.router())
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://a") as http:

        async def is_unwell() -> bool:
            return (await http.get("/health/live")).status_code == 503

        await until(is_unwell)
        problem, *_ = (await http.get("/health/live")).json()["problems"]
        assert problem.startswith("the outbox is no longer published: sqlalchemy.exc.")


async def test_an_app_says_at_once_what_is_wrong(engine: AsyncEngine) -> None:
    with pytest.raises(ConfigError, match="poll_ms must be"):
        Kafka("localhost").relay(Outbox(), engine, poll_ms=0)


async def test_a_process_of_its_own_answers_probes(
    client: Client, engine: AsyncEngine, outbox: Outbox, ports: PortPool
) -> None:
    port = ports.take()
    relay = Relay(outbox, engine, client, poll_ms=5)
    registry = CollectorRegistry()
    registry.register(KafkaCollector(relay))
    async with anyio.create_task_group() as tasks, httpx.AsyncClient() as http:

        async def run() -> None:
            await relay.run(health_port=port)

        tasks.start_soon(run)

        async def is_live() -> bool:
            try:
                page = (await http.get(f"http://127.0.0.1:{port}/health/live")).json()
            except httpx.TransportError:
                return False
            return bool(page == {"healthy": True, "problems": []})

        await until(is_live)
        await put(engine, outbox, b"1")
        await until_empty(engine, outbox)
        await relay.stop()
    assert registry.get_sample_value("kafka_outbox_records_total", {"client_id": client.client_id}) == 1
    assert registry.get_sample_value("kafka_outbox_healthy", {"client_id": client.client_id}) == 0


async def test_a_collector_tells_relays_apart(client: Client, engine: AsyncEngine, outbox: Outbox) -> None:
    async with relaying(outbox, engine, client) as first, relaying(outbox, engine, client) as second:
        registry = CollectorRegistry()
        registry.register(KafkaCollector(first, second))
        names = {sample.labels["client_id"] for family in registry.collect() for sample in family.samples}
    assert names == {client.client_id, f"{client.client_id}-2"}
