"""A cluster for each test, with a topic for its group."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokafka_lead.testing import EmbeddedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """Three brokers, with a topic "events" of six partitions."""
    async with EmbeddedCluster(brokers=3) as embedded:
        embedded.create_topic("events", partitions=6, replication_factor=3)
        yield embedded
