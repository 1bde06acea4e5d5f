"""Offsets in transactions name topics by ids (KIP-1319): a recreated topic does not get the old topic's offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, ConsumerGroupMetadata, Producer, TopicPartition
from aiokafka_lead.errors import CommitFailedError, GroupIdNotFoundError, KafkaError, StaleMemberEpochError
from aiokafka_lead.testing import EmbeddedCluster

from .support import transactional

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("transaction_version", [2])]

GROUP = "copiers"
TP = TopicPartition("events", 0)


def member(cluster: EmbeddedCluster, **options: Any) -> Consumer:
    options = {"group_id": GROUP, "auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options)


async def fill(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(3):
            await producer.send("events", b"%d" % number, partition=0)


async def by_consumer(consumer: Consumer, producer: Producer) -> None:
    await consumer.getmany(timeout_ms=20_000)
    async with producer.transaction() as txn:
        await txn.send_offsets(consumer)


async def by_batch(consumer: Consumer, producer: Producer) -> None:
    async for batch in consumer.batches():
        async with producer.transaction() as txn:
            await txn.commit_batch(batch)
        return


async def by_hand(consumer: Consumer, producer: Producer) -> None:
    await consumer.getmany(timeout_ms=20_000)
    async with producer.transaction() as txn:
        await txn.send_offsets({TP: 3}, consumer.group_metadata())


async def by_run(consumer: Consumer, producer: Producer) -> None:
    async def handler(record: Any, txn: Any) -> None:
        if record.offset == 2:
            consumer.unsubscribe()

    await consumer.run(handler, exactly_once=producer)


Way = Callable[[Consumer, Producer], Awaitable[None]]
WAYS = pytest.mark.parametrize("way", [by_consumer, by_batch, by_hand])


@WAYS
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_the_consumer_hands_on_by_which_ids_it_read(cluster: EmbeddedCluster, way: Way, protocol: str) -> None:
    await fill(cluster)
    async with member(cluster, group_protocol=protocol) as consumer, transactional(cluster) as producer:
        await way(consumer, producer)
        found = await consumer.committed(TP)
        assert found is not None
        assert found.offset == 3
    (record,) = cluster.requests.select("TxnOffsetCommit")
    assert record.version == 6
    assert [topic.topic_id for topic in record.request.topics] == [cluster.topic_id("events")]


@WAYS
async def test_a_topic_made_again_gets_no_offset_of_the_old_one(cluster: EmbeddedCluster, way: Way) -> None:
    await fill(cluster)
    async with member(cluster) as consumer, transactional(cluster) as producer:
        held = cluster.faults.add("TxnOffsetCommit", hold=True, count=1)
        failure: list[KafkaError] = []

        async def work() -> None:
            try:
                await way(consumer, producer)
            except KafkaError as error:
                failure.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await cluster.requests.wait_for("TxnOffsetCommit")
            await cluster.delete_topic("events")
            cluster.create_topic("events", partitions=3)
            held.release()
        assert "no longer has it" in str(failure[0])
    async with member(cluster) as later:
        assert await later.committed(TP) is None


async def test_names_alone_are_sent_where_ids_are_not_known(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer, producer.transaction() as txn:
        await txn.send_offsets({TP: 3}, "others")
    assert [record.version for record in cluster.requests.select("TxnOffsetCommit")] == [5]


async def test_names_alone_are_sent_to_brokers_before_4_4(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"TxnOffsetCommit": 5}
    await fill(cluster)
    async with member(cluster) as consumer, transactional(cluster) as producer:
        await by_consumer(consumer, producer)
    assert [record.version for record in cluster.requests.select("TxnOffsetCommit")] == [5]


@pytest.mark.parametrize("error", [GroupIdNotFoundError, StaleMemberEpochError])
async def test_a_membership_that_is_over_cannot_commit(cluster: EmbeddedCluster, error: type[KafkaError]) -> None:
    ids = {"events": cluster.topic_id("events")}
    stale = error is StaleMemberEpochError
    async with member(cluster, group_protocol="consumer") as consumer, transactional(cluster) as producer:
        await consumer.getmany(timeout_ms=100)
        mine = consumer.group_metadata()
        name = GROUP if stale else "nobody"
        group = ConsumerGroupMetadata(name, mine.generation_id + stale, mine.member_id, None, ids)
        async with producer.transaction() as txn:
            with pytest.raises(CommitFailedError) as caught:
                await txn.send_offsets({TP: 3}, group)
            assert isinstance(caught.value.__cause__, error)
            await producer.abort_transaction()
