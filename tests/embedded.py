"""The embedded cluster that each test of a folder gets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lead.testing import EmbeddedCluster


def cluster_with(*, brokers: int, **topics: int) -> Any:
    """A fixture ``cluster``, new for each test, with these topics: so many partitions each, and a replica per broker.

    Partitions are led by the brokers in turn.
    """

    @pytest.fixture(name="cluster")
    async def cluster() -> AsyncIterator[EmbeddedCluster]:
        async with EmbeddedCluster(brokers=brokers) as embedded:
            for name, partitions in topics.items():
                embedded.create_topic(name, partitions=partitions, replication_factor=brokers)
            yield embedded

    return cluster
