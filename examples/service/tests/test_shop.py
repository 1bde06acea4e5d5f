"""Orders are published if they are stored, and billed once."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable

import httpx
import pytest
from shop import billing
from shop.api import create_app
from shop.database import add_bill, total_of
from shop.orders import Order
from shop.settings import Settings
from sqlalchemy.ext.asyncio import AsyncEngine

from aiokafka_lead import Producer
from aiokafka_lead.testing import ClusterThread

pytestmark = pytest.mark.anyio


def customer_of(app: object) -> httpx.AsyncClient:
    """Create a client that calls the app without a server."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop")  # type: ignore[arg-type]


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until ``holds`` returns True, which depends on other tasks."""
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - the awaited work has no event
            await asyncio.sleep(0.01)


async def test_an_order_is_published_once(
    settings: Settings, engine: AsyncEngine, kafka_cluster: ClusterThread
) -> None:
    app = create_app(settings)
    async with app.router.lifespan_context(app), customer_of(app) as customer:
        for _ in range(2):  # as after an answer that got lost
            answer = await customer.post(
                "/orders", json={"customer": "ann", "cents": 1250}, headers={"idempotency-key": "a7"}
            )
            assert (answer.status_code, answer.json()) == (202, {"order_id": "a7"})
        for order in (
            {"customer": "ann", "cents": 0},
            {"customer": "ann", "cents": 2**31},
            {"customer": "\0", "cents": 1},
        ):
            assert (await customer.post("/orders", json=order)).status_code == 422

        async def is_published() -> bool:
            return bool(kafka_cluster.records("orders"))

        await until(is_published)
        assert (await customer.get("/health/live")).json() == {"healthy": True, "problems": []}
    (record,) = kafka_cluster.records("orders")
    assert json.loads(record.value or b"") == {"customer": "ann", "cents": 1250}
    assert (record.key, dict(record.headers)) == (b"ann", {"order-id": b"a7"})


async def test_orders_are_taken_while_kafka_is_down(settings: Settings, engine: AsyncEngine) -> None:
    nowhere = Settings("localhost:1", settings.database)
    app = create_app(nowhere)
    async with app.router.lifespan_context(app), customer_of(app) as customer:
        assert (await customer.post("/orders", json={"customer": "ann", "cents": 1})).status_code == 202
        assert (await customer.get("/health/ready")).status_code == 503


async def test_the_handler_bills_an_order_once(engine: AsyncEngine) -> None:
    for _ in range(2):
        await billing.Billing(engine).handle(Order(customer="ann", cents=7), {"order-id": "a1"})
    async with engine.connect() as connection:
        assert await total_of(connection, "ann") == 7


async def test_billing_sets_aside_what_is_no_order(
    settings: Settings, engine: AsyncEngine, kafka_cluster: ClusterThread
) -> None:
    async with Producer(settings.bootstrap_servers) as producer:
        for order_id, value in (("a1", b'{"customer": "ann", "cents": 7}'), ("a2", b"no order")):
            await producer.send_and_wait("orders", value, b"ann", headers=[("order-id", order_id.encode())])

    async def is_done() -> bool:
        async with engine.connect() as connection:
            return await total_of(connection, "ann") == 7 and bool(kafka_cluster.records("orders.failed"))

    running = asyncio.create_task(billing.main(settings))
    await until(is_done)
    signal.raise_signal(signal.SIGTERM)
    await running
    (failed,) = kafka_cluster.records("orders.failed")
    assert failed.value == b"no order"


async def test_a_bill_is_added_once(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        assert await add_bill(connection, "a1", "ann", 1)
        assert not await add_bill(connection, "a1", "ann", 1)
