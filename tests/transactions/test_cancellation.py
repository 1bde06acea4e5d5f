"""Cancelled anywhere, a transaction is wholly committed or aborted, as its outcome says; the next transaction works."""

from __future__ import annotations

import random

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import Producer, TopicPartition, Transaction
from aiokafka_lead.errors import TransactionAbortedError
from aiokafka_lead.testing import EmbeddedCluster

from .support import PARTITIONS, committed, transactional

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

ROUNDS = 50


async def run(txn: Transaction[bytes, bytes], number: int) -> None:
    """Send a record to each partition, and offsets."""
    async with txn:
        for partition in range(PARTITIONS):
            await txn.send("events", b"%d" % number, partition=partition)
            await anyio.lowlevel.checkpoint()
        await txn.send_offsets({TopicPartition("events", 0): number}, "group")


@pytest.mark.parametrize("seed", [1, 2])
async def test_cancellations_at_random(cluster: EmbeddedCluster, seed: int) -> None:
    rng = random.Random(seed)
    said: list[bytes] = []
    async with transactional(cluster) as producer:
        for number in range(ROUNDS):
            txn = producer.transaction()
            with anyio.move_on_after(rng.choice((0, 0.001, 0.002, 0.004, 0.008, 0.02)) * rng.random()) as scope:
                await run(txn, number)
            assert scope.cancelled_caught or txn.outcome == "committed"
            if txn.outcome == "committed":
                said.append(b"%d" % number)
        await run(producer.transaction(), ROUNDS)
    said.append(b"%d" % ROUNDS)
    assert await committed(cluster) == {0: said, 1: said, 2: said}


async def cancel_when_asked(cluster: EmbeddedCluster, producer: Producer, api: str) -> Transaction[bytes, bytes]:
    """Run a transaction that is cancelled as soon as a broker has received this request."""
    txn = producer.transaction()
    cluster.requests.clear()
    async with anyio.create_task_group() as group:

        async def cancel() -> None:
            await cluster.requests.wait_for(api)
            group.cancel_scope.cancel()

        group.start_soon(cancel)
        await run(txn, 1)
    return txn


async def test_a_commit_that_was_sent_is_not_cancelled(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("EndTxn", delay_ms=50, count=1)
    async with transactional(cluster) as producer:
        txn = await cancel_when_asked(cluster, producer, "EndTxn")
        assert txn.outcome == "committed"
    assert await committed(cluster) == {0: [b"1"], 1: [b"1"], 2: [b"1"]}


@pytest.mark.parametrize("api", ["Produce", "TxnOffsetCommit"])
async def test_whatever_is_cancelled_before_that_aborts(cluster: EmbeddedCluster, api: str) -> None:
    cluster.faults.add(api, delay_ms=100, count=1)
    async with transactional(cluster) as producer:
        txn = await cancel_when_asked(cluster, producer, api)
        assert txn.outcome == "aborted"
        await run(producer.transaction(), 2)
    assert await committed(cluster) == {0: [b"2"], 1: [b"2"], 2: [b"2"]}


async def test_an_abort_goes_on_though_its_caller_does_not_wait(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("EndTxn", hold=True, count=1)
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"never", partition=0)
        with anyio.move_on_after(0.02) as scope:
            await producer.abort_transaction()
        assert scope.cancelled_caught
        held.remove()
        await run(producer.transaction(), 2)
    assert await committed(cluster) == {0: [b"2"], 1: [b"2"], 2: [b"2"]}


async def test_a_commit_that_is_cancelled_while_records_are_on_their_way_aborts(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("Produce", delay_ms=200, count=1)
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        delivery = await producer.send("events", b"a", partition=0)
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await cluster.requests.wait_for("Produce")
                group.cancel_scope.cancel()

            group.start_soon(cancel)
            await producer.commit_transaction()
        with pytest.raises(TransactionAbortedError):
            await delivery
        assert producer.transaction_health().phase in ("ready", "renewing")
    assert await committed(cluster) == {0: [], 1: [], 2: []}
