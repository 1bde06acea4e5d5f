"""A cluster for each test, and only asyncio, because aiokafka supports no other event loop."""

from __future__ import annotations

import pytest

from tests.embedded import cluster_with

cluster = cluster_with(brokers=1, events=2)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Event loop of all tests here."""
    return "asyncio"
