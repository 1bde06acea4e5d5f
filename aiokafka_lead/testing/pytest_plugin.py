"""The fixture ``kafka_cluster``: a Kafka cluster for one test, whatever the test runs on.

The cluster has a thread and an event loop of its own (`ClusterThread`). So the fixture is a plain one, and the same for
plain tests, for pytest-asyncio and for anyio's plugin on asyncio and trio: no plugin has to share its loop, or agree
with another one about which of them runs asynchronous fixtures.

    async def test_events(kafka_cluster):
        kafka_cluster.create_topic("events", partitions=3)
        async with Producer(kafka_cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("events", b"hello")
        await kafka_cluster.kill_broker(1)

A test sets its cluster's options with ``@pytest.mark.kafka_cluster(brokers=1)``, a module or project by overriding the
fixture ``kafka_cluster_options``; they are those of `EmbeddedCluster`. Where the cluster should run in the test's own
event loop, use ``async with EmbeddedCluster()`` instead.
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
    """Options for every cluster; override it to set some."""
    return {}


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, kafka_cluster_options: dict[str, Any]) -> Iterator[ClusterThread]:
    """A Kafka cluster, by default of three brokers, for this test alone."""
    # Imported here: the plugin is loaded in every pytest run, the cluster is not needed in most.
    from .cluster import EmbeddedCluster
    from .thread import ClusterThread

    options = dict(kafka_cluster_options)
    for marker in reversed(list(request.node.iter_markers("kafka_cluster"))):
        options.update(marker.kwargs)
    with ClusterThread(EmbeddedCluster(**options)) as cluster:
        yield cluster


@pytest.fixture
def schema_registry() -> Iterator[EmbeddedSchemaRegistry]:
    """A schema registry for this test alone."""
    from .schema_registry import EmbeddedSchemaRegistry

    with EmbeddedSchemaRegistry() as registry:
        yield registry
