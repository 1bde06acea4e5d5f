"""A pipeline: its transactions overlap, and are committed in order, or not at all."""

from __future__ import annotations

import random
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer, TopicPartition, TransactionPipeline
from aiokafka_lead.errors import (
    ConfigError,
    IllegalStateError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionalIdAuthorizationFailedError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import ID, committed, pipelined

pytestmark = pytest.mark.anyio

Txn = Any


async def write(pipeline: TransactionPipeline, value: bytes, partition: int = 0) -> Txn:
    """Write one record in a transaction."""
    async with pipeline.transaction() as txn:
        await txn.send("events", value, partition=partition)
    return txn


async def test_all_are_committed_in_the_order_of_their_blocks(cluster: EmbeddedCluster) -> None:
    values = [b"%d" % number for number in range(40)]
    async with pipelined(cluster, in_flight=3) as pipeline:
        written = [await write(pipeline, value, number % 3) for number, value in enumerate(values)]
        await pipeline.settle()
        assert [txn.outcome for txn in written] == ["committed"] * 40
        assert [health.phase for health in pipeline.transaction_health()] == ["ready"] * 3
    assert await committed(cluster) == {p: values[p::3] for p in range(3)}


async def test_a_block_is_filled_while_the_one_before_is_committed(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("EndTxn", hold=True, count=1)
    async with pipelined(cluster) as pipeline:
        first = await write(pipeline, b"a")
        await cluster.wait_for_requests("EndTxn")
        second = await write(pipeline, b"b")
        assert (first.outcome, second.outcome) == (None, None)
        assert cluster.requests.count("EndTxn") == 1  # the second one's comes after the first is committed
        assert [health.phase for health in pipeline.transaction_health()] == ["committing", "stored"]
        held.remove()
        await pipeline.settle()
        assert (first.outcome, second.outcome) == ("committed", "committed")
    assert (await committed(cluster))[0] == [b"a", b"b"]


@again_if_late(100, 5_000)
async def test_no_more_than_in_flight_are_open(max_block_ms: int, cluster: EmbeddedCluster) -> None:
    cluster.faults.clear()
    held = cluster.faults.add("EndTxn", hold=True, count=1)
    async with pipelined(cluster, max_block_ms=max_block_ms) as pipeline:
        await write(pipeline, b"a")
        await write(pipeline, b"b")
        with pytest.raises(KafkaError, match="max_block_ms"):
            await write(pipeline, b"c")
        held.remove()
        await pipeline.settle()
        await write(pipeline, b"d")
    assert (await committed(cluster))[0][-3:] == [b"a", b"b", b"d"]


async def write_on(pipeline: TransactionPipeline, written: list[Txn], count: int = 50) -> None:
    """Run transactions until one of them raises."""
    for number in range(count):
        written.append(await write(pipeline, b"x", number % 3))
    await pipeline.settle()


@pytest.mark.parametrize("where", ["settle", "transaction"])
async def test_those_behind_an_aborted_one_are_aborted_and_its_error_is_raised_once(
    cluster: EmbeddedCluster, where: str
) -> None:
    async with pipelined(cluster, in_flight=4) as pipeline:
        await write(pipeline, b"before")
        await pipeline.settle()
        ends = cluster.requests.count("EndTxn")
        held = cluster.faults.add("EndTxn", error_code=TransactionAbortableError, hold=True, count=1)
        written = [await write(pipeline, b"a")]
        await cluster.wait_for_requests("EndTxn", count=ends + 1)
        written.append(await write(pipeline, b"b"))
        held.remove()
        with pytest.raises(TransactionAbortedError) as caught:
            await (pipeline.settle() if where == "settle" else write_on(pipeline, written))
        assert isinstance(caught.value.__cause__, TransactionAbortableError)
        assert {txn.outcome for txn in written} == {"aborted"}
        await pipeline.settle()
        await write(pipeline, b"after")
    assert (await committed(cluster))[0] == [b"before", b"after"]


async def test_the_open_one_learns_of_it_at_its_next_call(cluster: EmbeddedCluster) -> None:
    async with pipelined(cluster) as pipeline:
        held = cluster.faults.add("EndTxn", error_code=TransactionAbortableError, hold=True, count=1)
        first = await write(pipeline, b"a")

        async def fill() -> None:
            async with pipeline.transaction() as txn:
                await txn.send_and_wait("events", b"b", partition=1)
                await cluster.wait_for_requests("EndTxn")
                ends = cluster.requests.count("EndTxn")
                held.remove()
                await cluster.wait_for_requests("EndTxn", count=ends + 1)
                while True:
                    await txn.send_and_wait("events", b"b", partition=1)

        with pytest.raises(TransactionAbortedError, match="an earlier transaction was aborted"):
            await fill()
        assert first.outcome == "aborted"
        await pipeline.settle()  # raised already
        await write(pipeline, b"c")
    assert await committed(cluster) == {0: [b"c"], 1: [], 2: []}


async def test_a_block_that_raises_aborts_its_own_transaction_alone(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("EndTxn", hold=True, count=1)
    async with pipelined(cluster) as pipeline:
        await write(pipeline, b"a")

        async def fail() -> None:
            async with pipeline.transaction() as txn:
                await txn.send_and_wait("events", b"b", partition=0)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        held.remove()
        await write(pipeline, b"c")
    assert (await committed(cluster))[0] == [b"a", b"c"]


async def test_an_abort_is_over_before_the_next_block_begins(cluster: EmbeddedCluster) -> None:
    aborted: list[Txn] = []
    async with pipelined(cluster, in_flight=3) as pipeline:
        held = cluster.faults.add("EndTxn", hold=True, count=1)
        async with anyio.create_task_group() as tasks:

            async def cancelled() -> None:
                async with pipeline.transaction() as txn:
                    aborted.append(txn)
                    await txn.send_and_wait("events", b"a", partition=0)
                    scope.cancel()
                    await anyio.sleep_forever()

            async def let_go() -> None:
                await cluster.wait_for_requests("EndTxn")
                held.remove()

            tasks.start_soon(let_go)
            with anyio.CancelScope() as scope:
                await cancelled()
        await write(pipeline, b"b")
        assert aborted[0].outcome == "aborted"
    assert (await committed(cluster))[0] == [b"b"]


async def test_a_commit_that_is_refused_is_an_abort(cluster: EmbeddedCluster) -> None:
    """The producer of a single transaction would leave that to the application."""
    async with pipelined(cluster) as pipeline:
        cluster.faults.add("EndTxn", error_code=TransactionalIdAuthorizationFailedError, count=1)
        written = [await write(pipeline, b"a")]
        with pytest.raises(TransactionAbortedError) as caught:
            await pipeline.settle()
        assert isinstance(caught.value.__cause__, TransactionalIdAuthorizationFailedError)
        assert written[0].outcome == "aborted"
        await write(pipeline, b"b")
    assert (await committed(cluster))[0] == [b"b"]


async def test_an_abort_that_is_refused_is_tried_again(cluster: EmbeddedCluster) -> None:
    async with pipelined(cluster) as pipeline:
        fault = cluster.faults.add("EndTxn", error_code=TransactionalIdAuthorizationFailedError)
        first = await write(pipeline, b"a")
        for _ in range(2):
            with pytest.raises(TransactionalIdAuthorizationFailedError):
                await pipeline.settle()
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            await write(pipeline, b"b")
        fault.remove()
        with pytest.raises(TransactionAbortedError):
            await pipeline.settle()
        assert first.outcome == "aborted"
        await write(pipeline, b"c")
    assert (await committed(cluster))[0] == [b"c"]


@pytest.mark.parametrize("number", [0, 1])
async def test_another_process_takes_over_one_of_its_ids(cluster: EmbeddedCluster, number: int) -> None:
    written: list[Txn] = []
    async with pipelined(cluster) as zombie:
        await write_on(zombie, written, 3)
        async with Producer(cluster.bootstrap_servers, transactional_id=f"{ID}-{number}"):
            pass
        for _ in range(2):
            with pytest.raises(ProducerFencedError):
                await write_on(zombie, written)
    found = await committed(cluster)
    assert sum(map(len, found.values())) == sum(txn.outcome == "committed" for txn in written)


async def test_the_coordinator_moves_between_two_of_them(cluster: EmbeddedCluster) -> None:
    async with pipelined(cluster) as pipeline:
        for number in range(10):
            await write(pipeline, b"%d" % number)
            cluster.transactions.move_coordinator(f"{ID}-{number % 2}")
    assert (await committed(cluster))[0] == [b"%d" % number for number in range(10)]


async def test_one_that_takes_too_long_takes_those_behind_it_along(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("EndTxn", hold=True, count=1)
    async with pipelined(cluster, in_flight=3) as pipeline:
        written = [await write(pipeline, b"a"), await write(pipeline, b"b")]
        assert cluster.transactions.time_out(f"{ID}-1")
        async with pipeline.transaction() as txn:
            await txn.send("events", b"c", partition=0)
        held.remove()
        with pytest.raises(TransactionAbortedError, match="transaction_timeout_ms"):
            await pipeline.settle()
        assert [txn.outcome for txn in (*written, txn)] == ["committed", "aborted", "aborted"]
    assert (await committed(cluster))[0] == [b"a"]


async def test_stop_waits_for_what_was_left_and_says_what_has_failed(cluster: EmbeddedCluster) -> None:
    pipeline = pipelined(cluster)
    await pipeline.start()
    cluster.faults.add("EndTxn", delay_ms=30, count=1)
    first = await write(pipeline, b"a")
    await pipeline.stop()
    await pipeline.stop()
    assert first.outcome == "committed"
    pipeline = pipelined(cluster)
    await pipeline.start()
    cluster.faults.add("EndTxn", delay_ms=30, error_code=TransactionAbortableError, count=1)
    await write(pipeline, b"b")
    with pytest.raises(TransactionAbortedError):
        await pipeline.stop()
    assert (await committed(cluster))[0] == [b"a"]


async def test_a_block_that_is_open_is_aborted_by_stop(cluster: EmbeddedCluster) -> None:
    async with pipelined(cluster) as pipeline:
        first = await write(pipeline, b"a")
        txn = pipeline.transaction()
        await txn.__aenter__()
        await txn.send("events", b"b", partition=0)
        await pipeline.stop()
        assert (first.outcome, txn.outcome) == ("committed", "aborted")
    assert (await committed(cluster))[0] == [b"a"]


async def test_what_it_refuses(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ConfigError, match="transactional_id"):
        TransactionPipeline(cluster.bootstrap_servers)
    with pytest.raises(ConfigError, match="in_flight"):
        pipelined(cluster, in_flight=1)
    async with pipelined(cluster) as pipeline:
        txn = pipeline.transaction()
        with pytest.raises(IllegalStateError):
            await txn.send("events", b"early")
        async with txn:
            with pytest.raises(IllegalStateError, match="a transaction is open"):
                await pipeline.transaction().__aenter__()
            with pytest.raises(IllegalStateError, match="a transaction is open"):
                await pipeline.settle()
        with pytest.raises(IllegalStateError):
            await txn.send("events", b"late")
        with pytest.raises(IllegalStateError, match="has already begun"):
            await txn.__aenter__()


@pytest.mark.parametrize("seed", [1, 2])
async def test_cancellations_at_random(cluster: EmbeddedCluster, seed: int) -> None:
    """Each transaction is wholly committed or aborted, in order, and the next works."""
    rng = random.Random(seed)
    written: list[tuple[bytes, Txn]] = []
    async with pipelined(cluster, in_flight=3) as pipeline:
        for number in range(60):
            value = b"%d" % number
            txn = pipeline.transaction()
            with anyio.move_on_after(rng.choice((0, 0.001, 0.002, 0.004, 0.008, 0.02, 60)) * rng.random()):
                async with txn:
                    written.append((value, txn))
                    for partition in range(3):
                        await txn.send("events", value, partition=partition)
                    await txn.send_offsets({TopicPartition("events", 0): number}, "group")
        await pipeline.settle()
        await write(pipeline, b"last")
    said = [value for value, txn in written if txn.outcome == "committed"]
    assert {txn.outcome for _, txn in written} == {"committed", "aborted"}
    assert await committed(cluster) == {0: [*said, b"last"], 1: said, 2: said}
