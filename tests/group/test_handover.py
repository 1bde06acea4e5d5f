"""Rebalances wait for the work in hand, commit before they give up, and tell the listener."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import OffsetAndMetadata
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import CommitFailedError
from aiokafka_lead.testing import EmbeddedCluster

from .support import ALL, Recorder, fill, member, reading, shared, starting, until, vanish

pytestmark = pytest.mark.anyio

EAGER = {"partition_assignment_strategy": ["range"]}


async def committed(cluster: EmbeddedCluster) -> dict[int, int]:
    async with member(cluster) as consumer:
        found = {tp.partition: await consumer.committed(tp) for tp in ALL}
    return {partition: offset.offset for partition, offset in found.items() if offset is not None}


async def next_batch(consumer: Consumer[Any, Any], batches: Any) -> Any:
    with anyio.fail_after(10):
        return await anext(batches)


async def test_a_rebalance_waits_for_the_batch_in_hand(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    async with member(cluster, "events", enable_auto_commit=False, **EAGER) as one:
        batches = one.batches()
        batch = await next_batch(one, batches)
        async with starting(member(cluster, "events", **EAGER)) as two, reading(two):
            await cluster.wait_for_requests("JoinGroup", count=len(cluster.requests.select("JoinGroup")) + 1)
            await cluster.wait_for_requests("Heartbeat", count=len(cluster.requests.select("Heartbeat")) + 4)
            assert one.assignment() == ALL
            assert not two.assignment()
            assert await batch.commit() is True
            await until(lambda: shared([one, two]))
    assert (await committed(cluster))[batch.partition] == batch.next_offset


async def test_a_batch_that_takes_too_long_is_lost(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    async with member(cluster, "events", rebalance_timeout_ms=500, **EAGER) as one:
        batches = one.batches()
        batch = await next_batch(one, batches)
        async with member(cluster, "events", rebalance_timeout_ms=500, **EAGER) as two, reading(two):
            await until(lambda: shared([one, two]))
            assert await batch.commit() is False


async def test_a_batch_whose_handler_is_cancelled_comes_again(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    async with member(cluster, "events") as consumer:
        seen: list[tuple[int, int]] = []
        with anyio.CancelScope() as scope:
            async for batch in consumer.batches():
                seen.append((batch.partition, batch.base_offset))
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        again = []
        async for batch in consumer.batches():
            again.append((batch.partition, batch.base_offset))
            if len(again) == 6:
                break
        assert seen[0] in again


async def test_a_cancelled_batch_comes_again_to_who_reads_on_with_the_same_iterator(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    async with member(cluster, "events") as consumer:
        batches = consumer.batches()
        seen: list[tuple[int, int]] = []
        has_it = anyio.Event()

        async def work() -> None:
            async for batch in batches:
                seen.append((batch.partition, batch.base_offset))
                has_it.set()
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            await has_it.wait()
            tasks.cancel_scope.cancel()
        again = []
        for _ in range(6):
            batch = await next_batch(consumer, batches)
            again.append((batch.partition, batch.base_offset))
        assert seen[0] in again


async def test_who_swallows_a_cancellation_goes_on_nevertheless(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    async with member(cluster, "events") as consumer:
        batches = consumer.batches()
        first = await next_batch(consumer, batches)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.lowlevel.checkpoint()
        rest = [await next_batch(consumer, batches) for _ in range(5)]
        assert len({batch.partition for batch in (first, *rest)}) == 6


async def test_a_commit_tells_what_was_taken_away_meanwhile(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    options = {"rebalance_timeout_ms": 500, "enable_auto_commit": False}
    async with member(cluster, "events", **options) as one:
        await until(lambda: one.lag().total == 30)  # what tells of it is buffered, too
        assert set(await one.getmany()) == ALL
        async with member(cluster, "events", **options) as two, reading(two):
            await until(lambda: shared([one, two]))
            kept = one.assignment()
            with pytest.raises(CommitFailedError) as caught:
                await one.commit()
            assert all(str(tp) in str(caught.value) for tp in ALL - kept)
            assert (await committed(cluster)) == {tp.partition: 5 for tp in kept}
            await one.getmany(timeout_ms=0)
            await one.commit()


async def test_what_is_done_is_committed_before_it_is_given_up(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    async with member(cluster, "events", auto_commit_interval_ms=60_000) as one:
        async with reading(one) as got:
            await until(lambda: len(got) == 30)
        async with member(cluster, "events") as two, reading(one, two) as more:
            await until(lambda: shared([one, two]))
            assert await two.position(next(iter(two.assignment()))) == 5
            assert not more
    assert set((await committed(cluster)).values()) == {5}


async def test_stop_commits_but_for_what_is_in_hand(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    consumer = member(cluster, "events")
    await consumer.start()
    partition = -1
    async for record in consumer:
        if record.offset == 3:
            partition = record.partition
            break
    await consumer.stop()
    assert (await committed(cluster))[partition] == 3
    await cluster.wait_for_requests("LeaveGroup")


async def test_who_is_cancelled_leaves_the_group_too(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    partition = -1
    with anyio.CancelScope() as scope:
        async with member(cluster, "events") as consumer:
            async for record in consumer:
                if record.offset == 3:
                    partition = record.partition
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
    assert (await committed(cluster))[partition] == 3
    await cluster.wait_for_requests("LeaveGroup")


async def test_who_does_not_come_back_leaves_and_joins_again_with_the_next_read(cluster: EmbeddedCluster) -> None:
    """A handler that is too slow loses its partitions by max_poll_interval_ms, though its session goes on."""
    await fill(cluster, 5)
    recorder = Recorder()
    one = member(cluster, max_poll_interval_ms=600)
    one.subscribe(["events"], listener=recorder)
    async with one:
        batches = one.batches()
        batch = await next_batch(one, batches)
        async with member(cluster, "events") as two, reading(two):
            await until(lambda: two.assignment() == ALL)
            assert batch.topic_partition in frozenset().union(*recorder.named("lost"))
            assert not one.assignment()
            assert await batch.commit() is False
            with pytest.raises(CommitFailedError, match="max_poll_interval_ms"):
                await one.commit({batch.topic_partition: batch.next_offset})
            assert (await two.committed(batch.topic_partition) or OffsetAndMetadata(0)).offset in (0, 5)
            async with reading(one):
                await until(lambda: shared([one, two]))


async def test_slow_handlers_of_single_records_make_progress(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 16, partitions=1)
    recorder = Recorder()
    consumer = member(cluster, max_poll_interval_ms=2_000, session_timeout_ms=2_000)
    consumer.subscribe(["events"], listener=recorder)
    async with consumer:
        count = 0
        async for _ in consumer:
            await anyio.sleep(0.15)  # the handler's work
            count += 1
            if count == 16:
                break
        assert not recorder.named("lost")


async def test_the_commit_of_who_was_put_out_fails(cluster: EmbeddedCluster) -> None:
    """A frozen process that wakes up: another member has its partitions by then."""
    await fill(cluster, 5)
    recorder = Recorder()
    one = member(cluster, client_id="one", session_timeout_ms=1_500, request_timeout_ms=1_000, enable_auto_commit=False)
    one.subscribe(["events"], listener=recorder)
    async with one, member(cluster, "events") as two:
        async with reading(one, two):
            await until(lambda: shared([one, two]))
        mine = one.assignment()
        rule = cluster.faults.add("Heartbeat", client_id="one", drop=True)
        async with reading(two):
            await until(lambda: two.assignment() == ALL)
            rule.remove()
            with anyio.fail_after(10), pytest.raises(CommitFailedError):
                await one.commit(dict.fromkeys(mine, 1))
        async with reading(one, two):
            await until(lambda: shared([one, two]))
        assert recorder.named("lost") == [mine]


async def test_a_member_commits_only_what_it_owns(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events") as one, member(cluster, "events") as two, reading(one, two):
        await until(lambda: shared([one, two]))
        with pytest.raises(CommitFailedError, match="do not belong"):
            await one.commit(dict.fromkeys(two.assignment(), 1))


async def test_the_membership_for_transactions(cluster: EmbeddedCluster) -> None:
    """KIP-447."""
    async with member(cluster, "events") as consumer:
        async with reading(consumer):
            await until(lambda: consumer.assignment() == ALL)
        found = consumer.group_metadata()
        assert (found.group_id, found.generation_id, found.group_instance_id) == ("g", 1, None)
        assert found.member_id.startswith("aiokafka-lead-")
    assert consumer.group_metadata().generation_id == -1


async def test_who_vanishes_has_committed_what_it_had_committed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    one = member(cluster, "events", session_timeout_ms=1_500, auto_commit_interval_ms=10)
    await one.start()
    async with reading(one) as got:
        await until(lambda: len(got) == 30)
        await cluster.wait_for_requests("OffsetCommit")
    await vanish(one)
    async with member(cluster, "events") as two, reading(two):
        await until(lambda: two.assignment() == ALL)
