"""A cluster for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokafka_lead.testing import EmbeddedCluster


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """One broker with a topic "events" of three partitions, and "failed" of one."""
    async with EmbeddedCluster(brokers=1) as embedded:
        embedded.create_topic("events", partitions=3)
        embedded.create_topic("failed")
        yield embedded
