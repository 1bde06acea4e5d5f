"""The embedded cluster that each test of a folder gets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafka_lead.testing import EmbeddedCluster


def cluster_with(*, brokers: int, **topics: int) -> Any:
    """Return a fixture ``cluster``, new for each test, with these topics, given as numbers of partitions.

    Each partition has a replica on every broker. Brokers lead the partitions in turn.
    """

    @pytest.fixture(name="cluster")
    async def cluster() -> AsyncIterator[EmbeddedCluster]:
        async with EmbeddedCluster(brokers=brokers) as embedded:
            for name, partitions in topics.items():
                embedded.create_topic(name, partitions=partitions, replication_factor=brokers)
            yield embedded

    return cluster
