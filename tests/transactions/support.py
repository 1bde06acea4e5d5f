"""Helpers of tests of transactions."""

from __future__ import annotations

from typing import Any

import anyio

from aiokafka_lead import Consumer, Producer, TopicPartition, TransactionPipeline
from aiokafka_lead.testing import EmbeddedCluster

ID = "payments"
PARTITIONS = 3


def transactional(cluster: EmbeddedCluster, **options: Any) -> Producer:
    """Return a producer with the transactional id `ID` that retries after a short wait."""
    options = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 40, "linger_ms": 0, **options}
    servers = options.pop("bootstrap_servers", cluster.bootstrap_servers)
    return Producer(servers, transactional_id=options.pop("transactional_id", ID), **options)


def pipelined(cluster: EmbeddedCluster, **options: Any) -> TransactionPipeline:
    """Return a pipeline with the transactional ids ``payments-0`` and so on that retries as soon."""
    options = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 40, "linger_ms": 0, **options}
    return TransactionPipeline(cluster.bootstrap_servers, transactional_id=ID, **options)


async def committed(cluster: EmbeddedCluster, topic: str = "events") -> dict[int, list[bytes | None]]:
    """Return a topic's records for ``read_committed``, by partition, once no transaction is open."""
    options: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    found: dict[int, list[bytes | None]] = {partition: [] for partition in range(PARTITIONS)}
    ends = {TopicPartition(topic, p): cluster.end_offset(topic, p) for p in range(PARTITIONS)}
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        consumer.assign(list(ends))
        with anyio.fail_after(20):
            while True:
                positions = {tp: await consumer.position(tp) for tp in ends}
                if all(positions[tp] >= end for tp, end in ends.items()):
                    return found
                for tp, records in (await consumer.getmany(timeout_ms=50)).items():
                    found[tp.partition] += [record.value for record in records]
