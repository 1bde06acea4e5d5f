"""An embedded broker's handling of records: validation, idempotence, answers."""

from __future__ import annotations

import struct
import time

import pytest
from crc32c import crc32c

from aiokafka_lead import errors
from aiokafka_lead._records import compress
from aiokafka_lead._wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from aiokafka_lead.testing import EmbeddedCluster

from .raw import RawClient, batch, connected

pytestmark = pytest.mark.anyio


async def produce(
    client: RawClient, records: bytes, *, topic: str = "t", partition: int = 0, acks: int = -1, version: int = 12
) -> PartitionProduceResponse:
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    response = await client.call(request, version)
    return response.responses[0].partition_responses[0]


def with_crc(records: bytearray) -> bytes:
    struct.pack_into(">I", records, 17, crc32c(bytes(records[21:])))
    return bytes(records)


def bomb() -> bytes:
    """Return a batch of 300 MB when decompressed."""
    records = bytearray(batch(b"a", compression="zstd")[:61] + compress("zstd", bytes(300_000_000)))
    struct.pack_into(">i", records, 8, len(records) - 12)
    return with_crc(records)


async def test_records_get_offsets_and_the_leader_epoch() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        assert (await produce(client, batch(b"a", b"b"))).base_offset == 0
        cluster.move_leader("t", 0)
        assert (await produce(client, batch(b"c"))).base_offset == 2
        stored = cluster.records("t")
        assert [(r.offset, r.value, r.leader_epoch) for r in stored] == [(0, b"a", 0), (1, b"b", 0), (2, b"c", 1)]
        assert stored[0].timestamp_ms == 1_700_000_000_000
        assert cluster.end_offset("t") == 3


async def test_records_are_those_of_all_partitions_unless_one_is_named() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t", partitions=3)
        assert cluster.records("t") == []
        await produce(client, batch(b"a"), partition=2)
        await produce(client, batch(b"b"), partition=1)
        assert [(record.partition, record.value) for record in cluster.records("t")] == [(1, b"b"), (2, b"a")]
        assert [record.value for record in cluster.records("t", 2)] == [b"a"]
        assert cluster.records("t", 0) == []


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_batches_are_stored_as_they_came(compression: str) -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        values = [b"x" * 100] * 10
        assert (await produce(client, batch(*values, compression=compression))).error_code == 0
        assert [record.value for record in cluster.records("t")] == values


async def test_zstd_needs_version_7() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        result = await produce(client, batch(b"a", compression="zstd"), version=6)
        assert result.error_code == errors.UnsupportedCompressionTypeError.code


async def test_log_append_time() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
        result = await produce(client, batch(b"a", b"b"))
        stored = cluster.records("t")
        assert result.log_append_time_ms > 1_700_000_000_000
        assert {record.timestamp_ms for record in stored} == {result.log_append_time_ms}
        assert stored[0].timestamp_type == 1


async def test_times_that_are_too_far_away() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t", configs={"message.timestamp.before.max.ms": "60000"})
        early = await produce(client, batch(b"a", b"b"))
        assert early.error_code == errors.InvalidTimestampError.code
        assert [error.batch_index for error in early.record_errors] == [0, 1]
        assert (await produce(client, batch(b"a", timestamp_ms=int(time.time() * 1000)))).error_code == 0
        cluster.create_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
        assert (await produce(client, batch(b"a", timestamp_ms=9_000_000_000_000), topic="stamped")).error_code == 0


async def test_what_is_refused() -> None:
    def corrupt() -> bytes:
        records = bytearray(batch(b"value"))
        records[-1] ^= 1
        return bytes(records)

    def changed(at: int, layout: str, value: int) -> bytes:
        records = bytearray(batch(b"a", b"b"))
        struct.pack_into(layout, records, at, value)
        return with_crc(records)

    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        cluster.create_topic("small", configs={"max.message.bytes": "100"})
        cluster.create_topic("compacted", configs={"cleanup.policy": "compact"})
        for records, expected in [
            (corrupt(), errors.CorruptRecordError),
            (batch(b"a")[:-1], errors.InvalidRecordError),
            (b"", errors.InvalidRecordError),
            (changed(16, ">b", 3), errors.CorruptRecordError),
            (batch(b"a") + batch(b"b"), errors.InvalidRecordError),
            (changed(0, ">q", 7), errors.InvalidRecordError),
            (changed(16, ">b", 1), errors.InvalidRecordError),
            (changed(57, ">i", 3), errors.InvalidRecordError),
            (changed(21, ">h", 0x20), errors.InvalidRecordError),
            (changed(21, ">h", 7), errors.UnknownServerError),
            (batch(b"a", timestamp_ms=9_000_000_000_000), errors.InvalidTimestampError),
            (batch(b"a", producer_id=5, epoch=0, sequence=-1), errors.InvalidRecordError),
        ]:
            result = await produce(client, records)
            assert result.error_code == expected.code, (result, expected)
            assert result.base_offset == -1
        assert (await produce(client, batch(b"x" * 200), topic="small")).error_code == errors.MessageTooLargeError.code
        assert (await produce(client, batch(b"a"), topic="no")).error_code == errors.UnknownTopicOrPartitionError.code
        assert (await produce(client, batch(b"a"), partition=1)).error_code == errors.UnknownTopicOrPartitionError.code
        assert (await produce(client, batch(b"a"), acks=2)).error_code == errors.InvalidRequiredAcksError.code
        unkeyed = await produce(client, batch(b"a", b"b", key=None), topic="compacted")
        assert unkeyed.error_code == errors.InvalidRecordError.code
        assert [error.batch_index for error in unkeyed.record_errors] == [0, 1]
        assert (await produce(client, bomb(), topic="compacted")).error_code == errors.MessageTooLargeError.code
        assert (await produce(client, batch(b"a"), topic="compacted")).error_code == 0
        assert cluster.end_offset("t") == 0


