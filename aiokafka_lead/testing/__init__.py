"""A Kafka cluster for tests, in the test's own process and event loop: real sockets, no JVM.

    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("events", partitions=6)
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("events", b"hello")
        cluster.move_leader("events", 0)

It shares the codec with the client and nothing else, so that a mistake of the client cannot cancel itself out.
"""

from ._state.group_coordinator import GroupOptions
from .cluster import EmbeddedCluster
from .faults import HTTP_ANSWER, TLS_ALERT, Fault, Faults, Hint
from .request_log import RequestLog, RequestRecord

__all__ = [
    "HTTP_ANSWER",
    "TLS_ALERT",
    "EmbeddedCluster",
    "Fault",
    "Faults",
    "GroupOptions",
    "Hint",
    "RequestLog",
    "RequestRecord",
]
