"""A cluster for each test, with transactions of KIP-890 or the earlier version."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokafka_lead.testing import EmbeddedCluster


@pytest.fixture(params=[2, 1], ids=["v2", "v1"])
def transaction_version(request: pytest.FixtureRequest) -> int:
    """Level of the feature ``transaction.version``: each in turn."""
    version: int = request.param
    return version


@pytest.fixture
async def cluster(transaction_version: int) -> AsyncIterator[EmbeddedCluster]:
    """Three brokers, with a topic "events" of three partitions, each led by another broker."""
    async with EmbeddedCluster(brokers=3, features={"transaction.version": transaction_version}) as embedded:
        embedded.create_topic("events", partitions=3, replication_factor=3)
        yield embedded
