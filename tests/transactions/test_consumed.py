"""Consumed offsets in a transaction: the reads and the resulting records are committed together, or neither."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead._core.consumer.consumed import TransactionPart
from aiokafka_lead.errors import (
    CommitFailedError,
    ConfigTypeError,
    IllegalStateError,
    TransactionAbortedError,
    TransactionTimedOutError,
)
from aiokafka_lead.testing import EmbeddedCluster

from .support import committed, transactional

pytestmark = pytest.mark.anyio


def member(cluster: EmbeddedCluster, *, enable_auto_commit: bool = False) -> Consumer:
    options: dict[str, Any] = {"group_id": "copiers", "auto_offset_reset": "earliest"}
    return Consumer(
        "events", bootstrap_servers=cluster.bootstrap_servers, enable_auto_commit=enable_auto_commit, **options
    )


async def fill(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(30):
            await producer.send("events", b"%d" % number, partition=number % 3)


async def copy(consumer: Consumer, producer: Producer, *, fail: bool = False) -> int:
    """Copy the records of one read in a transaction; return their number."""
    async with producer.transaction() as txn:
        count = 0
        for tp, records in (await consumer.getmany(timeout_ms=1000, max_records=7)).items():
            for record in records:
                await txn.send("copies", record.value, partition=tp.partition)
                count += 1
        await txn.send_offsets(consumer)
        if fail:
            raise ZeroDivisionError
    return count


async def test_a_consumers_offsets_are_sent_within_the_time_of_the_call(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    async with member(cluster) as consumer, transactional(cluster) as producer:
        await consumer.getone()
        held = cluster.faults.add("TxnOffsetCommit", hold=True, count=1)
        txn = await producer.transaction().__aenter__()
        with pytest.raises(TransactionTimedOutError, match="in 100 ms"):
            await txn.send_offsets(consumer, timeout_ms=100)
        held.remove()
        with pytest.raises(TransactionAbortedError):
            await producer.commit_transaction()


async def test_a_consumer_with_auto_commit_is_refused(cluster: EmbeddedCluster) -> None:
    """Auto-commit would pass the records of an aborted transaction."""
    await fill(cluster)
    cluster.create_topic("copies", partitions=3)
    async with member(cluster, enable_auto_commit=True) as consumer, transactional(cluster) as producer:
        with pytest.raises(IllegalStateError, match="set enable_auto_commit=False"):
            await copy(consumer, producer)
        batch = await anext(consumer.batches())
        with pytest.raises(IllegalStateError, match="set enable_auto_commit=False"):
            async with producer.transaction() as txn:
                await txn.commit_batch(batch)
    assert not any((await committed(cluster, "copies")).values())


async def test_records_are_copied_once_though_every_other_transaction_is_aborted(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    cluster.create_topic("copies", partitions=3)
    async with member(cluster) as consumer, transactional(cluster) as producer:
        copied = 0
        while copied < 30:
            with pytest.raises(ZeroDivisionError):
                await copy(consumer, producer, fail=True)
            copied += await copy(consumer, producer)
        for partition in range(3):
            found = await consumer.committed(TopicPartition("events", partition))
            assert found is not None
            assert found.offset == 10
    copies = await committed(cluster, "copies")
    assert copies == {p: [b"%d" % number for number in range(p, 30, 3)] for p in range(3)}


async def test_who_takes_over_begins_behind_the_last_commit(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    cluster.create_topic("copies", partitions=3)
    async with transactional(cluster) as producer:
        copied = 0
        while copied < 30:
            async with member(cluster) as consumer:
                copied += await copy(consumer, producer)
                with pytest.raises(ZeroDivisionError):
                    await copy(consumer, producer, fail=True)
    copies = await committed(cluster, "copies")
    assert copies == {p: [b"%d" % number for number in range(p, 30, 3)] for p in range(3)}


class Lost:
    """A consumer that has lost the records it handed out."""

    def _transaction_part(self) -> TransactionPart:
        raise CommitFailedError("events-0 was taken away")


async def test_offsets_that_are_lost_forbid_the_commit_though_the_block_goes_on(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        txn = producer.transaction()
        await txn.__aenter__()
        await txn.send("events", b"never", partition=0)
        with pytest.raises(CommitFailedError):
            await txn.send_offsets(Lost())
        with pytest.raises(TransactionAbortedError):
            await txn.__aexit__(None, None, None)
        assert txn.outcome == "aborted"


async def test_what_has_no_offsets_is_refused(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer, producer.transaction() as txn:
        with pytest.raises(ConfigTypeError, match="group_metadata"):
            await txn.send_offsets({TopicPartition("events", 0): 1})  # type: ignore[call-overload]
        with pytest.raises(ConfigTypeError, match="Consumer"):
            await txn.send_offsets("events")  # type: ignore[call-overload]
