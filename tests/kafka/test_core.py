"""The same core tests on every release, on both event loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest

from aiokafka_lead import TimestampType, TopicPartition
from aiokafka_lead.errors import (
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

from .harness import KafkaCluster
from .support import (
    by_partition,
    confluent_read,
    in_thread,
    make_consumer,
    make_producer,
    on_asyncio,
    partitions_of,
    read,
    read_topic,
)

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

TopicName = Callable[[], str]


async def test_what_is_written_is_read_in_order(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name(), partitions=3)
    sent: dict[int, list[tuple[int, bytes, bytes]]] = {0: [], 1: [], 2: []}
    async with make_producer(any_kafka) as producer:
        deliveries = [
            await producer.send(topic, b"value %d" % i, key=b"key %d" % (i % 100), timestamp_ms=1_700_000_000_000 + i)
            for i in range(3000)
        ]
        for i, delivery in enumerate(deliveries):
            meta = await delivery
            assert meta.topic == topic
            assert meta.timestamp_ms == 1_700_000_000_000 + i
            sent[meta.partition].append((meta.offset, b"key %d" % (i % 100), b"value %d" % i))
    assert all(len(records) > 100 for records in sent.values()), "the keys spread over the partitions"
    for records in sent.values():
        assert [offset for offset, _, _ in records] == list(range(len(records)))

    received = by_partition(await read_topic(any_kafka, topic, 3, 3000))
    assert {p: [(r.offset, r.key, r.value) for r in records] for p, records in received.items()} == sent
    assert {r.timestamp_type for records in received.values() for r in records} == {TimestampType.CREATE_TIME}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_headers_nulls_and_empty_values_in_each_codec(
    any_kafka: KafkaCluster, topic_name: TopicName, codec: str
) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name())
    records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
        (b"key", b"value", [("trace", b"1"), ("trace", b"2"), ("", b""), ("nothing", None)]),
        (None, b"no key", []),
        (b"", b"", []),
        (b"tombstone", None, []),
        (None, None, [("only", "h\u00e4der".encode())]),
        (b"large", b"0123456789" * 10_000, []),
    ]
    async with make_producer(any_kafka, compression_type=codec, linger_ms=50) as producer:
        for key, value, headers in records:
            await producer.send(topic, value, key=key, headers=headers)
        await producer.flush()
    received = await read_topic(any_kafka, topic, 1, len(records))
    assert [(r.key, r.value, list(r.headers)) for r in received] == records


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_acks(any_kafka: KafkaCluster, topic_name: TopicName, acks: Literal[0, 1, "all"]) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name())
    async with make_producer(any_kafka, acks=acks) as producer:
        batch = await producer.send_many(topic, [b"%d" % i for i in range(500)])
        metas = await batch
    offsets = [meta.offset for meta in metas if not isinstance(meta, BaseException)]
    assert offsets == ([-1] * 500 if acks == 0 else list(range(500)))
    received = await read_topic(any_kafka, topic, 1, 500)
    assert [r.value for r in received] == [b"%d" % i for i in range(500)]


async def test_offsets_times_and_seeks(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name())
    tp = TopicPartition(topic, 0)
    async with make_producer(any_kafka) as producer:
        for i in range(10):
            await producer.send_and_wait(topic, b"%d" % i, timestamp_ms=1000 * i)
    async with make_consumer(any_kafka) as consumer:
        consumer.assign([tp])
        assert await consumer.beginning_offsets([tp]) == {tp: 0}
        assert await consumer.end_offsets([tp]) == {tp: 10}
        found = (await consumer.offsets_for_times({tp: 6500}))[tp]
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (7, 7000)
        assert (await consumer.offsets_for_times({tp: 9001}))[tp] is None
        consumer.seek(tp, 8)
        assert [r.offset for r in await read(consumer, 2)] == [8, 9]
        assert await consumer.position(tp) == 10
        await consumer.seek_to_beginning(tp)
        assert [r.offset for r in await read(consumer, 10)] == list(range(10))
        consumer.seek(tp, 10_000)
        assert (await read(consumer, 1))[0].offset == 0, "out of range: auto_offset_reset says where to go on"


async def test_log_append_time(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = await in_thread(any_kafka.create_topic, topic_name(), config=config)
    async with make_producer(any_kafka) as producer:
        meta = await producer.send_and_wait(topic, b"v", timestamp_ms=1)
    assert meta.timestamp_ms > 1_600_000_000_000
    [record] = await read_topic(any_kafka, topic, 1, 1)
    assert (record.timestamp_ms, record.timestamp_type) == (meta.timestamp_ms, TimestampType.LOG_APPEND_TIME)


async def test_records_and_columns_say_the_same(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name(), partitions=2)
    async with make_producer(any_kafka, compression_type="lz4") as producer:
        await (await producer.send_many(topic, [b"%d" % i for i in range(1000)], partition=1))
    async with make_consumer(any_kafka) as consumer:
        consumer.assign(partitions_of(topic, 2))
        one_by_one = []
        with anyio.fail_after(60):
            async for record in consumer:
                one_by_one.append((record.offset, record.value))
                if len(one_by_one) == 1000:
                    break
        await consumer.seek_to_beginning()
        columns: list[tuple[int, bytes | None]] = []
        with anyio.fail_after(60):
            async for batch in consumer.batches():
                columns += zip(batch.offsets, batch.values, strict=True)
                if len(columns) == 1000:
                    break
    assert columns == one_by_one == [(i, b"%d" % i) for i in range(1000)]


async def test_a_consumer_waits_for_what_comes_later(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name())
    received = []
    async with make_producer(any_kafka) as producer, make_consumer(any_kafka, auto_offset_reset="latest") as consumer:
        await producer.send_and_wait(topic, b"before")
        consumer.assign([TopicPartition(topic, 0)])
        assert await consumer.position(TopicPartition(topic, 0)) == 1
        for i in range(20):
            await producer.send_and_wait(topic, b"%d" % i)
            received += await read(consumer, 1)
    assert [r.value for r in received] == [b"%d" % i for i in range(20)]


async def test_a_follower_of_the_same_rack_is_read_from(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(kafka.create_topic, topic_name())
    leader = await in_thread(kafka.leader, topic)
    rack = f"rack-{leader % 3 + 1}"
    async with make_producer(kafka) as producer, make_consumer(kafka, client_rack=rack) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        for number in range(5):
            await (await producer.send_many(topic, [b"%d" % (number * 100 + i) for i in range(100)]))
            received = await read(consumer, 100)
            assert [r.value for r in received] == [b"%d" % (number * 100 + i) for i in range(100)]
        assert consumer.metrics().follower_redirects >= 1


@on_asyncio
async def test_kip_1123_records_without_a_key_stay_in_the_rack(kafka: KafkaCluster, topic_name: TopicName) -> None:
    away: dict[bool, float] = {}
    for aware in (False, True):
        topic = await in_thread(kafka.create_topic, topic_name(), partitions=9)
        options: dict[str, Any] = {"client_rack": "rack-2", "batch_size": 4_000, "linger_ms": 1}
        async with make_producer(kafka, partitioner_rack_aware=aware, **options) as producer:
            for _ in range(30):
                await (await producer.send_many(topic, [b"x" * 1000] * 10))
        leaders = [await in_thread(kafka.leader, topic, partition) for partition in range(9)]
        stored = [message.partition() or 0 for message in await in_thread(confluent_read, kafka, topic, 9)]
        away[aware] = sum(leaders[partition] != 2 for partition in stored) / len(stored)
    assert away[True] == 0.0
    assert 0.4 < away[False] < 0.9


@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})], ids=["uvloop"])
async def test_uvloop(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=3)
    async with make_producer(kafka, compression_type="zstd") as producer:
        await (await producer.send_many(topic, [b"%d" % i * 100 for i in range(10_000)]))
    received = await read_topic(kafka, topic, 3, 10_000)
    assert sorted(r.value for r in received) == sorted(b"%d" % i * 100 for i in range(10_000))


async def test_unknown_topic_and_too_large_a_record_are_clear_errors(
    any_kafka: KafkaCluster, topic_name: TopicName
) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name(), config={"max.message.bytes": "1000"})
    async with make_producer(any_kafka, allow_auto_create_topics=False, max_block_ms=4000) as producer:
        with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
            await producer.send("no-such-topic", b"v")
        with pytest.raises(MessageTooLargeError):
            await producer.send_and_wait(topic, b"x" * 2000)
        await producer.send_and_wait(topic, b"the producer is still of use")


@pytest.mark.parametrize("any_kafka", ["kafka_oldest"], indirect=True)
async def test_a_release_without_producer_ids_says_so(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name())
    with anyio.fail_after(60):
        with pytest.raises(UnsupportedVersionError, match="InitProducerId"):
            async with make_producer(any_kafka, enable_idempotence=True) as producer:
                await producer.send_and_wait(topic, b"v")
