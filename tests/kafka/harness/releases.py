"""The releases of Apache Kafka that the tests run against."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Release:
    """One release of Apache Kafka, and its differences for the harness."""

    version: str
    scram: bool = True
    """True if a KRaft cluster can keep SCRAM users (KIP-900, since 3.5)."""
    producer_ids: bool = True
    """True if a KRaft cluster hands out producer ids (KIP-730, since 3.0). Without, no producer is idempotent."""

    reassign_tool: str = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    """Class of ``kafka-reassign-partitions.sh``."""

    config_tool: str = "kafka.admin.ConfigCommand"
    """Class of ``kafka-configs.sh``."""

    def __str__(self) -> str:
        return self.version


NEWEST = Release("4.4.0", config_tool="org.apache.kafka.tools.ConfigCommand")
"""The newest release, with leader hints (KIP-951), topic ids in Produce, share groups, and transactions V2."""

OLD = Release("3.6.2", reassign_tool="kafka.admin.ReassignPartitionsCommand")
"""The last line before KIP-951 (3.7): no leader hints at all."""

FIRST_WITH_PRODUCER_IDS = Release("3.0.2", scram=False)
"""The oldest release without ZooKeeper on which a producer with default options works."""

OLDEST = Release("2.8.2", scram=False, producer_ids=False)
"""The first preview of KRaft, which runs on Java 17: the oldest release that a test can start."""
