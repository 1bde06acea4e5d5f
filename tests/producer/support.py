"""Helpers of the producer's tests."""

from __future__ import annotations

from aiokafka_lead.testing import EmbeddedCluster


def values(cluster: EmbeddedCluster, partition: int = 0) -> list[bytes | None]:
    """Return the values in the log of a partition of "events"."""
    return [record.value for record in cluster.records("events", partition)]
