"""A proxy that leads a broker's address to another broker, or to another cluster (KIP-1242), at real brokers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer, ShareConsumer
from aiokafka_lead.testing import EmbeddedCluster
from tests.share.support import configure

from .cut_proxy import CutProxy
from .harness import KafkaCluster
from .support import confluent_read, in_thread, make_consumer, make_producer, on_asyncio

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PARTITIONS = 3
PAUSE_S = 0.02
"""Between records, or transactions: nothing here depends on their rate."""


class Sending:
    """Sends numbers to each partition, until it is stopped."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.sent = 0
        self.stopped = False

    async def run(self, producer: Producer[Any, Any]) -> None:
        deliveries = []
        while not self.stopped:
            for partition in range(PARTITIONS):
                deliveries.append(await producer.send(self._topic, b"%d" % self.sent, partition=partition))
            self.sent += 1
            await anyio.sleep(PAUSE_S)
        for delivery in deliveries:
            await delivery


@pytest.mark.parametrize("elsewhere", ["another broker", "another cluster"])
async def test_rule_35_nothing_is_sent_where_an_address_leads_by_mistake(
    kafka: KafkaCluster, elsewhere: str, topic_name: Callable[[], str]
) -> None:
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    brokers = kafka.bootstrap().split(",")
    async with EmbeddedCluster(brokers=1, cluster_id="another") as stranger:
        stranger.create_topic(topic, partitions=PARTITIONS)
        sending = Sending(topic)
        wrong = brokers[1] if elsewhere == "another broker" else stranger.address(1)
        with CutProxy(kafka.bootstrap()) as proxy:
            servers = {"bootstrap_servers": proxy.bootstrap}
            async with (
                make_producer(kafka, linger_ms=0, **servers) as producer,
                make_consumer(kafka, group_id=topic, **servers) as consumer,
                AdminClient(proxy.bootstrap) as admin,
                anyio.create_task_group() as tasks,
            ):
                consumer.subscribe([topic])
                tasks.start_soon(sending.run, producer)
                read = 0
                while read < 60:
                    read += sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))
                proxy.lead(brokers[0], wrong)
                with anyio.fail_after(30):
                    while not producer.metrics().metadata.rebootstraps_required:  # noqa: ASYNC110 - it has no event
                        await anyio.sleep(0.01)
                for _ in range(20):  # the rest continue meanwhile
                    read += sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))
                    assert topic in await admin.list_topics()
                proxy.lead(brokers[0], None)
                healed = time.monotonic()
                before = producer.metrics().records_acked
                while producer.metrics().records_acked < before + 3 * PARTITIONS:  # noqa: ASYNC110 - as above
                    await anyio.sleep(0.01)
                assert time.monotonic() - healed < 5.0
                sending.stopped = True
                with anyio.fail_after(60):
                    while read < sending.sent * PARTITIONS or producer.metrics().records_acked < read:
                        read += sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))
        asked = {record.api for record in stranger.requests.select()}
        assert asked <= {"ApiVersions", "Metadata"}
    values: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for message in await in_thread(confluent_read, kafka, topic, PARTITIONS):
        values[message.partition() or 0].append(message.value() or b"")
    assert values == {partition: [b"%d" % n for n in range(sending.sent)] for partition in range(PARTITIONS)}


class Transacting:
    """Sends transactions of one number for each partition, until it is stopped."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.committed = 0
        self.stopped = False
        self.ended = anyio.Event()

    async def run(self, producer: Producer[Any, Any]) -> None:
        while not self.stopped:
            async with producer.transaction() as txn:
                for partition in range(PARTITIONS):
                    await txn.send(self._topic, b"%d" % self.committed, partition=partition)
            self.committed += 1
            await anyio.sleep(PAUSE_S)
        self.ended.set()


class Seen:
    """The records of two readers, by partition."""

    def __init__(self) -> None:
        self.read: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self.taken: Counter[tuple[int, int]] = Counter()

    async def reading(self, consumer: Consumer[Any, Any]) -> None:
        async for record in consumer:
            self.read[record.partition].append(int(record.value or b""))

    async def taking(self, jobs: ShareConsumer[Any, Any]) -> None:
        async for record in jobs:
            self.taken[record.partition, int(record.value or b"")] += 1


@on_asyncio
@pytest.mark.parametrize("elsewhere", ["another broker", "another cluster"])
async def test_rule_35_transactions_groups_and_share_groups_wait_for_the_right_broker(
    kafka: KafkaCluster, elsewhere: str, topic_name: Callable[[], str]
) -> None:
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    brokers = kafka.bootstrap().split(",")
    await configure(kafka.bootstrap(), f"{topic}-jobs", share_isolation_level="read_committed")
    async with EmbeddedCluster(brokers=1, cluster_id="another") as stranger:
        stranger.create_topic(topic, partitions=PARTITIONS)
        wrong = brokers[1] if elsewhere == "another broker" else stranger.address(1)
        transacting, seen = Transacting(topic), Seen()
        with CutProxy(kafka.bootstrap()) as proxy:
            servers: dict[str, Any] = {"bootstrap_servers": proxy.bootstrap}
            committed: dict[str, Any] = {"isolation_level": "read_committed", "group_protocol": "consumer"}
            async with (
                make_producer(kafka, transactional_id=topic, linger_ms=0, **servers) as producer,
                make_consumer(kafka, group_id=topic, **committed, **servers) as consumer,
                ShareConsumer(topic, group_id=f"{topic}-jobs", **servers) as jobs,
                anyio.create_task_group() as tasks,
            ):
                consumer.subscribe([topic])
                tasks.start_soon(transacting.run, producer)
                tasks.start_soon(seen.reading, consumer)
                tasks.start_soon(seen.taking, jobs)
                await until(lambda: all(seen.read.values()) and len(seen.taken) > PARTITIONS)
                proxy.lead(brokers[0], wrong)
                clients = (producer, consumer, jobs)
                await until(lambda: all(client.metrics().metadata.rebootstraps_required for client in clients))
                proxy.lead(brokers[0], None)
                healed, before = time.monotonic(), transacting.committed
                await until(lambda: transacting.committed > before + 1)
                assert time.monotonic() - healed < 10.0
                transacting.stopped = True
                await transacting.ended.wait()
                await until(lambda: all(len(read) >= transacting.committed for read in seen.read.values()))
                await until(lambda: len(seen.taken) >= transacting.committed * PARTITIONS)
                await consumer.stop()
                await jobs.stop()
        asked = {record.api for record in stranger.requests.select()}
        assert asked <= {"ApiVersions", "Metadata"}
    wanted = {partition: list(range(transacting.committed)) for partition in range(PARTITIONS)}
    assert seen.read == wanted
    assert seen.taken.keys() == {(partition, n) for partition, numbers in wanted.items() for n in numbers}
    stored: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for message in await in_thread(confluent_read, kafka, topic, PARTITIONS):
        stored[message.partition() or 0].append(int(message.value() or b""))
    assert stored == wanted


async def until(condition: Callable[[], bool]) -> None:
    """Poll until the condition, which has no event, holds; raise TimeoutError after a minute."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.02)
