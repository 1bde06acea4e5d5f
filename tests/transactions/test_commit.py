"""Waiting for a commit: once, for an outcome that a cancellation does not change."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any

import anyio
import pytest

from aiokafka_lead.errors import CommitOutcomeUnknownError, IllegalStateError, TransactionAbortedError
from aiokafka_lead.testing import EmbeddedCluster

from .support import PARTITIONS, committed, transactional

pytestmark = pytest.mark.anyio


class Counted:
    """Runs a coroutine, and counts how often it is suspended."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.suspensions = 0
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, None]:
        running = self._coroutine.__await__()
        try:
            waits_for = running.send(None)
            while True:
                self.suspensions += 1
                waits_for = running.send((yield waits_for))
        except StopIteration:
            return


async def test_a_commit_wakes_its_caller_once(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster, linger_ms=10_000) as producer:
        for number in range(3):
            await producer.begin_transaction()
            for partition in range(PARTITIONS):
                await producer.send("events", b"%d" % number, partition=partition)
            commit = Counted(producer.commit_transaction())
            await commit
            assert commit.suspensions == 1
    assert await committed(cluster) == {partition: [b"0", b"1", b"2"] for partition in range(PARTITIONS)}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_cancelled_once_its_commit_is_asked_for_hears_the_outcome(
    cluster: EmbeddedCluster,
) -> None:
    async with transactional(cluster, linger_ms=10_000) as producer:
        txn = producer.transaction()

        async def one() -> None:
            async with txn:
                await txn.send("events", b"a", partition=0)

        unanswered = cluster.faults.add("EndTxn", hold=True, count=1)
        task = asyncio.create_task(one())
        await cluster.requests.wait_for("EndTxn")
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        unanswered.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert txn.outcome == "committed"
        async with producer.transaction() as following:
            await following.send("events", b"b", partition=0)
    assert await committed(cluster) == {0: [b"a", b"b"], 1: [], 2: []}


async def test_a_commit_that_another_cluster_answers_has_no_known_outcome(transaction_version: int) -> None:
    options: dict[str, Any] = {"brokers": 1, "features": {"transaction.version": transaction_version}}
    over = anyio.Event()

    async def write(cluster: EmbeddedCluster) -> None:
        async with transactional(cluster, cluster_id_mismatch="adopt", reconnect_backoff_max_ms=50) as producer:
            txn = producer.transaction()
            with pytest.raises(CommitOutcomeUnknownError):
                async with txn:
                    await txn.send("events", b"a", partition=0)
            assert txn.outcome == "unknown"
            async with producer.transaction() as following:
                await following.send("events", b"b", partition=0)
        over.set()

    async with anyio.create_task_group() as group:
        async with EmbeddedCluster(cluster_id="one", **options) as first:
            first.create_topic("events", partitions=PARTITIONS)
            async with transactional(first, transactional_id="another"):
                pass  # so that the producer does not get the same producer id from both clusters
            first.faults.add("EndTxn", hold=True)
            group.start_soon(write, first)
            await first.requests.wait_for("EndTxn")
        ports = [int(first.bootstrap_servers.rpartition(":")[2])]
        async with EmbeddedCluster(cluster_id="two", ports=ports, **options) as second:
            second.create_topic("events", partitions=PARTITIONS)
            with anyio.fail_after(60):
                await over.wait()
            assert await committed(second) == {0: [b"b"], 1: [], 2: []}


async def test_a_commit_takes_no_longer_than_its_timeout(cluster: EmbeddedCluster) -> None:
    """Even if neither the records nor the abort are answered."""
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"a", partition=0)
        held = [cluster.faults.add(api, hold=True) for api in ("Produce", "EndTxn")]
        await producer.send("events", b"b", partition=0)
        with anyio.fail_after(20), pytest.raises(TransactionAbortedError, match="not acknowledged within 100 ms"):
            await producer.commit_transaction(timeout_ms=100)
        for fault in held:
            fault.remove()
        async with producer.transaction() as following:
            await following.send("events", b"c", partition=0)
    assert await committed(cluster) == {0: [b"c"], 1: [], 2: []}


async def test_nothing_begins_while_another_task_commits(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster) as producer:
        await producer.begin_transaction()
        held = cluster.faults.add("Produce", hold=True)
        await producer.send("events", b"a", partition=0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.commit_transaction)
            await anyio.wait_all_tasks_blocked()
            for call in (producer.begin_transaction, producer.commit_transaction):
                with pytest.raises(IllegalStateError, match="another task is committing"):
                    await call()
            held.remove()
        async with producer.transaction() as following:
            await following.send("events", b"b", partition=0)
    assert await committed(cluster) == {0: [b"a", b"b"], 1: [], 2: []}
