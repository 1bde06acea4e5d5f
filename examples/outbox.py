"""The outbox pattern: the published events always agree with the database.

    pip install 'aiokafka-lead[outbox]'
    python examples/outbox.py [HOST:PORT [DATABASE]]    # default localhost:9092, and a temporary SQLite file

An order and its event are written in one transaction of the database, without Kafka. A relay publishes the events,
exactly once for readers of committed records, even if relays are killed or several of them run. DATABASE is a URL of
SQLAlchemy, such as postgresql+asyncpg://user:password@host/shop.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from aiokafka_lead import Client
from aiokafka_lead.outbox import Outbox, Relay

TOPIC = "orders"
ORDERS = 200

outbox = Outbox("orders_outbox", shards=1)


async def open_database(engine: AsyncEngine) -> None:
    """Create missing tables."""
    async with engine.begin() as connection:
        await connection.execute(
            text("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER)")
        )
        await outbox.create(connection)


async def place_order(engine: AsyncEngine, customer: str, cents: int) -> str:
    """Store an order and its event, both or neither, as a request would."""
    order_id = str(uuid.uuid4())
    order = {"id": order_id, "customer": customer, "cents": cents}
    async with engine.begin() as connection:
        await connection.execute(text("INSERT INTO orders VALUES (:id, :customer, :cents)"), order)
        event = json.dumps(order).encode()
        await outbox.enqueue(connection, TOPIC, event, key=customer.encode(), idempotence_key=order_id)
    return order_id


async def waiting(engine: AsyncEngine) -> int:
    """Return the number of unpublished events."""
    async with engine.connect() as connection:
        found: int = (await connection.execute(text(f"SELECT count(*) FROM {outbox.name}"))).scalar_one()
    return found


async def main(servers: str, url: str) -> None:
    """Place some orders, and publish their events meanwhile."""
    engine = create_async_engine(url)
    await open_database(engine)
    async with Client(servers, client_id="outbox") as client, asyncio.TaskGroup() as tasks:
        relay = Relay(outbox, engine, client, transactional_id="orders-outbox")
        tasks.create_task(relay.run())  # in a separate service: await relay.run(stop_on_signals=True)
        for number in range(ORDERS):
            await place_order(engine, f"customer-{number % 7}", 100 + number)
        while await waiting(engine):  # noqa: ASYNC110 - the database does not notify
            await asyncio.sleep(0.1)
        await relay.stop()
    print(f"published {relay.metrics().records} orders in {relay.metrics().batches} batches")
    await engine.dispose()


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        defaults = ["localhost:9092", f"sqlite+aiosqlite:///{Path(folder) / 'orders.db'}"]
        asyncio.run(main(*[*sys.argv[1:], *defaults[len(sys.argv) - 1 :]]))
