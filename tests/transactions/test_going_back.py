"""Records read for an aborted transaction come again automatically, and only once into a committed one."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.errors import (
    CommitFailedError,
    CommitOutcomeUnknownError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from aiokafka_lead.testing import EmbeddedCluster

from .support import committed, transactional

pytestmark = pytest.mark.anyio

EXPECTED = {p: [b"%d" % number for number in range(p, 30, 3)] for p in range(3)}
AGAIN = (ZeroDivisionError, CommitFailedError, TransactionAbortedError)


@pytest.fixture
def transaction_version() -> int:
    """A single version, since consumers do not depend on it."""
    return 2


def member(cluster: EmbeddedCluster) -> Consumer:
    options: dict[str, Any] = {"group_id": "copiers", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    return Consumer("events", bootstrap_servers=cluster.bootstrap_servers, max_poll_records=4, **options)


@pytest.fixture
async def filled(cluster: EmbeddedCluster) -> EmbeddedCluster:
    """30 numbers in the topic "events"; "copies" is empty."""
    cluster.create_topic("copies", partitions=3)
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(30):
            await producer.send("events", b"%d" % number, partition=number % 3)
    return cluster


Fails = Callable[[], bool]


async def by_batches(consumer: Consumer, producer: Producer, fails: Fails) -> None:
    copied = 0
    async for batch in consumer.batches():
        try:
            async with producer.transaction() as txn:
                await txn.send_many("copies", batch.values, partition=batch.partition)
                if fails():
                    raise ZeroDivisionError
                await txn.commit_batch(batch)
        except AGAIN:
            continue
        copied += len(batch)
        if copied == 30:
            return


async def by_reads(consumer: Consumer, producer: Producer, fails: Fails) -> None:
    copied = 0
    while copied < 30:
        taken = await consumer.getmany(timeout_ms=1000)
        try:
            async with producer.transaction() as txn:
                for tp, records in taken.items():
                    await txn.send_many("copies", [record.value for record in records], partition=tp.partition)
                if fails():
                    raise ZeroDivisionError
                await txn.send_offsets(consumer)
        except AGAIN:
            continue
        copied += sum(map(len, taken.values()))


async def by_records(consumer: Consumer, producer: Producer, fails: Fails) -> None:
    copied = 0
    async for record in consumer:
        try:
            async with producer.transaction() as txn:
                await txn.send("copies", record.value, partition=record.partition)
                if fails():
                    raise ZeroDivisionError
                await txn.send_offsets(consumer)
        except AGAIN:
            continue
        copied += 1
        if copied == 30:
            return


@pytest.mark.parametrize("copy", [by_batches, by_reads, by_records])
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_record_is_lost_where_blocks_raise_before_the_offsets(
    filled: EmbeddedCluster, copy: Any, seed: int
) -> None:
    """The first block raises, and later ones."""
    rng = random.Random(seed)
    answers = iter([True, False])
    async with member(filled) as consumer, transactional(filled) as producer:
        with anyio.fail_after(30):
            await copy(consumer, producer, lambda: next(answers, None) or rng.random() < 0.3)
    assert await committed(filled, "copies") == EXPECTED


async def test_an_aborted_batch_that_is_kept_cannot_be_committed(filled: EmbeddedCluster) -> None:
    """Its records come again: repeating the transaction with the old batch would duplicate them."""
    async with member(filled) as consumer, transactional(filled) as producer:
        batch = await anext(consumer.batches())

        async def copy(*, fail: bool) -> None:
            async with producer.transaction() as txn:
                await txn.send_many("copies", batch.values, partition=batch.partition)
                await txn.commit_batch(batch)
                if fail:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await copy(fail=True)
        with pytest.raises(CommitFailedError, match="will be delivered again"):
            await copy(fail=False)
        await by_batches(consumer, producer, lambda: False)
    assert await committed(filled, "copies") == EXPECTED


async def test_aborted_records_that_are_kept_cannot_be_committed(filled: EmbeddedCluster) -> None:
    async with member(filled) as consumer, transactional(filled) as producer:
        taken = await consumer.getmany(timeout_ms=20_000)

        async def copy(*, fail: bool) -> None:
            async with producer.transaction() as txn:
                for tp, records in taken.items():
                    await txn.send_many("copies", [record.value for record in records], partition=tp.partition)
                await txn.send_offsets(consumer)
                if fail:
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await copy(fail=True)
        with pytest.raises(CommitFailedError, match="will be delivered again"):
            await copy(fail=False)
        await by_reads(consumer, producer, lambda: False)
    assert await committed(filled, "copies") == EXPECTED


async def test_what_was_aborted_before_the_consumer_read_is_no_concern_of_its(filled: EmbeddedCluster) -> None:
    async with transactional(filled) as producer:
        async with producer.transaction() as txn:
            await txn.send("copies", b"never", partition=0)
            await producer.abort_transaction()
        async with member(filled) as consumer:
            batch = await anext(consumer.batches())
            async with producer.transaction() as txn:
                await txn.commit_batch(batch)
            assert await consumer.committed(TopicPartition("events", batch.partition)) is not None


async def test_what_was_read_for_a_transaction_that_cannot_begin_comes_again(filled: EmbeddedCluster) -> None:
    """The previous transaction is aborted late, and the next raises its error after the consumer went back and read."""
    async with member(filled) as consumer, transactional(filled, max_block_ms=200) as producer:
        batches = consumer.batches()
        copied: list[bytes | None] = []

        async def copy() -> None:
            async for batch in batches:
                txn = producer.transaction()
                try:
                    async with txn:
                        await txn.send_many("copies", batch.values, partition=batch.partition)
                        await txn.commit_batch(batch)
                except CommitOutcomeUnknownError:
                    held.remove()
                    with anyio.fail_after(20):
                        while txn.outcome is None:
                            await consumer.committed(TopicPartition("events", 0))
                except AGAIN:
                    raised.append(batch)
                else:
                    copied.extend(batch.values)
                if len(copied) == 30:
                    return

        raised: list[Any] = []
        held = filled.faults.add("EndTxn", hold=True, count=1, error_code=TransactionAbortableError)
        await copy()
        assert raised
    assert await committed(filled, "copies") == EXPECTED
