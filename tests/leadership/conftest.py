"""A cluster for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokafka_lead.testing import EmbeddedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """Three brokers, with a topic "t" whose one partition broker 1 leads."""
    async with EmbeddedCluster(brokers=3) as embedded:
        embedded.create_topic("t", partitions=1, replication_factor=3)
        yield embedded
