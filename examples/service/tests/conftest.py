"""A database in a file for each test; the cluster is the fixture ``kafka_cluster``, which comes with aiokafka-lead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from shop.database import create_tables
from shop.settings import Settings
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from aiokafka_lead.testing import ClusterThread


@pytest.fixture
def anyio_backend() -> str:
    """Return the event loop of the tests."""
    return "asyncio"


@pytest.fixture
def settings(kafka_cluster: ClusterThread, tmp_path: Path) -> Settings:
    """Return the settings of a test."""
    kafka_cluster.create_topic("orders", 3)
    kafka_cluster.create_topic("orders.failed")
    return Settings(kafka_cluster.bootstrap_servers, f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}", health_port=0)


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """Provide a database with its tables."""
    made = create_async_engine(settings.database)
    await create_tables(made)
    yield made
    await made.dispose()
