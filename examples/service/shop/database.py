"""The tables and the operations on them.

``python -m shop.database`` creates missing tables. With Alembic, ``outbox.schema("postgresql")`` returns the statements
for a migration.
"""

from __future__ import annotations

import asyncio

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from aiokafka_lead.outbox import Outbox

from .settings import Settings

__all__ = ["add_bill", "add_order", "create_tables", "outbox", "total_of"]

outbox = Outbox("outbox", id_header="order-id")

_TABLES = (
    "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS bills (order_id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)",
)


async def create_tables(engine: AsyncEngine) -> None:
    """Create missing tables."""
    async with engine.begin() as connection:
        for table in _TABLES:
            await connection.execute(text(table))
        await outbox.create(connection)


async def add_order(connection: AsyncConnection, order_id: str, customer: str, cents: int) -> bool:
    """Add an order; return False if it exists."""
    added = await connection.execute(
        text("INSERT INTO orders VALUES (:id, :customer, :cents) ON CONFLICT DO NOTHING RETURNING id"),
        {"id": order_id, "customer": customer, "cents": cents},
    )
    return added.first() is not None


async def add_bill(connection: AsyncConnection, order_id: str, customer: str, cents: int) -> bool:
    """Add the bill of an order; return False if it exists."""
    added = await connection.execute(
        text("INSERT INTO bills VALUES (:id, :customer, :cents) ON CONFLICT DO NOTHING RETURNING order_id"),
        {"id": order_id, "customer": customer, "cents": cents},
    )
    return added.first() is not None


async def total_of(connection: AsyncConnection, customer: str) -> int:
    """Return the sum of a customer's bills, in cents."""
    found = await connection.execute(
        text("SELECT coalesce(sum(cents), 0) FROM bills WHERE customer = :customer"), {"customer": customer}
    )
    return int(found.scalar_one())


if __name__ == "__main__":
    asyncio.run(create_tables(create_async_engine(Settings().database)))
