"""Records as the application passes them, and as they are in the log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from aiokafka_lead._records import murmur2
from aiokafka_lead.config import Serializer
from aiokafka_lead.errors import KafkaError, MessageTooLargeError, UnknownTopicOrPartitionError
from aiokafka_lead.producer import Producer
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.types import RecordMetadata

from ..patience import again_if_late

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


async def test_record_is_written_with_all_that_it_has(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        delivery = await producer.send(
            "events", b"v", key=b"k", partition=1, timestamp_ms=12345, headers=[("h", b"1"), ("n", None)]
        )
        metadata = await delivery
    assert metadata == RecordMetadata("events", 1, 0, 12345)
    (record,) = cluster.records("events", 1)
    assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 12345)
    assert record.headers == (("h", b"1"), ("n", None))


async def test_record_may_be_empty(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", partition=0)
        await producer.send_and_wait("events", b"", b"", partition=0)
    assert [(record.key, record.value) for record in cluster.records("events", 0)] == [(None, None), (b"", b"")]


async def test_timestamp_is_now_by_default(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        before = int(time.time() * 1000)
        metadata = await producer.send_and_wait("events", b"v")
        assert before <= metadata.timestamp_ms <= int(time.time() * 1000)


async def test_broker_time_is_told_on_a_topic_with_log_append_time(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("appended", configs={"message.timestamp.type": "LogAppendTime"})
    async with Producer(cluster.bootstrap_servers) as producer:
        metadata = await producer.send_and_wait("appended", b"v", timestamp_ms=1000)
    assert metadata.timestamp_ms > 1_000_000_000_000


async def test_bytes_like_arguments_are_taken(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", bytearray(b"v"), memoryview(b"k"), partition=0)  # type: ignore[arg-type]
        batch = await producer.send_many("events", [bytearray(b"w"), b"x"], partition=0)  # type: ignore[list-item]
        await batch
    assert [record.value for record in cluster.records("events", 0)] == [b"v", b"w", b"x"]


async def test_serializers_see_everything_but_none(cluster: EmbeddedCluster) -> None:
    producer = Producer[str, int](
        cluster.bootstrap_servers,
        key_serializer=lambda key: key.encode(),
        value_serializer=lambda value: b"%d" % value,
    )
    async with producer:
        await producer.send_and_wait("events", 7, "seven", partition=0)
        await producer.send_and_wait("events", None, None, partition=0)
        await (await producer.send_many("events", [1, None], keys=["a", None], partition=0))
        await producer.send_nowait("events", 8, partition=0)
    assert [(record.key, record.value) for record in cluster.records("events", 0)] == [
        (b"seven", b"7"),
        (None, None),
        (b"a", b"1"),
        (None, None),
        (None, b"8"),
    ]


async def test_records_of_one_key_go_where_java_puts_them(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(30):
            key = b"key-%d" % number
            metadata = await (await producer.send("events", b"v", key))
            assert metadata.partition == (murmur2(key) & 0x7FFFFFFF) % 3


async def test_own_partitioner_chooses(cluster: EmbeddedCluster) -> None:
    asked: list[tuple[bytes | None, list[int], list[int]]] = []

    def partitioner(key: bytes | None, everything: Sequence[int], available: Sequence[int]) -> int:
        asked.append((key, list(everything), list(available)))
        return 2

    async with Producer(cluster.bootstrap_servers, partitioner=partitioner) as producer:
        assert (await producer.send_and_wait("events", b"v", b"k")).partition == 2
        assert (await producer.send_and_wait("events", b"v", partition=1)).partition == 1
        batch = await producer.send_many("events", [b"a", b"b"])
        assert [outcome.partition for outcome in await batch if isinstance(outcome, RecordMetadata)] == [2, 2]
    assert (b"k", [0, 1, 2], [0, 1, 2]) in asked
    assert all(key in (b"k", None) for key, _, _ in asked)


async def test_order_within_a_partition_is_the_order_of_the_calls(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, batch_size=500, linger_ms=1) as producer:
        deliveries = [await producer.send("events", b"%d" % number, partition=0) for number in range(2000)]
        offsets = [(await delivery).offset for delivery in deliveries]
    assert offsets == list(range(2000))
    assert [record.value for record in cluster.records("events", 0)] == [b"%d" % number for number in range(2000)]


@pytest.mark.parametrize("serializer", [None, bytes])
async def test_without_linger_the_first_record_goes_out_in_the_same_turn_of_the_event_loop(
    cluster: EmbeddedCluster, serializer: Serializer[Any] | None
) -> None:
    async with Producer(cluster.bootstrap_servers, linger_ms=0, value_serializer=serializer) as producer:
        await producer.send_and_wait("events", b"0", partition=1)
        before = producer.metrics()
        deliveries = [producer.send_nowait("events", b"%d" % number, partition=1) for number in range(1, 4)]
        at_once = producer.metrics()
        for delivery in deliveries:
            await delivery
        after = producer.metrics()
    assert (at_once.requests - before.requests, at_once.records_sent - before.records_sent) == (1, 1)
    assert (after.requests - before.requests, after.records_sent - before.records_sent) == (2, 3)
    assert [record.value for record in cluster.records("events", 1)] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    "options", [{}, {"keys": [b"a", b"b", b"c"]}, {"headers": [("h", b"1")]}, {"timestamps_ms": [7, 8, 9]}]
)
async def test_without_linger_records_of_one_call_go_together(
    cluster: EmbeddedCluster, options: dict[str, Any]
) -> None:
    async with Producer(cluster.bootstrap_servers, linger_ms=0) as producer:
        await producer.send_and_wait("events", b"0", partition=1)
        before = producer.metrics().requests
        await (await producer.send_many("events", [b"1", b"2", b"3"], partition=1, **options))
        assert producer.metrics().requests == before + 1
    assert [record.value for record in cluster.records("events", 1)] == [b"0", b"1", b"2", b"3"]


async def test_with_linger_no_record_goes_out_in_the_same_turn(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"0", partition=1)
        before = producer.metrics().requests
        producer.send_nowait("events", b"1", partition=1)
        assert producer.metrics().requests == before


async def test_full_batches_grow_while_the_broker_is_busy(cluster: EmbeddedCluster) -> None:
    busy = cluster.faults.add("Produce", hold=True, count=1)
    async with Producer(cluster.bootstrap_servers, linger_ms=10_000) as producer:
        first = [await producer.send("events", b"x" * 10_000, partition=1) for _ in range(2)]
        await cluster.wait_for_requests("Produce")
        for number in range(60):
            await producer.send("events", b"%02d" % number + b"y" * 1000, partition=1)
        busy.release()
        for delivery in first:
            await delivery
        await producer.flush()
        assert producer.metrics().batches_sent == 2
    values = [record.value or b"" for record in cluster.records("events", 1)]
    assert [value[:2] for value in values] == [b"xx", b"xx", *(b"%02d" % number for number in range(60))]


async def test_delivery_may_be_awaited_many_times(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        delivery = await producer.send("events", b"v", partition=0)
        assert await delivery == await delivery
        assert delivery.done()
        assert delivery.result() == await delivery
        assert (delivery.topic, delivery.partition) == ("events", 0)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec(cluster: EmbeddedCluster, compression: str) -> None:
    async with Producer(cluster.bootstrap_servers, compression_type=compression) as producer:  # type: ignore[arg-type]
        batch = await producer.send_many("events", [b"x" * 100] * 500, partition=0)
        assert [outcome.offset for outcome in await batch if isinstance(outcome, RecordMetadata)] == list(range(500))
        sent = producer.metrics().bytes_sent
    assert [record.value for record in cluster.records("events", 0)] == [b"x" * 100] * 500
    assert (sent > 50_000) == (compression == "none")


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_acks(cluster: EmbeddedCluster, acks: int) -> None:
    async with Producer(cluster.bootstrap_servers, acks=acks) as producer:  # type: ignore[arg-type]
        offsets = [(await producer.send_and_wait("events", b"%d" % n, partition=0)).offset for n in range(5)]
        assert offsets == ([-1] * 5 if acks == 0 else list(range(5)))
        await cluster.wait_for_requests("Produce", count=5)
    assert [record.value for record in cluster.records("events", 0)] == [b"%d" % n for n in range(5)]


async def test_many_records_with_an_outcome_each(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, max_request_size=2000) as producer:
        values = [b"small", b"x" * 5000, b"last"]
        batch = await producer.send_many(
            "events",
            values,
            keys=[b"a", None, b"c"],
            partition=0,
            headers=[[("h", b"1")], None, None],
            timestamps_ms=[1, 2, 3],
        )
        assert len(batch) == 3
        first, second, third = await batch
        assert batch.done()
    assert first == RecordMetadata("events", 0, 0, 1)
    assert isinstance(second, MessageTooLargeError)
    assert third == RecordMetadata("events", 0, 1, 3)
    assert [(r.key, r.value, r.headers) for r in cluster.records("events", 0)] == [
        (b"a", b"small", (("h", b"1"),)),
        (b"c", b"last", ()),
    ]


async def test_many_records_with_keys(cluster: EmbeddedCluster) -> None:
    """More than fit in memory at a time; one is too large, which does not affect the rest."""
    keys = [b"%d" % (n % 50) if n % 7 else None for n in range(4000)]
    values: list[bytes | None] = [b"%04d" % n for n in range(4000)]
    values[1000] = b"x" * 5000
    async with Producer(
        cluster.bootstrap_servers, max_request_size=2000, batch_size=1000, buffer_memory=20_000
    ) as producer:
        with pytest.raises(TypeError, match="key must be bytes"):
            await producer.send_many("events", [b"a", b"b"], keys=[b"k", "k"])  # type: ignore[list-item]
        outcomes = await (await producer.send_many("events", values, keys=keys))
    assert isinstance(outcomes.pop(1000), MessageTooLargeError)
    assert not any(isinstance(outcome, KafkaError) for outcome in outcomes)
    logs = [cluster.records("events", partition) for partition in range(3)]
    assert sum(map(len, logs)) == 3999
    of_key = {key: [r.value for log in logs for r in log if r.key == key] for key in set(keys) - {None}}
    for key, found in of_key.items():
        assert found == [value for n, value in enumerate(values) if keys[n] == key and n != 1000]
        assert sum(any(r.key == key for r in log) for log in logs) == 1, "a key is in one partition"


async def test_many_records_may_share_headers(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await (await producer.send_many("events", [b"a", b"b"], partition=0, headers=[("h", b"1"), ("i", b"2")]))
        await (await producer.send_many("events", [], partition=0))
    assert [record.headers for record in cluster.records("events", 0)] == [(("h", b"1"), ("i", b"2"))] * 2


async def test_bulk_spreads_over_batches_and_partitions(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, batch_size=1000) as producer:
        outcomes = await (await producer.send_many("events", [b"%d" % n for n in range(3000)]))
    assert len(outcomes) == 3000
    logs = {partition: [r.value for r in cluster.records("events", partition)] for partition in range(3)}
    assert sum(len(log) for log in logs.values()) == 3000
    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, RecordMetadata)
        assert logs[outcome.partition][outcome.offset] == b"%d" % number
    assert all(log for log in logs.values())


async def test_send_nowait_before_anything_is_known_of_the_topic(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        deliveries = [producer.send_nowait("events", b"%d" % n, partition=n % 3) for n in range(9)]
        later = await producer.send("events", b"later", partition=0)
        await producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        assert [delivery.result().offset for delivery in deliveries] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert later.result().offset == 3
        assert (await producer.send_nowait("events", b"now", partition=0)).offset == 4


@again_if_late(800, 5000)
async def test_send_nowait_to_a_topic_that_does_not_exist(max_block_ms: int, cluster: EmbeddedCluster) -> None:
    async with Producer(
        cluster.bootstrap_servers, max_block_ms=max_block_ms, allow_auto_create_topics=False
    ) as producer:
        delivery = producer.send_nowait("nowhere", b"v")
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await delivery
        wrong = producer.send_nowait("events", b"v", partition=9)
        with pytest.raises(ValueError, match="partition must be from 0 to 2"):
            await wrong
        assert producer.metrics().buffer_used_bytes == 0


async def test_topics_are_created_where_the_brokers_do_so(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        assert (await producer.send_and_wait("fresh", b"v")).offset == 0


@again_if_late(800, 5000)
async def test_unknown_topic_is_an_error_within_max_block_ms(max_block_ms: int, cluster: EmbeddedCluster) -> None:
    async with Producer(
        cluster.bootstrap_servers, max_block_ms=max_block_ms, allow_auto_create_topics=False
    ) as producer:
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await producer.send("nowhere", b"v")
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await producer.partitions_for("nowhere")
        with pytest.raises(KafkaError, match="nowhere"):
            await producer.send_many("nowhere", [b"v"])
        assert await producer.partitions_for("events") == {0, 1, 2}


async def test_partitions_that_were_added_are_found(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"v")
        cluster.add_partitions("events", 5)
        assert (await producer.send_and_wait("events", b"v", partition=4)).partition == 4
