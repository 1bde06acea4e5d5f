"""Administration of a Kafka cluster."""

from __future__ import annotations

from .client import AdminClient
from .types import (
    BrokerDescription,
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    CreatedTopic,
    ElectionType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionDescription,
    PartitionReassignment,
    TopicDescription,
    TopicListing,
)

__all__ = [
    "AdminClient",
    "BrokerDescription",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "CreatedTopic",
    "ElectionType",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionDescription",
    "PartitionReassignment",
    "TopicDescription",
    "TopicListing",
]
