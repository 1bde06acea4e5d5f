"""enable_auto_commit covers records that the application has finished, never records in progress."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import IllegalGenerationError
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, E1, consumer_of, fill, numbers, take, values

pytestmark = pytest.mark.anyio


async def stored(cluster: EmbeddedCluster) -> int | None:
    async with consumer_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        found = await consumer.committed(E0)
        return None if found is None else found.offset


def member(cluster: EmbeddedCluster, **options: Any) -> Consumer[Any, Any]:
    consumer = consumer_of(cluster, group_id="g", **options)
    consumer.assign([E0])
    return consumer


async def test_leaving_the_block_commits_everything(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with member(cluster) as consumer:
        await take(consumer, 4)
    assert await stored(cluster) == 4
    async with member(cluster) as consumer:
        assert numbers((await consumer.getmany(timeout_ms=20_000, max_records=3))[E0]) == [4, 5, 6]
    assert await stored(cluster) == 7


async def test_an_error_in_the_block_leaves_out_what_was_in_hand(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))

    async def handle() -> None:
        async with member(cluster) as consumer:
            async for record in consumer:
                _ = 1 // (3 - int(record.value))

    with pytest.raises(ZeroDivisionError):
        await handle()
    assert await stored(cluster) == 3


async def test_a_loop_that_reads_otherwise_too_keeps_its_record_in_hand(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))

    async def handle() -> None:
        async with member(cluster) as consumer:
            async for record in consumer:
                if record.offset == 1:
                    assert not await consumer.getmany(E1, timeout_ms=0)
                _ = 1 // (3 - int(record.value))

    with pytest.raises(ZeroDivisionError):
        await handle()
    assert await stored(cluster) == 3


async def test_a_cancelled_handler_does_not_commit(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    with anyio.CancelScope() as scope:
        async with member(cluster) as consumer:
            async for record in consumer:
                if int(record.value) == 5:
                    scope.cancel()
                    await anyio.sleep_forever()
    assert await stored(cluster) in (None, 5)


async def test_stop_leaves_out_what_was_in_hand(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    consumer = member(cluster)
    await consumer.start()
    await consumer.getmany(timeout_ms=20_000, max_records=4)
    await consumer.getmany(timeout_ms=20_000, max_records=4)
    await consumer.stop()
    assert await stored(cluster) == 4


async def test_now_and_then_while_it_reads_and_while_it_waits(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with member(cluster, auto_commit_interval_ms=20) as consumer, anyio.create_task_group() as tasks:

        async def read() -> None:
            async for _ in consumer:
                pass

        tasks.start_soon(read)
        with anyio.fail_after(20):
            while await stored(cluster) != 10:
                await cluster.wait_for_requests("OffsetCommit")
        commits = len(cluster.requests.select("OffsetCommit"))
        await fill(cluster, values(5))
        with anyio.fail_after(20):
            await cluster.wait_for_requests("OffsetCommit", count=commits + 1)
            while await stored(cluster) != 15:  # a commit may come between two of the records
                pass
        tasks.cancel_scope.cancel()


async def test_partitions_that_are_given_up_are_committed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with member(cluster) as consumer:
        await consumer.getmany(timeout_ms=20_000, max_records=4)
        await consumer.getmany(timeout_ms=20_000, max_records=1)
        consumer.assign([E1])
        await cluster.wait_for_requests("OffsetCommit")
        with anyio.fail_after(20):
            while await stored(cluster) != 4:
                pass


async def test_it_can_be_turned_off(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with member(cluster, enable_auto_commit=False, auto_commit_interval_ms=1) as consumer:
        await take(consumer, 10)
        assert await consumer.getmany(timeout_ms=50) == {}
    assert await stored(cluster) is None


async def test_a_group_that_refuses_stops_nothing(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    cluster.faults.add("OffsetCommit", error_code=IllegalGenerationError.code)
    async with member(cluster, auto_commit_interval_ms=1) as consumer:
        assert numbers(await take(consumer, 10)) == list(range(10))
    assert await stored(cluster) is None
