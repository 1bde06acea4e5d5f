"""Common interface for transactions of SQLAlchemy, asyncpg and aiosqlite.

Statements have parameters in the form ``:name``. The library of an object is found by the name of its class's module,
so this module imports none of the libraries.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Protocol

from ..errors import ConfigTypeError, IllegalStateError

Rows = Sequence[Sequence[Any]]


class Transaction(Protocol):
    """An open transaction of the application. The code that began it also ends it."""

    @property
    def dialect(self) -> str:
        """Name of the database as in SQLAlchemy, for example ``"postgresql"`` or ``"sqlite"``."""
        ...

    async def execute(self, statement: str, values: Mapping[str, object]) -> Rows:
        """Execute a statement with these parameters, and return its rows."""
        ...


class _OfSqlAlchemy:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @property
    def dialect(self) -> str:
        bind = self._connection
        if hasattr(bind, "get_bind"):
            bind = bind.get_bind()
        return str(bind.dialect.name)

    async def execute(self, statement: str, values: Mapping[str, object]) -> Rows:
        result = await self._connection.execute(_text(statement), values)
        rows: Rows = result.fetchall() if result.returns_rows else []
        return rows


@cache
def _text(statement: str) -> Any:
    from sqlalchemy import text

    return text(statement)


class _OfAsyncpg:
    dialect = "postgresql"

    def __init__(self, connection: Any) -> None:
        if not connection.is_in_transaction():
            raise IllegalStateError("connection is not in a transaction; use async with connection.transaction()")
        self._connection = connection

    async def execute(self, statement: str, values: Mapping[str, object]) -> Rows:
        numbered, names = _numbered(statement)
        rows: Rows = await self._connection.fetch(numbered, *(values[name] for name in names))
        return rows


@cache
def _numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement with numbered parameters (``$1``), and the names of the parameters in order."""
    names = tuple(dict.fromkeys(re.findall(r":(\w+)", statement)))
    return re.sub(r":(\w+)", lambda found: f"${names.index(found[1]) + 1}", statement), names


class _OfAiosqlite:
    dialect = "sqlite"

    def __init__(self, connection: Any) -> None:
        if connection.isolation_level is None and not connection.in_transaction:
            raise IllegalStateError(
                'connection is not in a transaction; with isolation_level=None, first execute("BEGIN")'
            )
        self._connection = connection

    async def execute(self, statement: str, values: Mapping[str, object]) -> Rows:
        async with self._connection.execute(statement, values) as cursor:
            rows: Rows = await cursor.fetchall()
        return rows


_TRANSACTIONS: dict[str, Any] = {"sqlalchemy": _OfSqlAlchemy, "asyncpg": _OfAsyncpg, "aiosqlite": _OfAiosqlite}


def transaction_of(connection: Any) -> Transaction:
    """Return an object that executes statements in the open transaction of a connection or a session.

    Raises `ConfigTypeError` for an object of an unknown type, and `IllegalStateError` if an asyncpg connection, or an
    aiosqlite connection in autocommit mode, has no transaction.
    """
    library = _library(connection)
    is_sync = library == "sqlalchemy" and not any("async" in base.__name__.lower() for base in type(connection).__mro__)
    if library not in _TRANSACTIONS or is_sync or not hasattr(connection, "execute"):
        raise ConfigTypeError(
            "connection must be an AsyncSession, async_scoped_session or AsyncConnection of SQLAlchemy, or a "
            f"connection of asyncpg or aiosqlite, not {type(connection).__name__}"
        )
    transaction: Transaction = _TRANSACTIONS[library](connection)
    return transaction


class Database(Protocol):
    """The application's database, in which the relay begins transactions."""

    def begin(self) -> Any:
        """Return an asynchronous context manager that commits the transaction, or rolls it back after an error."""


class _Engine:
    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        async with self._engine.begin() as connection:
            yield _OfSqlAlchemy(connection)


class _Pool:
    def __init__(self, pool: Any) -> None:
        self._pool = pool

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        async with self._pool.acquire() as connection, connection.transaction():
            yield _OfAsyncpg(connection)


def database_of(database: Any) -> Database:
    """Wrap an AsyncEngine of SQLAlchemy or a Pool of asyncpg. Raises `ConfigTypeError` for other objects."""
    library = _library(database)
    if library == "sqlalchemy" and hasattr(database, "begin") and hasattr(database, "sync_engine"):
        return _Engine(database)
    if library == "asyncpg" and hasattr(database, "acquire"):
        return _Pool(database)
    raise ConfigTypeError(
        f"database must be an AsyncEngine of SQLAlchemy or a Pool of asyncpg, not {type(database).__name__}"
    )


_UNAVAILABLE = ("08", "53", "57P")
"""Prefixes of PostgreSQL's error codes for lost connections, exhausted resources, and a starting or stopping server."""


_LOCKED = (5, 6)
"""SQLite's codes SQLITE_BUSY and SQLITE_LOCKED."""


def is_unavailable(error: BaseException | None) -> bool:
    """Return True if the database is unreachable or locked, or has no free connection."""
    if error is None:
        return False
    if _library(error) == "sqlalchemy" and type(error).__name__ == "TimeoutError":  # the pool has no free connection
        return True
    state = getattr(error, "sqlstate", "")
    if isinstance(error, OSError) or str(state).startswith(_UNAVAILABLE):
        return True
    if state is None and type(error).__module__.startswith("psycopg") and type(error).__name__ == "OperationalError":
        return True  # psycopg, as a driver of SQLAlchemy, has no code if it cannot connect
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED or is_unavailable(error.__cause__)


def _library(value: object) -> str:
    """Return the name of the supported library that defines a value's class or one of its base classes, or ``""``."""
    libraries = [base.__module__.partition(".")[0] for base in type(value).__mro__]
    return next((name for name in libraries if name in _TRANSACTIONS), "")
