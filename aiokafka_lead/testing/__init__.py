"""A Kafka cluster for tests, in the process and the event loop of the test: real sockets, no JVM.

    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("events", partitions=6)
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("events", b"hello")
        cluster.move_leader("events", 0)

The brokers share only the codec of the protocol with the client. Tests can therefore find any other mistake in the
client, because the cluster does not repeat it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._state.client_metrics import TelemetryPush
    from ._state.members import GroupOptions
    from .cluster import EmbeddedCluster
    from .faults import HTTP_ANSWER, TLS_ALERT, Fault, Faults, Hint
    from .request_log import RequestLog, RequestRecord
    from .schema_registry import EmbeddedSchemaRegistry, RegistryRequest
    from .thread import ClusterThread

__all__ = [
    "HTTP_ANSWER",
    "TLS_ALERT",
    "ClusterThread",
    "EmbeddedCluster",
    "EmbeddedSchemaRegistry",
    "Fault",
    "Faults",
    "GroupOptions",
    "Hint",
    "RegistryRequest",
    "RequestLog",
    "RequestRecord",
    "TelemetryPush",
]

_MODULES = {
    "ClusterThread": "thread",
    "EmbeddedCluster": "cluster",
    "EmbeddedSchemaRegistry": "schema_registry",
    "GroupOptions": "_state.members",
    "RegistryRequest": "schema_registry",
    "RequestLog": "request_log",
    "RequestRecord": "request_log",
    "TelemetryPush": "_state.client_metrics",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used, because every run of pytest imports this package for its plugin."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'faults')}"), name)
    globals()[name] = value
    return value