async def test_too_few_replicas_in_sync() -> None:
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t", configs={"min.insync.replicas": "2"})
        cluster.set_isr("t", 0, [1])
        async with connected(cluster.address(1)) as client:
            assert (await produce(client, batch(b"a"))).error_code == errors.NotEnoughReplicasError.code
            assert (await produce(client, batch(b"a"), acks=1)).error_code == 0
            cluster.set_isr("t", 0, [1, 3])
            assert (await produce(client, batch(b"a"))).error_code == 0


async def test_acks_0_has_no_answer_and_ends_the_connection_on_an_error() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")

        def request(topic: str) -> ProduceRequest:
            data = PartitionProduceData(index=0, records=batch(b"a"))
            return ProduceRequest(acks=0, topic_data=[TopicProduceData(name=topic, partition_data=[data])])

        await client.send(request("t"), 12)
        # The next answer on the connection belongs to the next request.
        assert (await produce(client, batch(b"b"))).base_offset == 1
        await client.send(request("unknown"), 12)
        assert await client.is_closed()


async def test_an_idempotent_producer_is_watched() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")

        async def send(sequence: int, *values: bytes, epoch: int = 0, producer_id: int = 7) -> tuple[int, int]:
            records = batch(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)
            result = await produce(client, records)
            return result.error_code, result.base_offset

        out_of_order = errors.OutOfOrderSequenceNumberError.code
        assert await send(0, b"a", b"b") == (0, 0)
        assert await send(2, b"c") == (0, 2)
        # The same again: the answer has the first offset, and the log is unchanged.
        assert await send(0, b"a", b"b") == (0, 0)
        assert await send(2, b"c") == (0, 2)
        # A gap, and a batch that overlaps stored ones.
        assert (await send(4, b"e"))[0] == out_of_order
        assert (await send(2, b"c", b"d"))[0] == out_of_order
        # Five batches are remembered, the sixth last is not.
        for sequence in range(3, 7):
            assert await send(sequence, b"x") == (0, sequence)
        assert await send(2, b"c") == (0, 2)
        assert (await send(0, b"a", b"b"))[0] == out_of_order
        # A new epoch starts at 0, an old one is fenced.
        assert (await send(7, b"y", epoch=1))[0] == out_of_order
        assert await send(0, b"y", epoch=1) == (0, 7)
        assert (await send(1, b"z", epoch=0))[0] == errors.InvalidProducerEpochError.code
        # An unknown producer may start at any sequence.
        assert await send(50, b"n", producer_id=8) == (0, 8)
        cluster.forget_producers("t")
        assert await send(90, b"n", epoch=1) == (0, 9)


async def test_sequence_numbers_wrap() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        last = 2**31 - 1
        first = batch(b"a", b"b", b"c", producer_id=1, epoch=0, sequence=last - 1)
        assert (await produce(client, first)).error_code == 0
        following = batch(b"d", producer_id=1, epoch=0, sequence=1)
        assert (await produce(client, following)).base_offset == 3
        assert (await produce(client, first)).base_offset == 0


async def test_topic_ids_from_version_13() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")

        async def send() -> PartitionProduceResponse:
            data = PartitionProduceData(index=0, records=batch(b"a"))
            request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])])
            response = await client.call(request, 13)
            assert response.responses[0].topic_id == topic_id
            return response.responses[0].partition_responses[0]

        topic_id = cluster.topic_id("t")
        assert (await send()).base_offset == 0
        cluster.delete_topic("t")
        cluster.create_topic("t")
        assert (await send()).error_code == errors.UnknownTopicIdError.code


async def test_retention_by_size() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t", configs={"retention.bytes": "5000", "segment.bytes": "1000"})
        for _ in range(50):
            assert (await produce(client, batch(b"x" * 500))).error_code == 0
        assert cluster.end_offset("t") == 50
        assert cluster.start_offset("t") > 35
        assert len(cluster.records("t")) < 15
