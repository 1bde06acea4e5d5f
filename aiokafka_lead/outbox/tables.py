"""Tables of an outbox, and `Outbox`, which applications use to write to them."""

from __future__ import annotations

import base64
import json
import re
import uuid
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._core.tracing import installed
from .._options.arguments import byte_string, record_headers, topic_name
from .._options.checks import integer, short_text
from ..errors import ConfigError
from ..types import Header, Headers
from .databases import transaction_of

_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]{0,39}")
_SHARDS = integer(1, 1000)
_HINT = "; serialize it first, for example with json.dumps(value).encode()"


class Dialect(NamedTuple):
    """The parts of the SQL statements that differ between databases."""

    number: str
    """Type of a column that numbers inserted rows."""
    content: str
    """Type of a column with bytes."""
    now: str
    """Expression for the time in seconds since 1970 when it is evaluated, not when the transaction began."""
    ids: str
    """Query of the row numbers in the parameter ``:ids``, which is the text of a JSON list."""
    storage: str
    """Storage options of a table whose rows are deleted soon."""
    lock: str
    """Statement that waits for other transactions with the same ``:lock``; empty if writers always wait for each
    other."""


_DIALECTS = {
    "postgresql": Dialect(
        number="BIGINT GENERATED ALWAYS AS IDENTITY",
        content="BYTEA",
        now="CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)",
        ids="SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(CAST(:ids AS TEXT) AS JSON))",
        storage=" WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)",
        lock="SELECT pg_advisory_xact_lock(CAST(:lock AS BIGINT))",
    ),
    "sqlite": Dialect(
        number="INTEGER",
        content="BLOB",
        now="((julianday('now') - 2440587.5) * 86400.0)",
        ids="SELECT value FROM json_each(:ids)",
        storage="",
        lock="",
    ),
}


def dialect_of(name: str) -> Dialect:
    """Return the dialect with this name in SQLAlchemy. Raises `ConfigError` if the database is not supported."""
    if name not in _DIALECTS:
        raise ConfigError(f"the database must be one of {', '.join(_DIALECTS)}, not {name}")
    return _DIALECTS[name]


class Outbox:
    """Table in which records wait until a `Relay` has published them.

        outbox = Outbox("outbox")

        async with engine.begin() as connection:
            await outbox.create(connection)  # or use outbox.schema() in a migration

    ``name`` is the name of the table. With PostgreSQL, a schema may precede it (``"sales.outbox"``). A second table,
    ``<name>_shards``, stores which relay holds each shard. ``shards`` (8) is the number of shards, which is also the
    maximum number of relays that can work at the same time. It must be the same in all programs that use the table.
    ``id_header`` (``"idempotency-key"``) is the name of the header with each record's idempotence key. Raises
    `ConfigError` or `ConfigTypeError` for an invalid argument.
    """

    def __init__(self, name: str = "outbox", *, shards: int = 8, id_header: str = "idempotency-key") -> None:
        if _NAME.fullmatch(short_text("name", name)) is None:
            raise ConfigError(f"name must consist of up to 40 ASCII letters, digits and '_', not {name!r}")
        self.name = name
        self.shards: int = _SHARDS("shards", shards)
        self._id_header = short_text("id_header", id_header)
        self._insert = (
            f"INSERT INTO {name} (shard, topic, key, value, headers) VALUES (:shard, :topic, :key, :value, :headers)"
        )

    async def enqueue(
        self,
        connection: Any,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[Header] | None = None,
        *,
        idempotence_key: str | None = None,
    ) -> str:
        """Write a record in the open transaction of ``connection``. The record is published if the transaction commits.

            async with pool.acquire() as connection, connection.transaction():
                await connection.execute("INSERT INTO orders ...")
                await outbox.enqueue(connection, "orders", order.to_json(), key=order.customer)

        ``connection`` is an AsyncSession, async_scoped_session or AsyncConnection of SQLAlchemy, or a connection of
        asyncpg or aiosqlite. ``value`` and ``key`` are bytes or None, and ``headers`` are pairs of a str and bytes. The
        record's timestamp is the time of this call. Records of a key are published in the order of these calls if the
        transactions do not overlap, otherwise in the order of the commits.

        Returns the idempotence key of the record, which lets consumers recognize duplicates. It is ``idempotence_key``,
        or by default a random UUID.

        Raises `ConfigError` or `ConfigTypeError` for invalid arguments, `IllegalStateError` if a connection of asyncpg,
        or of aiosqlite with ``isolation_level=None``, has no open transaction, and the errors of the database.
        """
        name = str(uuid.uuid4()) if idempotence_key is None else short_text("idempotence_key", idempotence_key)
        content = byte_string("key", key, hint=_HINT)
        given = record_headers("headers", headers)
        if installed.tracer is not None:
            given = installed.tracer.carry(given)
        values = {
            "shard": zlib.crc32(name.encode() if content is None else content) % self.shards,
            "topic": topic_name("topic", topic),
            "key": content,
            "value": byte_string("value", value, hint=_HINT),
            "headers": _stored((*given, (self._id_header, name.encode()))),
        }
        await transaction_of(connection).execute(self._insert, values)
        return name

    async def create(self, connection: Any) -> None:
        """Create the tables in the open transaction of ``connection``, unless they exist.

        Several processes may call this method at the same time. It does not change existing tables, even if ``shards``
        differs. ``connection`` and the errors are as in `enqueue`.
        """
        transaction = transaction_of(connection)
        if lock := dialect_of(transaction.dialect).lock:
            # In PostgreSQL, creating a table in two transactions at once is an error, even with IF NOT EXISTS.
            await transaction.execute(lock, {"lock": zlib.crc32(self.name.encode())})
        for statement in self.schema(transaction.dialect):
            await transaction.execute(statement, {})

    def schema(self, dialect: str) -> tuple[str, ...]:
        """Return the SQL statements that create the tables, for use in a migration.

        ``dialect`` is ``"postgresql"`` or ``"sqlite"``. Execute the statements in order, in one transaction. Raises
        `ConfigError` for another database.
        """
        its, name = dialect_of(dialect), self.name
        index = name.rpartition(".")[2]
        numbers = ", ".join(f"({shard})" for shard in range(self.shards))
        rows = (
            f"CREATE TABLE IF NOT EXISTS {name} (id {its.number} PRIMARY KEY, shard INTEGER NOT NULL, "
            f"topic TEXT NOT NULL, key {its.content}, value {its.content}, headers TEXT NOT NULL, "
            f"created DOUBLE PRECISION NOT NULL DEFAULT ({its.now}), refusal TEXT){its.storage}"
        )
        waiting = f"CREATE INDEX IF NOT EXISTS {index}_waiting ON {name} (shard, id) WHERE refusal IS NULL"
        leases = (
            f"CREATE TABLE IF NOT EXISTS {name}_shards (shard INTEGER PRIMARY KEY, owner TEXT, wanted_by TEXT, "
            "lease_until DOUBLE PRECISION NOT NULL DEFAULT 0, batch TEXT, batch_ids TEXT)"
        )
        numbered = (
            f"INSERT INTO {name}_shards (shard) SELECT * FROM (VALUES {numbers}) AS numbers "
            f"WHERE NOT EXISTS (SELECT 1 FROM {name}_shards)"
        )
        return rows, waiting, leases, numbered

    def __repr__(self) -> str:
        return f"Outbox({self.name!r}, shards={self.shards})"


def _stored(headers: Headers) -> str:
    encoded = [(name, None if content is None else base64.b64encode(content).decode()) for name, content in headers]
    return json.dumps(encoded)
