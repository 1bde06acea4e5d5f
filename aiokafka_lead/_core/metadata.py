"""What the client knows about its cluster."""

from __future__ import annotations

from .metadata_types import (
    NO_EPOCH,
    NO_LEADER,
    NO_TOPIC_ID,
    Broker,
    ClusterSnapshot,
    LeaderHint,
    PartitionMetadata,
    TopicMetadata,
)

__all__ = [
    "NO_EPOCH",
    "NO_LEADER",
    "NO_TOPIC_ID",
    "Broker",
    "ClusterSnapshot",
    "LeaderHint",
    "PartitionMetadata",
    "TopicMetadata",
]
