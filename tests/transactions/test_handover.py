"""A transaction that one process opens and another ends, with producers in place of processes."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead._io.transactions.handover import OpenTransaction, Outcome, TransactionCommits, hand_over, resume
from aiokafka_lead.errors import IllegalStateError, ProducerFencedError, TransactionAbortedError
from aiokafka_lead.testing import EmbeddedCluster

from .support import ID, committed, transactional

pytestmark = pytest.mark.anyio
LEDGER = TopicPartition("events", 0)
WITHIN_MS = 10_000


async def opened(cluster: EmbeddedCluster, value: bytes = b"x", **options: Any) -> OpenTransaction:
    """Return the state that a worker hands over before it ends."""
    async with transactional(cluster, **options) as producer:
        await producer.begin_transaction()
        for partition in range(3):
            await producer.send("events", value, partition=partition)
        return await hand_over(producer)


async def commit(cluster: EmbeddedCluster, *transactions: OpenTransaction) -> list[Outcome | None]:
    commits = TransactionCommits(cluster.bootstrap_servers, retry_backoff_ms=10, retry_backoff_max_ms=40)
    await commits.start()
    try:
        found = await commits.commit(transactions, within_ms=WITHIN_MS)
    finally:
        await commits.stop()
    return [found[transaction.transactional_id].outcome for transaction in transactions]


async def test_a_worker_that_has_ended_leaves_its_transaction_open(
    cluster: EmbeddedCluster, transaction_version: int
) -> None:
    transaction = await opened(cluster)
    view = cluster.transactions.view(ID)
    assert view is not None
    assert (view.state, view.producer_id, view.epoch) == ("Ongoing", transaction.producer_id, transaction.epoch)
    assert len(view.partitions) == 3
    assert transaction.version == transaction_version
    assert await commit(cluster, transaction) == [Outcome.COMMITTED]
    assert await committed(cluster) == {0: [b"x"], 1: [b"x"], 2: [b"x"]}


async def test_a_commit_may_be_repeated(cluster: EmbeddedCluster) -> None:
    several = [await opened(cluster, b"%d" % n, transactional_id=f"worker-{n}") for n in range(3)]
    for _ in range(2):
        assert await commit(cluster, *several) == [Outcome.COMMITTED] * 3
    assert sorted((await committed(cluster))[0], key=str) == [b"0", b"1", b"2"]


async def test_the_last_epoch_ends_with_another_producer_id(cluster: EmbeddedCluster) -> None:
    await opened(cluster)
    await commit(cluster, await opened(cluster))
    cluster.transactions.use_epochs_up_to(ID, 32_765)
    transaction = await opened(cluster)
    for _ in range(2):
        assert await commit(cluster, transaction) == [Outcome.COMMITTED]


async def test_what_took_too_long_is_not_committed(cluster: EmbeddedCluster) -> None:
    transaction = await opened(cluster)
    cluster.transactions.time_out(ID)
    (outcome,) = await commit(cluster, transaction)
    assert outcome in (Outcome.ABORTED, Outcome.UNKNOWN), "never COMMITTED"
    assert await committed(cluster) == {0: [], 1: [], 2: []}


async def test_a_later_producer_fences_it(cluster: EmbeddedCluster) -> None:
    transaction = await opened(cluster)
    async with transactional(cluster):
        commits = TransactionCommits(cluster.bootstrap_servers)
        await commits.start()
        found = await commits.commit([transaction], within_ms=WITHIN_MS)
        await commits.stop()
    assert found[ID].outcome is not Outcome.COMMITTED
    assert found[ID].error is not None
    assert await committed(cluster) == {0: [], 1: [], 2: []}


async def test_a_resumed_transaction_takes_offsets_and_ends(cluster: EmbeddedCluster) -> None:
    transaction = await opened(cluster)
    driver = transactional(cluster)
    resume(driver, transaction)
    async with driver:
        with pytest.raises(IllegalStateError):
            await driver.send("events", b"no")
        await driver.send_offsets_to_transaction({LEDGER: 7}, "ledger")
        await driver.commit_transaction()
        async with driver.transaction() as txn:
            await txn.send("events", b"y", partition=0)
            await txn.send_offsets({LEDGER: 8}, "ledger")
    assert await committed(cluster) == {0: [b"x", b"y"], 1: [b"x"], 2: [b"x"]}
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="ledger") as reader:
        reader.assign([LEDGER])
        stored = await reader.committed(LEDGER)
    assert stored is not None
    assert stored.offset == 8


async def test_nothing_sent_is_nothing_to_end(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        transaction = await hand_over(producer)
        with pytest.raises(IllegalStateError, match="handed over"):
            await producer.begin_transaction()
    assert not transaction.begun
    driver = transactional(cluster)
    resume(driver, transaction)
    async with driver:
        await driver.send_offsets_to_transaction({LEDGER: 1}, "ledger")
        await driver.commit_transaction()


async def test_a_resumed_transaction_that_is_fenced_is_not_committed(cluster: EmbeddedCluster) -> None:
    transaction = await opened(cluster)
    driver = transactional(cluster)
    resume(driver, transaction)
    async with driver, transactional(cluster):
        with pytest.raises((ProducerFencedError, TransactionAbortedError)):
            await driver.commit_transaction()
    assert await committed(cluster) == {0: [], 1: [], 2: []}


async def test_what_is_not_stored_is_not_handed_over(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("small", configs={"max.message.bytes": "100"})
    async with Producer(cluster.bootstrap_servers, transactional_id=ID) as producer:
        await producer.begin_transaction()
        await producer.send("small", b"x" * 1000)
        with pytest.raises(TransactionAbortedError):
            await hand_over(producer)
    view = cluster.transactions.view(ID)
    assert view is None or view.state != "Ongoing"
