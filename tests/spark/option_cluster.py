"""The cluster for `option_cases`."""

from __future__ import annotations

import asyncio

from aiokafka_lead import Producer
from aiokafka_lead.testing.thread import ClusterThread

from .option_cases import CUT_BEFORE, RECORDS, TOPICS, Case

_READING = {
    "dataLossTimeoutMs": "1000",
    "fetchOffset.retryIntervalMs": "1",
    "kafkaConsumer.pollTimeoutMs": "10000",
    "kafka.default.api.timeout.ms": "3000",
    "kafka.request.timeout.ms": "2500",
}
_WRITING = {"kafka.max.block.ms": "2000"}


def options(cluster: ClusterThread, case: Case) -> dict[str, str]:
    """Return the case's options, with short timeouts for refusals unless it sets them."""
    quick = _WRITING if case.rows else _READING
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **quick, **case.options}


def prepare(cluster: ClusterThread) -> None:
    """Create the topics of the cases."""
    for topic, partitions in TOPICS.items():
        cluster.create_topic(topic, partitions, configs={"retention.ms": "-1"})
    asyncio.run(_fill(cluster))
    cluster.delete_records("cut", 0, CUT_BEFORE)


async def _fill(cluster: ClusterThread) -> None:
    headers: list[list[tuple[str, bytes | None]]] = [[], [("a", b"1"), ("a", b"2")], [("b", None)], [("", b"")]]
    async with Producer(cluster.bootstrap_servers) as producer:
        for topic, count in RECORDS.items():
            for partition in range(TOPICS[topic]):
                await producer.send_many(
                    topic,
                    [None if n % 3 == 0 else b"v%d" % n for n in range(count)],
                    keys=[None if n % 5 == 0 else b"" if n % 5 == 1 else b"k%d" % n for n in range(count)],
                    partition=partition,
                    timestamps_ms=[1000 * (n + 1) for n in range(count)],
                    headers=[headers[n % 4] for n in range(count)],
                )
                await producer.flush()
