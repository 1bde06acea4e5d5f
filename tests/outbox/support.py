"""Helpers of the outbox's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from aiokafka_lead import Client, Consumer, ConsumerRecord, TopicPartition
from aiokafka_lead.outbox import Outbox, Relay
from aiokafka_lead.testing import EmbeddedCluster

TOPIC = "orders"
PARTITIONS = 3
PATIENCE_S = 60
"""Longest wait of a test on a slow machine, in seconds."""


async def put(engine: AsyncEngine, outbox: Outbox, *values: bytes, key: bytes | None = b"ann") -> list[str]:
    """Enqueue these in a transaction; return their idempotence keys."""
    async with engine.begin() as connection:
        return [await outbox.enqueue(connection, TOPIC, value, key) for value in values]


async def rows(engine: AsyncEngine, outbox: Outbox, what: str = "*", table: str = "") -> list[Any]:
    """Return the rows of the table, or of the table of shards."""
    async with engine.connect() as connection:
        return [*(await connection.execute(text(f"SELECT {what} FROM {outbox.name}{table} ORDER BY 1"))).fetchall()]


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Poll the database, or another process, until the condition holds."""
    with anyio.fail_after(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - no event
            await anyio.sleep(0.01)


async def until_empty(engine: AsyncEngine, outbox: Outbox) -> None:
    """Wait until all rows are published."""

    async def is_empty() -> bool:
        return not await rows(engine, outbox, "id")

    await until(is_empty)


@asynccontextmanager
async def relaying(
    outbox: Outbox, engine: Any, client: Client, *, stop_ms: float | None = 30_000, **options: Any
) -> AsyncIterator[Relay]:
    """Run a relay with short intervals while the block runs."""
    fast: dict[str, Any] = {"lease_ms": 3_000, "poll_ms": 5, "retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
    relay = Relay(outbox, engine, client, **{**fast, **options})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay.run)
        yield relay
        await relay.stop(stop_ms)


async def counted(cluster: EmbeddedCluster) -> list[ConsumerRecord[Any, Any]]:
    """Return the records that ``read_committed`` consumers see, by partition and offset."""
    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    found: list[ConsumerRecord[Any, Any]] = []
    async with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        with anyio.fail_after(PATIENCE_S):
            while not all([await consumer.position(place) >= end for place, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    found += records
    return sorted(found, key=lambda record: (record.partition, record.offset))


def values(records: Iterable[ConsumerRecord[Any, Any]]) -> list[bytes | None]:
    """Return the value of each record."""
    return [record.value for record in records]


def keys_of(records: Iterable[ConsumerRecord[Any, Any]]) -> list[str]:
    """Return the idempotence key of each record."""
    return [(dict(record.headers)["idempotency-key"] or b"").decode() for record in records]
