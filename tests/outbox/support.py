"""What tests of the outbox share."""

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
PATIENCE_S = 30
"""How long a test waits for what has to happen, on a slow machine."""


async def put(engine: AsyncEngine, outbox: Outbox, *values: bytes, key: bytes | None = b"ann") -> list[str]:
    """Enqueue these in a transaction; their idempotence keys."""
    async with engine.begin() as connection:
        return [await outbox.enqueue(connection, TOPIC, value, key) for value in values]


async def rows(engine: AsyncEngine, outbox: Outbox, what: str = "*", table: str = "") -> list[Any]:
    """The rows that are in the table, or in that of the shards."""
    async with engine.connect() as connection:
        return [*(await connection.execute(text(f"SELECT {what} FROM {outbox.name}{table} ORDER BY 1"))).fetchall()]


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Ask the database, or another process, again and again until this holds."""
    with anyio.fail_after(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - the database tells nobody
            await anyio.sleep(0.01)


async def until_empty(engine: AsyncEngine, outbox: Outbox) -> None:
    """Wait until all is published."""

    async def is_empty() -> bool:
        return not await rows(engine, outbox, "id")

    await until(is_empty)


@asynccontextmanager
async def relaying(
    outbox: Outbox, engine: Any, client: Client, *, stop_ms: float | None = 5_000, **options: Any
) -> AsyncIterator[Relay]:
    """A relay that runs meanwhile, and is impatient."""
    fast: dict[str, Any] = {"lease_ms": 3_000, "poll_ms": 5, "retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
    relay = Relay(outbox, engine, client, **{**fast, **options})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay.run)
        yield relay
        await relay.stop(stop_ms)


async def counted(cluster: EmbeddedCluster) -> list[ConsumerRecord[Any, Any]]:
    """The records that count for who reads committed ones, by partition and offset."""
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
    """Of each record."""
    return [record.value for record in records]


def keys_of(records: Iterable[ConsumerRecord[Any, Any]]) -> list[str]:
    """The idempotence key of each record."""
    return [(dict(record.headers)["idempotency-key"] or b"").decode() for record in records]
