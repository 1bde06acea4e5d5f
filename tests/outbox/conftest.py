"""An outbox in each of the databases, and a cluster to publish to."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from aiokafka_lead import Client
from aiokafka_lead.outbox import Outbox
from aiokafka_lead.testing import EmbeddedCluster
from tests.embedded import cluster_with

from .postgres import Postgres
from .support import PARTITIONS

cluster = cluster_with(brokers=1, orders=PARTITIONS)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Only asyncio: the libraries of the databases support no other event loop."""
    return "asyncio"


@pytest.fixture
async def client(cluster: EmbeddedCluster) -> AsyncIterator[Client]:
    """Connections to the cluster."""
    async with Client(cluster.bootstrap_servers, retry_backoff_ms=10, retry_backoff_max_ms=40) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URLs of the databases for SQLAlchemy, each in turn."""
    if request.param == "sqlite":
        # Seconds to wait for a locked database. The default of 5 is too short for a writer on a busy machine.
        return f"sqlite+aiosqlite:///{tmp_path / 'outbox.db'}?timeout=60"
    server: Postgres = request.getfixturevalue("postgres")
    return server.url("postgresql+asyncpg")


@pytest.fixture
async def engine(url: str) -> AsyncIterator[AsyncEngine]:
    """An engine for that database."""
    made = create_async_engine(url)
    yield made
    await made.dispose()


@pytest.fixture
async def outbox(engine: AsyncEngine) -> Outbox:
    """An empty outbox of four shards, used by this test alone."""
    made = Outbox(f"outbox_{uuid.uuid4().hex[:8]}", shards=4)
    async with engine.begin() as connection:
        await made.create(connection)
    return made
