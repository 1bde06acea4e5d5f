"""`MetadataRequest`, in the module that aiokafka imports it from. One class serves all versions."""

from __future__ import annotations

from collections.abc import Iterable

from ..._wire.messages import metadata as wire
from .api import Request, Rows

__all__ = [
    "MetadataRequest",
    "MetadataRequest_v0",
    "MetadataRequest_v1",
    "MetadataRequest_v2",
    "MetadataRequest_v3",
    "MetadataRequest_v4",
    "MetadataRequest_v5",
]


class MetadataRequest(Request):
    """Requests the metadata of these topics, or of all topics if they are None."""

    answer = Rows(
        ("throttle_time_ms", "throttle_time_ms"),
        ("brokers", "brokers", Rows(("node_id", "node_id"), ("host", "host"), ("port", "port"), ("rack", "rack"))),
        ("cluster_id", "cluster_id"),
        ("controller_id", "controller_id"),
        (
            "topics",
            "topics",
            Rows(
                ("error_code", "error_code"),
                ("topic", "name"),
                ("is_internal", "is_internal"),
                (
                    "partitions",
                    "partitions",
                    Rows(
                        ("error_code", "error_code"),
                        ("partition", "partition_index"),
                        ("leader", "leader_id"),
                        ("replicas", "replica_nodes"),
                        ("isr", "isr_nodes"),
                        ("offline_replicas", "offline_replicas"),
                    ),
                ),
            ),
        ),
    )

    def __init__(self, topics: Iterable[str] | None = None, allow_auto_topic_creation: bool = True) -> None:
        self.topics = None if topics is None else list(topics)
        self.allow_auto_topic_creation = allow_auto_topic_creation

    def native(self) -> wire.MetadataRequest:
        """Return the native request."""
        topics = self.topics
        return wire.MetadataRequest(
            topics=None if topics is None else [wire.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=self.allow_auto_topic_creation,
        )


MetadataRequest_v0 = MetadataRequest_v1 = MetadataRequest_v2 = MetadataRequest
MetadataRequest_v3 = MetadataRequest_v4 = MetadataRequest_v5 = MetadataRequest
