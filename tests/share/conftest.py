"""A cluster for each test, with a topic of jobs and a group that begins at its first record."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokafka_lead.testing import EmbeddedCluster

from .support import cluster_with_locks


@pytest.fixture
def lock_ms() -> int:
    """Duration of locks: longer than any test. `SHORT_LOCKS` is for tests in which locks expire."""
    return 60_000


@pytest.fixture
async def cluster(lock_ms: int) -> AsyncIterator[EmbeddedCluster]:
    async with cluster_with_locks(lock_ms) as embedded:
        yield embedded
