"""Fixture ``kafka_cluster``: a Kafka cluster for one test, with or without an event loop.

    async def test_events(kafka_cluster):
        kafka_cluster.create_topic("events", partitions=3)
        async with Producer(kafka_cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("events", b"hello")
        await kafka_cluster.kill_broker(1)

The cluster runs on an event loop in a separate thread (`ClusterThread`). The fixture is therefore synchronous. It works
in plain tests, with pytest-asyncio, and with anyio's plugin on asyncio and trio.

To set options of `EmbeddedCluster` for one test, use ``@pytest.mark.kafka_cluster(brokers=1)``. To set them for a
module or a project, override the fixture ``kafka_cluster_options``. To run the cluster in the event loop of the test,
use ``async with EmbeddedCluster()`` instead of the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .schema_registry import EmbeddedSchemaRegistry
    from .thread import ClusterThread


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "kafka_cluster(**options): options of the test's kafka_cluster fixture")


@pytest.fixture(scope="session")
def kafka_cluster_options() -> dict[str, Any]:
    """Return options for every `EmbeddedCluster`, by default none.

    Override this fixture to set options.
    """
    return {}


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, kafka_cluster_options: dict[str, Any]) -> Iterator[ClusterThread]:
    """Provide a Kafka cluster (`ClusterThread`) for one test, by default with three brokers."""
    # Imported here, because every run of pytest loads the plugin, and most do not need a cluster.
    from .cluster import EmbeddedCluster
    from .thread import ClusterThread

    options = dict(kafka_cluster_options)
    for marker in reversed(list(request.node.iter_markers("kafka_cluster"))):
        options.update(marker.kwargs)
    with ClusterThread(EmbeddedCluster(**options)) as cluster:
        yield cluster


@pytest.fixture
def schema_registry() -> Iterator[EmbeddedSchemaRegistry]:
    """Provide an `EmbeddedSchemaRegistry` for one test."""
    from .schema_registry import EmbeddedSchemaRegistry

    with EmbeddedSchemaRegistry() as registry:
        yield registry
