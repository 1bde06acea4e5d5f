"""Proof that the embedded cluster speaks Kafka: independent clients work with it."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.structs import TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic  # type: ignore[attr-defined]

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster, GroupOptions

from ..suites import crossed

COUNT = 500

VALUES = [b"value-%d" % index for index in range(COUNT)]


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    with ClusterThread(EmbeddedCluster(brokers=3, groups=GroupOptions(consumer_heartbeat_interval_ms=200))) as cluster:
        yield cluster
        assert cluster.protocol_errors == []


def stored_values(cluster: ClusterThread, topic: str) -> list[bytes | None]:
    return [
        record.value
        for partition in range(cluster.partition_count(topic))
        for record in cluster.records(topic, partition)
    ]


# --- aiokafka --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", crossed([None, "snappy", "gzip", "lz4", "zstd"], first=2))
def test_aiokafka_produces_and_consumes_in_a_group(cluster: ClusterThread, compression: str | None) -> None:
    async def run() -> list[bytes | None]:
        servers = cluster.bootstrap_servers
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True, compression_type=compression, linger_ms=1
        )
        async with producer:
            sent = [await producer.send("t", value, key=value) for value in VALUES]
            await asyncio.gather(*sent)
        consumer = aiokafka.AIOKafkaConsumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
        async with consumer:
            got: list[bytes | None] = []
            async with asyncio.timeout(30):
                while len(got) < COUNT:
                    for records in (await consumer.getmany(timeout_ms=1000)).values():
                        got += [record.value for record in records]
            await consumer.commit()
            ends = await consumer.end_offsets([TopicPartition("t", p) for p in range(3)])
            for partition, end in ends.items():
                assert await consumer.committed(partition) == (end or None)
        return got

    cluster.create_topic("t", 3)
    assert sorted(value or b"" for value in asyncio.run(run())) == sorted(VALUES)
    assert sorted(value or b"" for value in stored_values(cluster, "t")) == sorted(VALUES)


def test_aiokafka_members_share_the_partitions(cluster: ClusterThread) -> None:
    async def run() -> None:
        def consumer() -> aiokafka.AIOKafkaConsumer:
            return aiokafka.AIOKafkaConsumer(
                "t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", heartbeat_interval_ms=100
            )

        async def settled(*members: aiokafka.AIOKafkaConsumer) -> None:
            async with asyncio.timeout(30):
                while True:
                    owned = [partition.partition for member in members for partition in member.assignment()]
                    if sorted(owned) == list(range(6)) and all(member.assignment() for member in members):
                        return
                    await asyncio.sleep(0.02)

        async with consumer() as first:
            await settled(first)
            async with consumer() as second:
                await settled(first, second)
                async with consumer() as third:
                    await settled(first, second, third)
                await settled(first, second)
            await settled(first)

    cluster.create_topic("t", 6)
    asyncio.run(run())


def test_aiokafka_survives_a_leader_move_and_a_killed_broker(cluster: ClusterThread) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True, retry_backoff_ms=20
        )
        async with producer:
            for index, value in enumerate(VALUES[:60]):
                if index == 20:
                    cluster.move_all_leaders()
                if index == 40:
                    await cluster.kill_broker(cluster.leader("t"))
                await asyncio.wait_for(producer.send_and_wait("t", value, partition=0), 30)

    cluster.create_topic("t", 3)
    asyncio.run(run())
    assert stored_values(cluster, "t") == VALUES[:60]


def test_aiokafka_transactions(cluster: ClusterThread) -> None:
    async def run() -> tuple[list[bytes], list[bytes]]:
        servers = cluster.bootstrap_servers
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=servers, transactional_id="tx")
        async with producer:
            for committed in (True, False, True):
                await producer.begin_transaction()
                for value in (b"a", b"b"):
                    await producer.send("t", value + (b"+" if committed else b"-"), partition=0)
                if committed:
                    await producer.send_offsets_to_transaction({TopicPartition("t", 0): 2}, "g")
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        read = []
        for isolation, count in (("read_committed", 4), ("read_uncommitted", 6)):
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=servers, isolation_level=isolation, group_id="g", enable_auto_commit=False
            )
            async with consumer:
                consumer.assign([TopicPartition("t", 0)])
                assert await consumer.committed(TopicPartition("t", 0)) == 2
                await consumer.seek_to_beginning()
                async with asyncio.timeout(30):
                    read.append([(await consumer.getone()).value for _ in range(count)])
        return read[0], read[1]

    cluster.create_topic("t")
    committed, everything = asyncio.run(run())
    assert committed == [b"a+", b"b+", b"a+", b"b+"]
    assert everything == [b"a+", b"b+", b"a-", b"b-", b"a+", b"b+"]


# --- confluent-kafka -------------------------------------------------------------------------------------------------


def confluent_producer(cluster: ClusterThread, **options: Any) -> confluent_kafka.Producer:
    return confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, **options})


def confluent_send(producer: confluent_kafka.Producer, values: list[bytes], **where: Any) -> None:
    failed: list[Any] = []
    for value in values:
        producer.produce("t", value, on_delivery=lambda error, _: failed.append(error) if error else None, **where)
    assert producer.flush(30) == 0
    assert failed == []


def confluent_read(consumer: confluent_kafka.Consumer, count: int) -> list[bytes | None]:
    got: list[bytes | None] = []
    end = time.monotonic() + 30
    while len(got) < count:
        assert time.monotonic() < end, f"{len(got)} of {count} records"
        message = consumer.poll(0.1)
        if message is not None:
            assert message.error() is None, message.error()
            got.append(message.value())
    return got


@pytest.mark.parametrize("compression", crossed(["zstd", "lz4", "none", "gzip", "snappy"], first=2))
def test_confluent_produces_and_consumes_in_a_group(cluster: ClusterThread, compression: str) -> None:
    cluster.create_topic("t", 3)
    producer = confluent_producer(cluster, **{"enable.idempotence": True, "compression.type": compression})
    confluent_send(producer, VALUES)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["t"])
        got = confluent_read(consumer, COUNT)
        consumer.commit(asynchronous=False)
        positions = consumer.committed([confluent_kafka.TopicPartition("t", p) for p in range(3)], timeout=60)
        assert sum(max(0, position.offset) for position in positions) == COUNT
    finally:
        consumer.close()
    assert sorted(value or b"" for value in got) == sorted(VALUES)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_confluent_members_share_the_partitions(cluster: ClusterThread, strategy: str) -> None:
    cluster.create_topic("t", 6)
    consumers: list[confluent_kafka.Consumer] = []

    def settled(*members: confluent_kafka.Consumer) -> None:
        end = time.monotonic() + 30
        while True:
            for member in members:
                member.poll(0.02)
            owned = [partition.partition for member in members for partition in member.assignment()]
            if sorted(owned) == list(range(6)) and all(member.assignment() for member in members):
                return
            assert time.monotonic() < end, owned

    try:
        for _ in range(3):
            consumer = confluent_kafka.Consumer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "group.id": "g",
                    "heartbeat.interval.ms": 100,
                    "partition.assignment.strategy": strategy,
                }
            )
            consumer.subscribe(["t"])
            consumers.append(consumer)
            settled(*consumers)
        consumers.pop().close()
        settled(*consumers)
    finally:
        for consumer in consumers:
            consumer.close()


def test_a_static_member_keeps_its_partitions_over_a_restart(cluster: ClusterThread) -> None:
    cluster.create_topic("t", 4)

    def member(instance: str) -> confluent_kafka.Consumer:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "g",
                "group.instance.id": instance,
                "heartbeat.interval.ms": 100,
                "partition.assignment.strategy": "range",
            }
        )
        consumer.subscribe(["t"])
        return consumer

    def wait(condition: Callable[[], bool], *members: confluent_kafka.Consumer) -> None:
        end = time.monotonic() + 30
        while not condition():
            for consumer in members:
                consumer.poll(0.02)
            assert time.monotonic() < end

    first, second = member("one"), member("two")
    wait(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    before = sorted(partition.partition for partition in second.assignment())
    joins = cluster.requests.count("JoinGroup")
    second.close()
    second = member("two")
    try:
        wait(lambda: len(second.assignment()) == 2, first, second)
        assert sorted(partition.partition for partition in second.assignment()) == before
        # Only the returning one joined.
        assert cluster.requests.count("JoinGroup") <= joins + 2
        assert len(first.assignment()) == 2
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("subscription", ["t", "^t.*"])
def test_confluent_members_of_the_new_protocol(cluster: ClusterThread, subscription: str) -> None:
    """KIP-848, next to a classic member that joins first and leaves last."""
    cluster.create_topic("t", 6)

    def member(protocol: str) -> confluent_kafka.Consumer:
        options = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 100} if protocol == "classic" else {}
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "moving",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                **options,
            }
        )
        consumer.subscribe([subscription])
        return consumer

    def settled(*members: confluent_kafka.Consumer) -> None:
        deadline = time.monotonic() + 30
        while sorted(len(each.assignment()) for each in members) != [6 // len(members)] * len(members):
            assert time.monotonic() < deadline, [each.assignment() for each in members]
            for each in members:
                each.poll(0.05)
        owned = {(each.topic, each.partition) for consumer in members for each in consumer.assignment()}
        assert len(owned) == 6

    consumers = [member("classic")]
    try:
        settled(*consumers)
        consumers.append(member("consumer"))
        settled(*consumers)
        consumers.append(member("consumer"))
        settled(*consumers)
        consumers.pop().close()
        consumers.pop().close()
        settled(*consumers)
    finally:
        for consumer in consumers:
            consumer.close()


def test_confluent_transactions(cluster: ClusterThread) -> None:
    cluster.create_topic("t")
    producer = confluent_producer(cluster, **{"transactional.id": "tx"})
    producer.init_transactions(10)
    for committed in (True, False, True):
        producer.begin_transaction()
        confluent_send(producer, [b"a+" if committed else b"a-"], partition=0)
        if committed:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)
    # Another producer takes the transactional id over: the first is fenced.
    producer.begin_transaction()
    confluent_send(producer, [b"lost"], partition=0)
    second = confluent_producer(cluster, **{"transactional.id": "tx"})
    second.init_transactions(10)
    with pytest.raises(confluent_kafka.KafkaException, match=r"fenced|FENCED|epoch"):
        producer.commit_transaction(10)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        assert confluent_read(consumer, 2) == [b"a+", b"a+"]
        assert consumer.poll(0.3) is None
    finally:
        consumer.close()


def test_confluent_admin(cluster: ClusterThread) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    topic = NewTopic("made", 2, 3, config={"retention.bytes": "1000"})
    admin.create_topics([topic])["made"].result(10)
    assert cluster.partition_count("made") == 2
    admin.create_partitions([NewPartitions("made", 5)])["made"].result(10)
    assert cluster.partition_count("made") == 5
    resource = ConfigResource("topic", "made")
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["retention.bytes"].value == "1000"
    described = admin.describe_cluster().result(10)
    assert (described.cluster_id, len(described.nodes)) == (cluster.cluster_id, 3)
    assert "made" in admin.list_topics(timeout=60).topics
    admin.delete_topics(["made"])["made"].result(10)
    assert "made" not in cluster.topic_names()


# --- kafka-python ----------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_kafka_python_produces_and_consumes_in_a_group(cluster: ClusterThread) -> None:
    # Its import warns of importlib's past.
    import kafka

    cluster.create_topic("t", 3)
    servers = cluster.bootstrap_servers.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    for future in [producer.send("t", value) for value in VALUES]:
        future.get(timeout=30)
    producer.close()
    consumer = kafka.KafkaConsumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
    got: list[bytes] = []
    end = time.monotonic() + 30
    while len(got) < COUNT:
        assert time.monotonic() < end
        got += [record.value for records in consumer.poll(timeout_ms=1000).values() for record in records]
    consumer.close()
    assert sorted(got) == sorted(VALUES)


def test_one_group_of_several_clients(cluster: ClusterThread) -> None:
    """aiokafka's and confluent-kafka's members share a group, each partition owned once."""
    cluster.create_topic("t", 4)
    stop = threading.Event()
    owned: dict[str, list[int]] = {}

    def confluent_member() -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "g",
                "heartbeat.interval.ms": 100,
                "partition.assignment.strategy": "range",
            }
        )
        consumer.subscribe(["t"])
        while not stop.is_set():
            consumer.poll(0.02)
            owned["confluent"] = [partition.partition for partition in consumer.assignment()]
        consumer.close()

    async def aiokafka_member() -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            heartbeat_interval_ms=100,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        async with consumer, asyncio.timeout(30):
            while True:
                owned["aiokafka"] = [partition.partition for partition in consumer.assignment()]
                if all(owned.values()) and sorted(itertools.chain(*owned.values())) == [0, 1, 2, 3]:
                    return
                await asyncio.sleep(0.02)

    owned["confluent"] = []
    thread = threading.Thread(target=confluent_member)
    thread.start()
    try:
        asyncio.run(aiokafka_member())
        assert sorted(map(len, owned.values())) == [2, 2]
    finally:
        stop.set()
        thread.join(30)
