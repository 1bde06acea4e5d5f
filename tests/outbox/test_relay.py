"""Enqueued records are published, in order by key, despite any failures."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections import defaultdict
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from aiokafka_lead import Client
from aiokafka_lead.errors import (
    ClientClosedError,
    ConfigError,
    ConfigTypeError,
    IllegalStateError,
    InvalidRecordError,
)
from aiokafka_lead.otel import instrument, uninstrument
from aiokafka_lead.outbox import Outbox, Relay
from aiokafka_lead.outbox.relay import _Held
from aiokafka_lead.testing import EmbeddedCluster
from tests.otel.support import Spans, ids, trace_of

from ..ports import PortPool
from .postgres import Postgres
from .support import PATIENCE_S, TOPIC, counted, keys_of, put, relaying, rows, until, until_empty, values

pytestmark = pytest.mark.anyio

EXACTLY_ONCE: dict[str, Any] = {"transactional_id": "orders-outbox"}
BOTH = pytest.mark.parametrize("options", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])


@BOTH
async def test_records_are_published_in_order_by_key(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    names = [
        name for number in range(60) for name in await put(engine, outbox, b"%d" % number, key=b"%d" % (number % 7))
    ]
    async with relaying(outbox, engine, client, max_records=5, **options) as relay:
        await until_empty(engine, outbox)
        assert relay.metrics().records == 60
        assert relay.metrics().shards == 4
        assert relay.health().problems == ()
    found = await counted(cluster)
    assert sorted(keys_of(found)) == sorted(names)
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for record in found:
        by_key[record.key].append(int(record.value))
    assert by_key == {b"%d" % key: [*range(key, 60, 7)] for key in range(7)}


async def test_a_record_is_as_it_was_enqueued(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox
) -> None:
    async with engine.begin() as connection:
        await outbox.enqueue(connection, TOPIC, None, b"k", [("a", b"\xff"), ("b", None)], idempotence_key="one")
    ((created,),) = await rows(engine, outbox, "created")
    async with relaying(outbox, engine, client):
        await until_empty(engine, outbox)
    (record,) = cluster.records(TOPIC)
    assert (record.key, record.value) == (b"k", None)
    assert record.headers == (("a", b"\xff"), ("b", None), ("idempotency-key", b"one"))
    assert record.timestamp_ms == int(created * 1000)


async def _encodes_json(connection: Any) -> None:
    await connection.set_type_codec("json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


@pytest.mark.parametrize("init", [None, _encodes_json], ids=["as it is", "with a codec of JSON"])
async def test_a_pool_of_asyncpg(cluster: EmbeddedCluster, client: Client, postgres: Postgres, init: Any) -> None:
    outbox = Outbox("outbox_by_asyncpg")
    async with asyncpg.create_pool(postgres.url(), min_size=1, max_size=4, init=init) as pool:
        async with pool.acquire() as connection, connection.transaction():
            await outbox.create(connection)
            for number in range(9):
                await outbox.enqueue(connection, TOPIC, b"%d" % number, b"ann")
        for options in ({}, EXACTLY_ONCE):
            async with relaying(outbox, pool, client, **options):
                await until(lambda: pool.fetchval("SELECT count(*) = 0 FROM outbox_by_asyncpg"))
    assert values(cluster.records(TOPIC)) == [b"%d" % number for number in range(9)]


async def test_relays_share_the_shards(client: Client, engine: AsyncEngine, outbox: Outbox) -> None:
    async def are_shared() -> bool:
        owners = [owner for (owner,) in await rows(engine, outbox, "owner", "_shards")]
        return None not in owners and sorted(map(owners.count, {*owners})) == [2, 2]

    async with (
        relaying(outbox, engine, client, lease_ms=6_000) as first,
        relaying(outbox, engine, client, lease_ms=6_000) as second,
    ):
        await until(are_shared)
        await put(engine, outbox, *[b"%d" % number for number in range(50)], key=None)
        await until_empty(engine, outbox)
        assert first.metrics().records > 0
        assert second.metrics().records > 0
    assert {owner for (owner,) in await rows(engine, outbox, "owner", "_shards")} == {None}


@BOTH
async def test_who_ends_in_the_middle_leaves_the_rest_to_another(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    """The broker has stored the batch, and its answer never comes."""
    await put(engine, outbox, *[b"%d" % number for number in range(8)])
    lost = cluster.faults.add("Produce", disconnect=True, after=True)
    async with relaying(outbox, engine, client, stop_ms=0, max_records=4, **options):
        await cluster.wait_for_requests("Produce")
    lost.remove()
    assert len(await rows(engine, outbox)) == 8
    async with relaying(outbox, engine, client, **options):
        await until_empty(engine, outbox)
    found = await counted(cluster)
    numbers = [int(value or b"") for value in values(found)]
    assert [*dict.fromkeys(numbers)] == [*range(8)]
    if options:
        assert len(numbers) == 8
    assert len({*keys_of(found)}) == 8


async def test_a_transaction_whose_commit_was_not_seen_is_not_published_again(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox
) -> None:
    """The relay is killed between the commit in Kafka and the deletion of the rows."""
    await put(engine, outbox, b"1", b"2", b"3")
    lost = cluster.faults.add("EndTxn", disconnect=True, after=True)
    async with relaying(outbox, engine, client, stop_ms=0, **EXACTLY_ONCE):
        await cluster.wait_for_requests("EndTxn")
    lost.remove()
    assert len(await rows(engine, outbox)) == 3
    async with relaying(outbox, engine, client, **EXACTLY_ONCE) as relay:
        await until_empty(engine, outbox)
        assert relay.metrics().records == 0
        await put(engine, outbox, b"4")
        await until_empty(engine, outbox)
    assert values(await counted(cluster)) == [b"1", b"2", b"3", b"4"]


async def test_a_relay_that_lost_its_shards_without_noticing_publishes_nothing_more(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox
) -> None:
    """Its process was suspended, in effect, while another one published the batch."""
    await put(engine, outbox, b"1", b"2")
    held = cluster.faults.add("Produce", hold=True, count=1)
    async with relaying(outbox, engine, client, lease_ms=60_000, **EXACTLY_ONCE) as first:
        await cluster.wait_for_requests("Produce")
        async with engine.begin() as connection:
            await connection.execute(text(f"UPDATE {outbox.name}_shards SET lease_until = 0"))
        async with Client(cluster.bootstrap_servers) as other, relaying(outbox, engine, other, **EXACTLY_ONCE):
            await until_empty(engine, outbox)
            held.release()
            await until(lambda: _failed(first))
    assert values(await counted(cluster)) == [b"1", b"2"]


async def _failed(relay: Relay) -> bool:
    return relay.metrics().shards < 4


@BOTH
async def test_a_refused_record_holds_up_its_shard_alone(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    await put(engine, outbox, b"1", b"2" * 2_000, b"3", key=b"ann")
    await put(engine, outbox, *[b"4"] * 20, key=None)

    async def is_held_up() -> bool:
        waiting = len(await rows(engine, outbox))
        return waiting == 2 + len(in_its_shard) and "max_request_size" in str(relay.health().problems)

    ((shard,),) = await rows(engine, outbox, "DISTINCT shard AS s", " WHERE key IS NOT NULL")
    in_its_shard = [number for (number,) in await rows(engine, outbox, "id", f" WHERE key IS NULL AND shard = {shard}")]
    async with relaying(outbox, engine, client, producer={"max_request_size": 1_000}, **options) as relay:
        await until(is_held_up)
        assert relay.health().live
    async with relaying(outbox, engine, client, **options):
        await until_empty(engine, outbox)
    assert [value for value in values(await counted(cluster)) if value != b"4"] == [b"1", b"2" * 2_000, b"3"]


@BOTH
async def test_a_refused_record_is_set_aside_where_that_is_asked_for(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    await put(engine, outbox, b"1", b"2" * 2_000, b"3")

    async def is_set_aside() -> bool:
        return len(await rows(engine, outbox)) == 1 and relay.metrics().records_set_aside == 1

    small: dict[str, Any] = {"producer": {"max_request_size": 1_000}, "set_aside": True}
    async with relaying(outbox, engine, client, **small, **options) as relay:
        await until(is_set_aside)
    ((refusal,),) = await rows(engine, outbox, "refusal")
    assert "max_request_size" in refusal
    assert values(await counted(cluster)) == [b"1", b"3"]
    async with engine.begin() as connection:
        await connection.execute(text(f"UPDATE {outbox.name} SET refusal = NULL"))
    async with relaying(outbox, engine, client, **options):
        await until_empty(engine, outbox)
    assert values(await counted(cluster)) == [b"1", b"3", b"2" * 2_000]


@BOTH
async def test_rows_of_other_programs_that_cannot_be_published_are_set_aside(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    insert = text(f"INSERT INTO {outbox.name} (shard, topic, value, headers) VALUES (0, :topic, :value, :headers)")
    wrong = [("no topic", "[]"), (TOPIC, "no json"), (TOPIC, "[1]"), (TOPIC, '[["name", 7]]'), (TOPIC, '[[7, ""]]')]
    wrong += [(TOPIC, "[" * 100_000), (TOPIC, r'[["\ud800", null]]'), (TOPIC, '[["url-safe", "a-b_"]]')]
    async with engine.begin() as connection:
        for topic, headers in [*wrong, (TOPIC, r'[["a", "YW\nJj"]]')]:
            await connection.execute(insert, {"topic": topic, "value": b"1", "headers": headers})

    async def is_set_aside() -> bool:
        left = [refusal for (_, refusal) in await rows(engine, outbox, "id, refusal")]
        return len(left) == len(wrong) and None not in left

    async with relaying(outbox, engine, client, set_aside=True, **options):
        await until(is_set_aside)
    refusals = [refusal for (_, refusal) in await rows(engine, outbox, "id, refusal")]
    assert refusals[0].startswith("topic must be")
    assert all("headers" in refusal for refusal in refusals[1:])
    (record,) = await counted(cluster)
    assert record.headers == (("a", b"abc"),)


async def test_a_problem_names_its_row(client: Client, engine: AsyncEngine, outbox: Outbox) -> None:
    async with engine.begin() as connection:
        await connection.execute(
            text(f"INSERT INTO {outbox.name} (shard, topic, headers) VALUES (0, '{TOPIC}', 'no json')")
        )
    ((number,),) = await rows(engine, outbox, "id")

    async def is_named() -> bool:
        return f"row {number}, a record for topic '{TOPIC}': the column headers must be" in str(relay.health().problems)

    async with relaying(outbox, engine, client) as relay:
        await until(is_named)


async def test_a_trace_goes_on_behind_the_outbox(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox
) -> None:
    spans = Spans()
    instrument(tracer_provider=spans.provider)
    try:
        with spans.tracer.start_as_current_span("request") as request:
            await put(engine, outbox, b"1")
        async with relaying(outbox, engine, client):
            await until_empty(engine, outbox)
    finally:
        uninstrument()
        spans.provider.shutdown()
    (record,) = await counted(cluster)
    assert trace_of(record)[:2] == ids(request)
    (link,) = spans.one(f"send {TOPIC}").links
    assert ids(link.context) == ids(request)


@BOTH
async def test_who_is_beside_a_refused_record_is_not_set_aside(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    """A broker refuses all records of a request for one of them."""
    await put(engine, outbox, b"1", b"2", b"3")
    cluster.faults.add("Produce", error_code=InvalidRecordError, count=1)
    async with relaying(outbox, engine, client, set_aside=True, **options) as relay:
        await until_empty(engine, outbox)
        assert relay.metrics().records_set_aside == 0
    assert values(await counted(cluster)) == [b"1", b"2", b"3"]


@BOTH
async def test_a_refused_record_among_many_is_found_in_a_few_attempts(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    cluster.create_topic("small", configs={"max.message.bytes": "500"})
    await put(engine, outbox, *[b"%d" % number for number in range(20)])
    async with engine.begin() as connection:
        await outbox.enqueue(connection, "small", b"1" * 2_000, b"ann")
    await put(engine, outbox, *[b"%d" % number for number in range(20, 40)])

    async def is_set_aside() -> bool:
        return len(await rows(engine, outbox, "id")) == 1

    async with relaying(outbox, engine, client, set_aside=True, **options) as relay:
        await until(is_set_aside)
        assert relay.metrics().failures <= 2
    assert values(await counted(cluster)) == [b"%d" % number for number in range(40)]


async def test_rows_of_a_shard_that_does_not_exist_are_a_problem(
    client: Client, engine: AsyncEngine, outbox: Outbox
) -> None:
    insert = text(f"INSERT INTO {outbox.name} (shard, topic, headers) VALUES (:shard, '{TOPIC}', '[]')")

    async def is_a_problem() -> bool:
        return f"rows of shard {shard} are never published" in str(relay.health().problems)

    async with relaying(outbox, engine, client, lease_ms=1_500) as relay:
        for shard in (-1, 4):
            async with engine.begin() as connection:
                await connection.execute(insert, {"shard": shard})
            await until(is_a_problem)
            assert relay.health().live
            async with engine.begin() as connection:
                await connection.execute(text(f"DELETE FROM {outbox.name}"))

        async def is_well() -> bool:
            return relay.health().healthy

        await until(is_well)


async def test_a_record_published_behind_a_refused_one_is_not_published_again(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox
) -> None:
    cluster.create_topic("small", configs={"max.message.bytes": "500"})
    async with engine.begin() as connection:
        await outbox.enqueue(connection, "small", b"1" * 2_000, b"ann")
        await outbox.enqueue(connection, TOPIC, b"2", b"ann")

    async def is_held_up() -> bool:
        return len(await rows(engine, outbox)) == 1 and relay.metrics().failures > 2

    async with relaying(outbox, engine, client) as relay:
        await until(is_held_up)
    assert values(await counted(cluster)) == [b"2"]


@BOTH
async def test_records_wait_while_kafka_is_away(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    async with relaying(outbox, engine, client, **options) as relay:
        await put(engine, outbox, b"1")
        await until_empty(engine, outbox)
        await cluster.stop_broker(1)
        await put(engine, outbox, b"2", b"3")

        async def is_waiting() -> bool:
            return relay.metrics().oldest_waiting_ms > 0

        await until(is_waiting)
        await cluster.start_broker(1)
        await until_empty(engine, outbox)
    assert values(await counted(cluster)) == [b"1", b"2", b"3"]


@BOTH
async def test_records_wait_while_the_database_is_away(
    cluster: EmbeddedCluster, client: Client, options: dict[str, Any], postgres: Postgres
) -> None:
    server = Postgres()
    server.start()
    engine = create_async_engine(server.url("postgresql+asyncpg"), pool_pre_ping=True)
    outbox = Outbox()
    async with engine.begin() as connection:
        await outbox.create(connection)
    try:
        async with relaying(outbox, engine, client, lease_ms=10_000, **options) as relay:
            await put(engine, outbox, b"1")
            await until_empty(engine, outbox)
            server.kill()

            async def is_unwell() -> bool:
                return any("the database" in problem for problem in relay.health().problems)

            await until(is_unwell)
            await anyio.to_thread.run_sync(server.start)
            await put(engine, outbox, b"2")
            await until_empty(engine, outbox)

            async def is_well() -> bool:
                return relay.health().healthy

            await until(is_well)
    finally:
        await engine.dispose()
        server.close()
    assert [*dict.fromkeys(values(await counted(cluster)))] == [b"1", b"2"]


@BOTH
async def test_relays_that_end_at_random_add_up(
    cluster: EmbeddedCluster, client: Client, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    rng = random.Random(7)
    # Three relays share a database, of which SQLite serves one at a time: a transaction has the time of a lease.
    often: dict[str, Any] = {"max_records": 3, "lease_ms": 10_000, **options}
    async with anyio.create_task_group() as tasks:

        async def write() -> None:
            for number in range(100):
                await put(engine, outbox, b"%d" % number, key=b"%d" % (number % 5))

        async def end_now_and_then() -> None:
            for _ in range(6):
                async with relaying(outbox, engine, client, stop_ms=0, **often):
                    await anyio.sleep(rng.random() * 0.1)

        tasks.start_soon(write)
        tasks.start_soon(end_now_and_then)
        async with relaying(outbox, engine, client, **often):
            await end_now_and_then()
    async with relaying(outbox, engine, client, **options):
        await until_empty(engine, outbox)
    by_key: dict[bytes, list[int]] = defaultdict(list)
    found = await counted(cluster)
    for record in found:
        by_key[record.key].append(int(record.value))
    assert {key: [*dict.fromkeys(numbers)] for key, numbers in by_key.items()} == {
        b"%d" % key: [*range(key, 100, 5)] for key in range(5)
    }
    if options:
        assert len(found) == 100


async def test_a_stop_does_not_wait_for_a_database_that_does_not_answer(
    cluster: EmbeddedCluster, client: Client, postgres: Postgres
) -> None:
    outbox = Outbox("outbox_locked")
    async with asyncpg.create_pool(postgres.url(), min_size=1, max_size=8) as pool:
        async with pool.acquire() as connection, connection.transaction():
            await outbox.create(connection)
        async with relaying(outbox, pool, client, lease_ms=120_000) as relay:

            async def has_its_shards() -> bool:
                return relay.metrics().shards == outbox.shards

            await until(has_its_shards)
            async with pool.acquire() as other, other.transaction():
                await other.execute("LOCK TABLE outbox_locked_shards IN ACCESS EXCLUSIVE MODE")
                relay.wake()
                with anyio.fail_after(30):
                    await relay.stop(100)


async def test_a_relay_looks_at_once_when_it_is_woken(client: Client, engine: AsyncEngine, outbox: Outbox) -> None:
    async with relaying(outbox, engine, client, poll_ms=600_000) as relay:

        async def has_its_shards() -> bool:
            return relay.metrics().shards == 4

        await until(has_its_shards)
        await put(engine, outbox, b"1")
        relay.wake()
        await until_empty(engine, outbox)


async def test_a_shard_that_is_woken_while_it_is_at_work_looks_again() -> None:
    held = _Held(0, float("inf"))
    held.wake()
    with anyio.fail_after(20):
        await held.sleep()
    with anyio.move_on_after(0.01) as waited:
        await held.sleep()
    assert waited.cancelled_caught


async def test_tables_that_are_not_there_or_others_end_the_run(client: Client, engine: AsyncEngine) -> None:
    with pytest.raises(Exception, match="no_such"):
        await Relay(Outbox("no_such"), engine, client).run()
    two = Outbox("two", shards=2)
    async with engine.begin() as connection:
        await two.create(connection)
    with pytest.raises(IllegalStateError, match="two_shards has 2 shards, but the Outbox has shards=8"):
        await Relay(Outbox("two"), engine, client).run()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_relay_waits_for_a_database_that_is_not_up_at_its_start(
    client: Client, ports: PortPool, driver: str
) -> None:
    pytest.importorskip(driver)
    engine = create_async_engine(f"postgresql+{driver}://nobody@127.0.0.1:{ports.take()}/shop")
    async with relaying(Outbox(), engine, client) as relay:
        with anyio.fail_after(PATIENCE_S):
            while relay.metrics().failures < 2:  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.01)
        assert "a query of the database failed" in relay.health().problems[0]
        assert relay.health().live
    await engine.dispose()


@pytest.mark.parametrize("occupied", ["pool", "database"])
async def test_a_relay_waits_at_its_start_for_a_connection_or_a_lock(
    client: Client, tmp_path: Path, occupied: str
) -> None:
    path = tmp_path / "outbox.db"
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}?timeout=0.01", poolclass=AsyncAdaptedQueuePool, pool_size=1, pool_timeout=0.01
    )
    patient = create_async_engine(f"sqlite+aiosqlite:///{path}?timeout=60")
    outbox = Outbox(shards=1)
    async with patient.begin() as connection:
        await outbox.create(connection)
        await outbox.enqueue(connection, TOPIC, b"1")
    async with AsyncExitStack() as stack:
        if occupied == "pool":
            for _ in range(11):  # with the overflow
                await stack.enter_async_context(engine.connect())
        else:
            lock = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
            lock.execute("BEGIN EXCLUSIVE")
        async with relaying(outbox, engine, client) as relay:

            async def has_failed() -> bool:
                return relay.metrics().failures > 1

            await until(has_failed)
            assert "a query of the database failed" in relay.health().problems[0]
            await stack.aclose()
            await until_empty(patient, outbox)
    await engine.dispose()
    await patient.dispose()


@BOTH
async def test_a_relay_ends_with_its_client(
    cluster: EmbeddedCluster, engine: AsyncEngine, outbox: Outbox, options: dict[str, Any]
) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        relay = Relay(outbox, engine, client, poll_ms=5, **options)
        running = asyncio.create_task(relay.run())
        await put(engine, outbox, b"1")
        await until_empty(engine, outbox)
    await put(engine, outbox, b"2")
    with anyio.fail_after(PATIENCE_S), pytest.raises(ClientClosedError):
        await running
    assert {owner for (owner,) in await rows(engine, outbox, "owner", "_shards WHERE lease_until > 0")} == set()


async def test_a_relay_runs_once(client: Client, engine: AsyncEngine, outbox: Outbox) -> None:
    async with relaying(outbox, engine, client) as relay:
        pass
    assert relay.health().problems == ("the relay is not running",)
    assert not relay.health().live
    with pytest.raises(IllegalStateError, match="a relay can run only once"):
        await relay.run()


async def test_wrong_options(client: Client, engine: AsyncEngine, outbox: Outbox) -> None:
    with pytest.raises(ConfigTypeError, match="database must be an AsyncEngine"):
        Relay(outbox, engine.sync_engine, client)
    with pytest.raises(ConfigTypeError, match="client must be a Client of aiokafka_lead, not str"):
        Relay(outbox, engine, "localhost:9092")  # type: ignore[arg-type]
    with pytest.raises(ConfigTypeError, match="max_recods is not an option of this client; did you mean max_records"):
        Relay(outbox, engine, client, max_recods=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="transactional_id must be an option of the relay"):
        Relay(outbox, engine, client, producer={"transactional_id": "a"})
    with pytest.raises(ConfigError, match="linger_ms must be"):
        Relay(outbox, engine, client, producer={"linger_ms": -1})
