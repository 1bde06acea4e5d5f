"""Consumers and a pipeline: every record is consumed once, whichever transaction in flight is aborted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, ConsumerRecord, Producer, TopicPartition, TransactionPipeline
from aiokafka_lead.errors import CommitFailedError, TransactionAbortableError, TransactionAbortedError
from aiokafka_lead.testing import EmbeddedCluster

from .support import ID, committed, pipelined

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]
COUNT = 60
EXPECTED = {p: [b"%d" % number for number in range(p, COUNT, 3)] for p in range(3)}
AGAIN = (ZeroDivisionError, CommitFailedError, TransactionAbortedError)
ENDS = {TopicPartition("events", partition): COUNT // 3 for partition in range(3)}


@pytest.fixture
def transaction_version() -> int:
    """A single version, since consumers do not depend on it."""
    return 2


@pytest.fixture
async def filled(cluster: EmbeddedCluster) -> EmbeddedCluster:
    """Numbers in the topic "events"; "copies" is empty."""
    cluster.create_topic("copies", partitions=3)
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(COUNT):
            await producer.send("events", b"%d" % number, partition=number % 3)
            if number % 6 == 5:
                await producer.flush()  # more than one batch: `Consumer.batches` does not divide them
    return cluster


def member(cluster: EmbeddedCluster, **options: Any) -> Consumer:
    options = {"group_id": "copiers", "auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return Consumer("events", bootstrap_servers=cluster.bootstrap_servers, max_poll_records=4, **options)


async def all_done(consumer: Consumer) -> bool:
    """Return True if the group has committed everything, without pending offsets."""
    found = {tp: await consumer.committed(tp) for tp in ENDS}
    return all(offset is not None and offset.offset == ENDS[tp] for tp, offset in found.items())


Fails = Callable[[], bool]


async def by_batches(consumer: Consumer, pipeline: TransactionPipeline, fails: Fails) -> None:
    async for batch in consumer.batches():
        try:
            async with pipeline.transaction() as txn:
                await txn.send_many("copies", batch.values, partition=batch.partition)
                if fails():
                    raise ZeroDivisionError
                await txn.commit_batch(batch)
            if batch.next_offset == COUNT // 3:
                await pipeline.settle()
        except AGAIN:
            continue
        if batch.next_offset == COUNT // 3 and await all_done(consumer):
            return


async def by_reads(consumer: Consumer, pipeline: TransactionPipeline, fails: Fails) -> None:
    while True:
        taken = await consumer.getmany(timeout_ms=50)
        try:
            async with pipeline.transaction() as txn:
                for tp, records in taken.items():
                    await txn.send_many("copies", [record.value for record in records], partition=tp.partition)
                if fails():
                    raise ZeroDivisionError
                await txn.send_offsets(consumer)
            if not taken:
                await pipeline.settle()
        except AGAIN:
            continue
        if not taken and await all_done(consumer):
            return


async def by_records(consumer: Consumer, pipeline: TransactionPipeline, fails: Fails) -> None:
    async for record in consumer:
        try:
            async with pipeline.transaction() as txn:
                await txn.send("copies", record.value, partition=record.partition)
                if fails():
                    raise ZeroDivisionError
                await txn.send_offsets(consumer)
            if record.offset == COUNT // 3 - 1:
                await pipeline.settle()
        except AGAIN:
            continue
        if record.offset == COUNT // 3 - 1 and await all_done(consumer):
            return


@pytest.mark.parametrize("copy", [by_batches, by_reads, by_records])
@pytest.mark.parametrize("seed", [1, 2])
async def test_copies_are_complete_whichever_of_them_fails(filled: EmbeddedCluster, copy: Any, seed: int) -> None:
    """Blocks raise, and commits are refused, late, while other transactions are in flight."""
    rng = random.Random(seed)
    filled.transactions.marker_delay_ms = 2
    faults = [filled.faults.add("EndTxn", error_code=TransactionAbortableError, count=1, skip=n) for n in (2, 9, 11)]
    slow = filled.faults.add("EndTxn", delay_ms=15, when=lambda _: rng.random() < 0.3)
    async with member(filled) as consumer, pipelined(filled, in_flight=rng.choice((2, 3, 4))) as pipeline:
        with anyio.fail_after(60):
            await copy(consumer, pipeline, lambda: rng.random() < 0.2)
    assert sum(fault.struck for fault in faults) == 3
    assert slow.struck
    assert await committed(filled, "copies") == EXPECTED


async def test_a_batch_that_was_read_beside_an_abort_cannot_be_committed(filled: EmbeddedCluster) -> None:
    async with member(filled) as consumer, pipelined(filled) as pipeline:
        batches = consumer.batches()
        first, second = await anext(batches), await anext(batches)
        held = filled.faults.add("EndTxn", error_code=TransactionAbortableError, hold=True, count=1)
        async with pipeline.transaction() as txn:
            await txn.send_many("copies", first.values, partition=first.partition)
            await txn.commit_batch(first)
        await filled.wait_for_requests("EndTxn")
        held.remove()
        with pytest.raises(TransactionAbortedError):
            await pipeline.settle()

        async def go_on() -> None:
            async with pipeline.transaction() as txn:
                await txn.commit_batch(second)

        with pytest.raises(CommitFailedError):
            await go_on()


async def test_a_rebalance_waits_for_all_that_are_in_flight(filled: EmbeddedCluster) -> None:
    held = filled.faults.add("EndTxn", hold=True, count=1)
    async with member(filled, heartbeat_interval_ms=200) as first, pipelined(filled) as pipeline:
        batches = first.batches()

        async def read_on() -> None:
            async for _ in batches:
                pass

        for _ in range(2):
            batch = await anext(batches)
            async with pipeline.transaction() as txn:
                await txn.send_many("copies", batch.values, partition=batch.partition)
                await txn.commit_batch(batch)
        second = member(filled, heartbeat_interval_ms=200)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_on)
            syncs = filled.requests.count("SyncGroup")
            await second.start(wait=False)
            with anyio.fail_after(20):
                await filled.wait_for_requests("SyncGroup", count=syncs + 2)
            assert second.assignment() == frozenset()
            held.remove()
            with anyio.fail_after(20):
                while not second.assignment():
                    await second.getmany(timeout_ms=100)
            tasks.cancel_scope.cancel()
        await second.stop()


async def copy_one(record: Record, txn: Any) -> None:
    await txn.send("copies", record.value, record.key, partition=record.partition)


async def run_to_the_end(cluster: EmbeddedCluster, handle: Any = copy_one, **options: Any) -> None:
    """Run `Consumer.run` with a pipeline, until the group has committed everything."""
    wanted: dict[str, Any] = {
        "retry_backoff_ms": 5,
        "max_transaction_ms": 10,
        "max_transaction_records": 7,
        "order": "partition",
        "transaction_retries": 30,
        **options,
    }
    async with (
        pipelined(cluster, in_flight=3) as pipeline,
        member(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(stop_when_done, cluster, consumer)
        await consumer.run(handle, exactly_once=pipeline, **wanted)


async def stop_when_done(cluster: EmbeddedCluster, *consumers: Consumer) -> None:
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="copiers") as looks:
        with anyio.fail_after(60):
            while True:
                seen = cluster.requests.count("EndTxn")
                if await all_done(looks):
                    break
                await cluster.wait_for_requests("EndTxn", count=seen + 1)
    for consumer in consumers:
        await consumer.stop()


async def test_a_run_overlaps_its_transactions(filled: EmbeddedCluster) -> None:
    filled.faults.add("EndTxn", delay_ms=5)
    await run_to_the_end(filled)
    assert await committed(filled, "copies") == EXPECTED
    assert filled.requests.count("OffsetCommit") == 0
    ids = {f"{ID}-{number}": filled.transactions.view(f"{ID}-{number}") for number in range(3)}
    assert all(view is not None and view.epoch > 0 for view in ids.values())


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_run_whose_handlers_fail_and_whose_commits_are_refused(filled: EmbeddedCluster, seed: int) -> None:
    rng = random.Random(seed)
    for skip in (1, 4, 5, 9):
        filled.faults.add("EndTxn", error_code=TransactionAbortableError, delay_ms=10, count=1, skip=skip)
    seen: Counter[int] = Counter()

    async def handle(record: Record, txn: Any) -> None:
        await copy_one(record, txn)
        seen[int(record.value)] += 1
        if int(record.value) % 25 == 11 and seen[int(record.value)] < 3 and rng.random() < 0.8:
            raise ZeroDivisionError

    await run_to_the_end(filled, handle)
    assert await committed(filled, "copies") == EXPECTED


async def test_commits_that_are_always_refused_end_the_run(filled: EmbeddedCluster) -> None:
    """Even though each batch behind them can be stored."""
    fault = filled.faults.add("EndTxn", error_code=TransactionAbortableError, delay_ms=5, when=lambda _: True)
    async with pipelined(filled) as pipeline, member(filled) as consumer:
        with pytest.raises(TransactionAbortedError), anyio.fail_after(30):
            await consumer.run(
                copy_one, exactly_once=pipeline, transaction_retries=2, retry_backoff_ms=5, max_transaction_records=5
            )
        fault.remove()
    await run_to_the_end(filled)
    assert await committed(filled, "copies") == EXPECTED


async def test_a_run_that_is_cancelled_and_another_one(filled: EmbeddedCluster) -> None:
    filled.faults.add("EndTxn", delay_ms=10)
    async with pipelined(filled) as pipeline, member(filled) as consumer:
        for at in (15, 40):
            with anyio.CancelScope() as scope:

                async def handle(record: Record, txn: Any, scope: anyio.CancelScope = scope, at: int = at) -> None:
                    await copy_one(record, txn)
                    if int(record.value) >= at:
                        scope.cancel()

                await consumer.run(handle, exactly_once=pipeline, order="partition", max_transaction_records=7)
    await run_to_the_end(filled)
    assert await committed(filled, "copies") == EXPECTED


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_with_pipelines_come_and_go(filled: EmbeddedCluster, protocol: Any) -> None:
    filled.faults.add("EndTxn", delay_ms=5)
    members = [member(filled, group_protocol=protocol) for _ in range(3)]
    seen = [0, 0, 0]
    leave = [anyio.Event(), anyio.Event()]

    async def work(number: int, consumer: Consumer) -> None:
        async def handle(record: Record, txn: Any) -> None:
            await copy_one(record, txn)
            await anyio.sleep(0.003)
            seen[number] += 1
            if number < 2 and seen[number] == 8:
                leave[number].set()

        servers = filled.bootstrap_servers
        options: dict[str, Any] = {"linger_ms": 0, "retry_backoff_ms": 10, "transactional_id": f"copier-{number}"}
        async with TransactionPipeline(servers, in_flight=2 + number, **options) as pipeline, consumer:
            await consumer.run(
                handle, exactly_once=pipeline, order="partition", max_transaction_records=4, max_transaction_ms=20
            )

    async def go(number: int) -> None:
        await leave[number].wait()
        await members[number].stop()

    async with anyio.create_task_group() as tasks:
        for number, consumer in enumerate(members):
            tasks.start_soon(work, number, consumer)
        tasks.start_soon(go, 0)
        await stop_when_done(filled, *members[1:])
        for event in leave:
            event.set()
    assert await committed(filled, "copies") == EXPECTED
