"""Manual loops survive an outage longer than ``max_block_ms``, and their copies count once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, TransactionPipeline
from aiokafka_lead.errors import (
    CommitFailedError,
    CommitOutcomeUnknownError,
    RequestTimedOutError,
    TransactionAbortedError,
    TransactionTimedOutError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late, started
from .support import ID, PARTITIONS, committed

pytestmark = pytest.mark.anyio

BLOCK_MS = 1000
AS_DOCUMENTED = (TransactionAbortedError, CommitFailedError, CommitOutcomeUnknownError)

Transactions = Producer | TransactionPipeline


def brief(block_ms: float = BLOCK_MS) -> dict[str, Any]:
    """Return options of a producer whose calls end after this time."""
    return {
        "max_block_ms": block_ms,
        "request_timeout_ms": block_ms / 2,
        "delivery_timeout_ms": block_ms,
        "retry_backoff_ms": 10,
        "retry_backoff_max_ms": 50,
        "reconnect_backoff_max_ms": 50,
        "linger_ms": 0,
    }


@asynccontextmanager
async def alone(servers: str) -> AsyncIterator[Transactions]:
    async with started(Producer(servers, transactional_id=ID, **brief())) as producer:
        yield producer


@asynccontextmanager
async def pipelined(servers: str) -> AsyncIterator[Transactions]:
    async with started(TransactionPipeline(servers, transactional_id=ID, **brief())) as pipeline:
        yield pipeline


class Loop:
    """The loop in the documentation."""

    def __init__(self, transactions: Transactions, consumer: Consumer) -> None:
        self._transactions = transactions
        self._consumer = consumer
        self.errors: list[Exception] = []

    async def run(self) -> None:
        async for batch in self._consumer.batches():
            try:
                async with self._transactions.transaction() as txn:
                    for value in batch.values:
                        await txn.send("copies", value, partition=batch.partition)
                    await txn.commit_batch(batch)
            except AS_DOCUMENTED as error:
                self.errors.append(error)


async def until(met: Callable[[], object]) -> None:
    with anyio.fail_after(40):
        while not met():  # noqa: ASYNC110 - no event
            await anyio.sleep(0.01)


@pytest.fixture
async def cluster(transaction_version: int) -> AsyncIterator[EmbeddedCluster]:
    """One broker, whose absence is an outage of the whole cluster."""
    async with EmbeddedCluster(brokers=1, features={"transaction.version": transaction_version}) as embedded:
        embedded.create_topic("events", partitions=PARTITIONS)
        embedded.create_topic("copies", partitions=PARTITIONS)
        yield embedded


@pytest.mark.both_loops
@pytest.mark.parametrize("transactions_of", [alone, pipelined])
async def test_a_loop_by_hand_survives_an_outage(
    cluster: EmbeddedCluster, transactions_of: Callable[[str], Any]
) -> None:
    servers = cluster.bootstrap_servers
    options: dict[str, Any] = {"group_id": "copiers", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with (
        Producer(servers) as feed,
        Consumer("events", bootstrap_servers=servers, max_poll_records=5, **options) as consumer,
        transactions_of(servers) as transactions,
        anyio.create_task_group() as tasks,
    ):
        loop = Loop(transactions, consumer)
        tasks.start_soon(loop.run)
        sent = 0
        feeding = True

        async def feed_it() -> None:
            nonlocal sent
            while feeding:
                await feed.send("events", b"%d" % sent, partition=sent % PARTITIONS)
                sent += 1
                await anyio.sleep(0.005)

        tasks.start_soon(feed_it)
        await until(lambda: cluster.end_offset("copies") > 20)
        ending = cluster.faults.add("EndTxn", hold=True)
        await until(lambda: ending.struck)  # so that a transaction is open, and the loop does not just wait for records
        await cluster.kill_broker(1)
        ending.remove()
        if transactions_of is alone:  # a pipeline says it with the next transaction, for which there may be no records
            await until(lambda: loop.errors)
        await anyio.sleep(3 * BLOCK_MS / 1000)  # the outage continues, whatever the loop waits for
        await cluster.start_broker(1)
        before = sent
        await until(lambda: sent > before + 50)
        feeding = False
        await feed.flush()
        expected = {p: [b"%d" % number for number in range(p, sent, PARTITIONS)] for p in range(PARTITIONS)}
        found: dict[int, list[bytes | None]] = {}
        with anyio.fail_after(40):
            while sum(map(len, found.values())) < sent:
                found = await committed(cluster, "copies")
        assert found == expected
        tasks.cancel_scope.cancel()


@again_if_late(BLOCK_MS, 8_000)
async def test_a_time_out_that_leaves_the_block_says_that_the_transaction_is_aborted(
    block_ms: int, cluster: EmbeddedCluster
) -> None:
    cluster.faults.clear()  # from the first attempt
    written = sum(map(len, (await committed(cluster)).values()))
    async with Producer(cluster.bootstrap_servers, transactional_id=ID, **brief(block_ms)) as producer:
        rule = cluster.faults.add("Metadata", topic="silent", drop=True)
        transaction = producer.transaction()
        with pytest.raises(TransactionTimedOutError, match="silent") as caught:
            async with transaction as txn:
                await txn.send("silent", b"1")
        assert isinstance(caught.value.__cause__, RequestTimedOutError)
        rule.remove()
        await until(lambda: transaction.outcome == "aborted")
        async with producer.transaction() as txn:
            await txn.send("events", b"1")
    assert sum(map(len, (await committed(cluster)).values())) == written + 1


@pytest.mark.both_loops
@again_if_late(BLOCK_MS, 8_000)
async def test_a_transaction_that_has_failed_says_so_though_its_abort_takes_longer(
    block_ms: int, cluster: EmbeddedCluster
) -> None:
    cluster.faults.clear()  # from the first attempt
    written = sum(map(len, (await committed(cluster)).values()))
    async with Producer(cluster.bootstrap_servers, transactional_id=ID, **brief(block_ms)) as producer:
        refusing = cluster.faults.add("Produce", error_code=19)
        silent = cluster.faults.add("EndTxn", drop=True)
        with pytest.raises(TransactionAbortedError) as caught:
            async with producer.transaction() as txn:
                await txn.send("events", b"1")
        assert not isinstance(caught.value, TransactionTimedOutError)
        refusing.remove()
        with pytest.raises(TransactionTimedOutError, match="max_block_ms"):
            await producer.begin_transaction()
        silent.remove()
        async with producer.transaction() as txn:
            await txn.send("events", b"2")
    found = [value for values in (await committed(cluster)).values() for value in values]
    assert found == [b"2"] * (written + 1)
