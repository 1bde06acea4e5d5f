"""Records are written in the application's own transaction, with each of the libraries."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path
from typing import Any

import aiosqlite
import anyio
import asyncpg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_scoped_session, async_sessionmaker

from aiokafka_lead.errors import ConfigError, ConfigTypeError, IllegalStateError
from aiokafka_lead.outbox import Outbox

from .postgres import Postgres
from .support import TOPIC, put, rows

pytestmark = pytest.mark.anyio


async def test_a_session_publishes_what_it_commits(engine: AsyncEngine, outbox: Outbox) -> None:
    async with AsyncSession(engine) as session, session.begin():
        name = await outbox.enqueue(session, TOPIC, b"1", b"ann", [("trace", b"7"), ("empty", None)])
    ((topic, key, value, headers),) = await rows(engine, outbox, "topic, key, value, headers")
    assert (topic, key, value) == (TOPIC, b"ann", b"1")
    assert str(uuid.UUID(name)) == name
    assert [header for header, _ in json.loads(headers)] == ["trace", "empty", "idempotency-key"]


async def test_a_session_of_the_present_task(engine: AsyncEngine, outbox: Outbox) -> None:
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    await outbox.enqueue(session, TOPIC, b"1")
    await session.commit()
    await outbox.enqueue(session, TOPIC, b"2")
    await session.remove()
    assert await rows(engine, outbox, "value") == [(b"1",)]


async def test_what_is_rolled_back_is_not_there(engine: AsyncEngine, outbox: Outbox) -> None:
    async with AsyncSession(engine) as session:
        await outbox.enqueue(session, TOPIC, b"1")
    async with engine.connect() as connection:
        await outbox.enqueue(connection, TOPIC, b"2")
    assert await rows(engine, outbox) == []


async def test_asyncpg(postgres: Postgres) -> None:
    outbox = Outbox(f"outbox_{uuid.uuid4().hex[:8]}")
    async with asyncpg.create_pool(postgres.url(), min_size=1, max_size=1) as pool, pool.acquire() as connection:
        with pytest.raises(IllegalStateError, match="not in a transaction"):
            await outbox.create(connection)
        async with connection.transaction():
            await outbox.create(connection)
            assert await outbox.enqueue(connection, TOPIC, b"1", b"k", idempotence_key="order-1") == "order-1"
        assert await connection.fetchval(f"SELECT value FROM {outbox.name}") == b"1"


async def test_aiosqlite(tmp_path: Path) -> None:
    outbox = Outbox()
    async with aiosqlite.connect(tmp_path / "app.db") as connection:
        await outbox.create(connection)
        await outbox.enqueue(connection, TOPIC, b"1", b"k")
        await connection.commit()
        await outbox.enqueue(connection, TOPIC, b"2", b"k")
        await connection.rollback()
        async with connection.execute("SELECT value FROM outbox") as cursor:
            assert [*await cursor.fetchall()] == [(b"1",)]


async def test_aiosqlite_without_transactions_of_its_own(tmp_path: Path) -> None:
    outbox = Outbox()
    async with aiosqlite.connect(tmp_path / "app.db", isolation_level=None) as connection:
        await connection.execute("BEGIN")
        await outbox.create(connection)
        await outbox.enqueue(connection, TOPIC, b"1")
        await connection.commit()
        with pytest.raises(IllegalStateError, match="not in a transaction"):
            await outbox.enqueue(connection, TOPIC, b"2")
        async with connection.execute("SELECT value FROM outbox") as cursor:
            assert [*await cursor.fetchall()] == [(b"1",)]


async def test_tables_are_made_once_and_keep_their_number_of_shards(engine: AsyncEngine, outbox: Outbox) -> None:
    await put(engine, outbox, b"1")
    async with engine.begin() as connection:
        await Outbox(outbox.name, shards=9).create(connection)
    assert len(await rows(engine, outbox)) == 1
    assert len(await rows(engine, outbox, table="_shards")) == 4


async def test_several_processes_may_create_the_tables_at_the_same_time(engine: AsyncEngine, outbox: Outbox) -> None:
    other = Outbox(f"{outbox.name}_b")

    async def create() -> None:
        async with engine.begin() as connection:
            await other.create(connection)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(create)
    assert len(await rows(engine, other, table="_shards")) == other.shards


async def test_records_of_a_key_are_in_one_shard(engine: AsyncEngine, outbox: Outbox) -> None:
    for _ in range(3):
        await put(engine, outbox, b"1", b"2", key=b"ann")
    assert len({shard for (shard,) in await rows(engine, outbox, "shard")}) == 1
    await put(engine, outbox, *[b"%d" % number for number in range(40)], key=None)
    assert {shard for (shard,) in await rows(engine, outbox, "shard")} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (("no topic", b"1"), ConfigError, "topic must be"),
        ((TOPIC, "1"), ConfigTypeError, r"value must be bytes or None, not str; serialize it first"),
        ((TOPIC, b"1", 7), ConfigTypeError, "key must be bytes or None, not int"),
        ((TOPIC, b"1", b"k", {"a": b"1"}), ConfigTypeError, "headers must be a list"),
    ],
)
async def test_wrong_arguments(
    engine: AsyncEngine, outbox: Outbox, arguments: tuple[Any, ...], error: type[Exception], says: str
) -> None:
    async with engine.connect() as connection:
        with pytest.raises(error, match=says):
            await outbox.enqueue(connection, *arguments)


async def test_what_is_no_open_transaction_is_refused(tmp_path: Path, engine: AsyncEngine) -> None:
    sync = create_engine(f"sqlite:///{tmp_path / 'sync.db'}")
    with sync.connect() as connection:
        for wrong in (connection, sync, engine, object(), None):
            with pytest.raises(ConfigTypeError, match="connection must be an AsyncSession"):
                await Outbox().enqueue(wrong, TOPIC, b"1")
    sync.dispose()


@pytest.mark.parametrize("name", ["", "a b", "a;b", "1a", "a.b.c", "a" * 41, "über"])
def test_names_that_a_table_cannot_have(name: str) -> None:
    with pytest.raises(ConfigError, match="name must"):
        Outbox(name)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="shards must be from 1 to 1000"):
        Outbox(shards=0)
    with pytest.raises(ConfigError, match="the database must be one of postgresql, sqlite, not mysql"):
        Outbox().schema("mysql")
