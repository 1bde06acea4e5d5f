"""Committed offsets, and the end of read_committed, beside other clients."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import confluent_kafka
import pytest

from aiokafka_lead import OffsetAndMetadata, TopicPartition
from aiokafka_lead.errors import NoOffsetForPartitionError

from .harness import KafkaCluster
from .support import in_thread, make_consumer, make_producer, partitions_of, read

pytestmark = pytest.mark.anyio

TopicName = Callable[[], str]


def _judge(kafka: KafkaCluster, group_id: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap(), "group.id": group_id, "enable.auto.commit": False, "log_level": 0}
    )


def _commit_elsewhere(kafka: KafkaCluster, group_id: str, tp: TopicPartition, offset: int) -> None:
    consumer = _judge(kafka, group_id)
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition(*tp, offset)], asynchronous=False)
    finally:
        consumer.close()


def _committed_elsewhere(kafka: KafkaCluster, group_id: str, tp: TopicPartition) -> int:
    consumer = _judge(kafka, group_id)
    try:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(*tp)], timeout=30)
        offset: int = found.offset  # without its metadata, which confluent-kafka reads beyond its end
        return offset
    finally:
        consumer.close()


async def test_commits_are_those_of_other_clients(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(any_kafka.create_topic, topic_name())
    (tp,) = partitions_of(topic, 1)
    async with make_producer(any_kafka) as producer:
        await (await producer.send_many(topic, [b"%d" % i for i in range(20)], partition=0))
    async with make_consumer(any_kafka, group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        assert await consumer.committed(tp) is None
        assert len((await consumer.getmany(timeout_ms=20_000, max_records=7))[tp]) == 7
        await consumer.commit()
        found = await consumer.committed(tp)
        assert found is not None
        assert (found.offset, found.metadata) == (7, "")
        await consumer.commit({tp: OffsetAndMetadata(8, "ours")})
        assert await consumer.committed(tp) == OffsetAndMetadata(8, "ours")
        assert await in_thread(_committed_elsewhere, any_kafka, topic, tp) == 8
        await in_thread(_commit_elsewhere, any_kafka, topic, tp, 11)
        found = await consumer.committed(tp)
        assert found is not None
        assert found.offset == 11
    async with make_consumer(any_kafka, group_id=topic, auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        assert (await read(consumer, 9))[0].value == b"11"
    async with make_consumer(any_kafka, group_id=f"{topic}-other", auto_offset_reset="none") as consumer:
        consumer.assign([tp])
        with pytest.raises(NoOffsetForPartitionError):
            await consumer.position(tp)


async def test_an_open_transaction_holds_back_what_is_behind_it(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(kafka.create_topic, topic_name())
    (tp,) = partitions_of(topic, 1)
    writer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap(), "transactional.id": topic, "log_level": 0}
    )
    await in_thread(writer.init_transactions, 30)
    async with (
        make_producer(kafka) as producer,
        make_consumer(kafka, isolation_level="read_committed") as careful,
        make_consumer(kafka) as hasty,
    ):
        for consumer in (careful, hasty):
            consumer.assign([tp])
        await producer.send_and_wait(topic, b"before", partition=0)
        writer.begin_transaction()
        writer.produce(topic, b"open", partition=0)
        await in_thread(writer.flush, 30)
        await producer.send_and_wait(topic, b"behind", partition=0)
        assert [r.value for r in await read(hasty, 3)] == [b"before", b"open", b"behind"]
        assert [r.value for r in await read(careful, 1)] == [b"before"]
        assert await careful.getmany(timeout_ms=700) == {}
        row = careful.metrics().partitions[tp]
        assert (row.last_stable_offset, row.high_watermark, row.lag) == (1, 3, 0)
        assert (await careful.end_offsets([tp]), await hasty.end_offsets([tp])) == ({tp: 1}, {tp: 3})
        await in_thread(writer.commit_transaction, 30)
        with anyio.fail_after(30):
            assert [r.value for r in await read(careful, 2)] == [b"open", b"behind"]
            # The position passes the marker once a record follows it.
            await producer.send_and_wait(topic, b"last", partition=0)
            assert (await careful.getone()).offset == 4
