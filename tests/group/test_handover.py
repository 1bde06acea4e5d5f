"""Rebalances wait for work in progress, commit before giving partitions up, and notify the listener."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import OffsetAndMetadata, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import CommitFailedError, NotCoordinatorError, RequestTimedOutError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import ALL, GROUP, Recorder, fill, member, reading, shared, starting, until, vanish

pytestmark = pytest.mark.anyio

GONE_S = 6
"""Longer than the former separate limit of a commit, in seconds."""
EAGER = {"partition_assignment_strategy": ["range"]}


async def committed(cluster: EmbeddedCluster, group: str = GROUP) -> dict[int, int]:
    async with member(cluster, group_id=group) as consumer:
        found = {tp.partition: await consumer.committed(tp) for tp in ALL}
    return {partition: offset.offset for partition, offset in found.items() if offset is not None}


async def next_batch(consumer: Consumer[Any, Any], batches: Any) -> Any:
    with anyio.fail_after(20):
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


async def test_a_batch_is_committed_within_the_time_of_the_call(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    async with member(cluster, "events", enable_auto_commit=False) as one:
        batch = await next_batch(one, one.batches())
        held = cluster.faults.add("OffsetCommit", hold=True, count=1)
        with anyio.fail_after(20), pytest.raises(RequestTimedOutError):  # default_api_timeout_ms is a minute
            await batch.commit(timeout_ms=100)
        held.remove()
        assert await batch.commit() is True


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
    options = {"rebalance_timeout_ms": 2500, "enable_auto_commit": False}
    async with member(cluster, "events", **options) as one:
        await until(lambda: one.lag().total == 30)  # answers that report it are buffered, too
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
            await until(lambda: len(got) >= 30)
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


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_coordinator_that_is_gone_for_a_while_is_waited_for_with_the_last_commit(
    cluster: EmbeddedCluster,
) -> None:
    """For the time that a crashed broker's partitions may have no leader; otherwise uncommitted records come again."""
    await fill(cluster, 5)
    groups = ("gives up", "stops", "runs")
    options: dict[str, Any] = {"auto_commit_interval_ms": 600_000}
    gives_up, stops, runs = (member(cluster, "events", group_id=group, **options) for group in groups)
    handled: list[Any] = []

    async def handle(record: Any) -> None:
        handled.append(record)

    async with gives_up, stops, runs, reading(gives_up), anyio.create_task_group() as tasks:
        tasks.start_soon(runs.run, handle)
        async with reading(stops) as got:
            await until(lambda: len(got) == len(handled) == 30)
        await until(lambda: gives_up.metrics().records_consumed == 30)
        gone = cluster.faults.add("OffsetCommit", error_code=NotCoordinatorError.code)
        async with anyio.create_task_group() as ending, starting(member(cluster, "events", group_id=groups[0])) as new:
            for consumer in (stops, runs):
                ending.start_soon(consumer.stop, 30_000)
            await anyio.sleep(GONE_S)
            gone.remove()
            async with reading(new) as repeated:
                await until(lambda: shared([gives_up, new]))
            assert not repeated
    for group in groups:
        assert await committed(cluster, group) == {tp.partition: 5 for tp in ALL}


@pytest.mark.parametrize(("api", "after"), [("JoinGroup", True), ("SyncGroup", False)])
async def test_a_member_that_is_stopped_while_it_joins_again_commits_in_the_new_generation(
    cluster: EmbeddedCluster, api: str, after: bool
) -> None:
    """The coordinator refuses commits of the previous generation, and the answer with the new one is in flight."""
    await fill(cluster, 5)
    one = member(cluster, "events", client_id="one", auto_commit_interval_ms=600_000)
    await one.start()
    async with reading(one) as got:
        await until(lambda: len(got) == 30)
    held = cluster.faults.add(api, client_id="one", hold=True, after=after, count=1)
    async with starting(member(cluster, "events")), anyio.create_task_group() as tasks:
        await until(lambda: held.struck == 1)
        tasks.start_soon(one.stop, 60_000)
        await cluster.wait_for_requests("OffsetCommit")
        held.remove()
    assert await committed(cluster) == {tp.partition: 5 for tp in ALL}


async def test_a_member_that_unsubscribes_while_it_joins_again_commits_in_the_new_generation(
    cluster: EmbeddedCluster,
) -> None:
    await fill(cluster, 5)
    async with starting(member(cluster, "events", client_id="one", auto_commit_interval_ms=600_000)) as one:
        async with reading(one) as got:
            await until(lambda: len(got) == 30)
        held = cluster.faults.add("JoinGroup", client_id="one", hold=True, after=True, count=1)
        async with starting(member(cluster, "events")) as other:
            await until(lambda: held.struck == 1)
            one.unsubscribe()
            await cluster.wait_for_requests("OffsetCommit")
            held.remove()
            await until(lambda: set(other.assignment()) == set(ALL))
            assert await committed(cluster) == {tp.partition: 5 for tp in ALL}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_no_more_records_of_topics_that_were_left(cluster: EmbeddedCluster, protocol: str) -> None:
    """Although the group takes their partitions away only later, and some of their records are buffered."""
    cluster.create_topic("others")
    await fill(cluster, 5)
    await fill(cluster, 5, "others", partitions=1)
    async with member(cluster, "events", group_protocol=protocol) as consumer:
        with anyio.fail_after(20):
            first = await consumer.getone()
            assert first is not None
            consumer.subscribe(["others"])
            assert [(await consumer.getone()).topic for _ in range(3)] == ["others"] * 3
            assert {tp.topic: len(records) for tp, records in (await consumer.getmany()).items()} == {"others": 2}
    assert await committed(cluster) == {tp.partition: 0 for tp in ALL} | {first.partition: 1}


async def test_topics_that_were_left_and_are_subscribed_to_again(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("others")
    await fill(cluster, 5)
    async with member(cluster, "events") as consumer:
        joining = cluster.faults.add("JoinGroup", hold=True)
        consumer.subscribe(["events", "others"])
        await until(lambda: joining.struck == 1)
        for topics in (["others"], ["events", "others"]):
            consumer.subscribe(topics)
            time_ms = 20_000 if "events" in topics else 200
            assert bool(await consumer.getmany(timeout_ms=time_ms, max_records=1)) is ("events" in topics)
        joining.remove()
        joining.release()
        async with reading(consumer) as got:
            await until(lambda: len(got) == 29)


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
    """A slow handler loses its partitions by max_poll_interval_ms, though its session continues."""
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


@again_if_late(2_000, 8_000)
async def test_slow_handlers_of_single_records_make_progress(interval_ms: int, cluster: EmbeddedCluster) -> None:
    records = 31 + interval_ms // 150 + 3
    await fill(cluster, records, partitions=1)
    recorder = Recorder()
    consumer = member(cluster, max_poll_interval_ms=interval_ms, session_timeout_ms=interval_ms)
    consumer.subscribe(["events"], listener=recorder)
    async with consumer:
        count = 0
        async for _ in consumer:
            count += 1
            if count > 31:  # after quick ones, so that the loop gets many at once
                await anyio.sleep(0.15)  # the handler's work
            if count == records:
                break
        assert not recorder.named("lost")


@again_if_late(1_500, 8_000)
async def test_the_commit_of_who_was_put_out_fails(session_ms: int, cluster: EmbeddedCluster) -> None:
    """A frozen process that wakes up: by then another member has its partitions."""
    cluster.faults.clear()  # from the first attempt
    await fill(cluster, 5)
    recorder = Recorder()
    limits: dict[str, Any] = {"session_timeout_ms": session_ms, "request_timeout_ms": session_ms - 500}
    one = member(cluster, client_id="one", **limits, enable_auto_commit=False)
    one.subscribe(["events"], listener=recorder)
    async with one, member(cluster, "events") as two:
        async with reading(one, two):
            await until(lambda: shared([one, two]))
        recorder.heard.clear()
        mine = one.assignment()
        rule = cluster.faults.add("Heartbeat", client_id="one", drop=True)
        async with reading(two):
            await until(lambda: two.assignment() == ALL)
            rule.remove()
            with anyio.fail_after(20), pytest.raises(CommitFailedError):
                await one.commit(dict.fromkeys(mine, 1))
        async with reading(one, two):
            await until(lambda: shared([one, two]))
        assert recorder.named("lost")[:1] == [mine]


async def test_a_member_commits_only_what_it_owns(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events") as one, member(cluster, "events") as two, reading(one, two):
        await until(lambda: shared([one, two]))
        with pytest.raises(CommitFailedError, match="are not assigned"):
            await one.commit(dict.fromkeys(two.assignment(), 1))
        with pytest.raises(CommitFailedError, match="others-18, others-19, 80 more are not assigned"):
            await one.commit({TopicPartition("others", number): 1 for number in range(100)})


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
        await until(lambda: len(got) >= 30)
        await cluster.wait_for_requests("OffsetCommit")
    await vanish(one)
    async with member(cluster, "events") as two, reading(two):
        await until(lambda: two.assignment() == ALL)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("how", ["unsubscribe", "assign", "subscribe"])
async def test_who_gives_up_its_partitions_itself_is_not_waited_for(
    cluster: EmbeddedCluster, protocol: str, how: str
) -> None:
    """It may never read again, and by default others would wait for four minutes."""
    cluster.create_topic("other")
    await fill(cluster, 1)
    async with starting(member(cluster, "events", group_protocol=protocol)) as one:
        with anyio.fail_after(20):
            record = await one.getone()
        assert record is not None
        match how:
            case "unsubscribe":
                one.unsubscribe()
            case "assign":
                one.assign([TopicPartition("other", 0)])
            case "subscribe":
                one.subscribe(["other"])
        if how != "unsubscribe":
            await one.wait_ready(20_000)
            assert one.assignment() == {TopicPartition("other", 0)}
        async with starting(member(cluster, "events", group_protocol=protocol)) as two, reading(two) as got:
            await until(lambda: len(got) == 6)
        assert any((each.partition, each.offset) == (record.partition, 0) for each in got), "it was not done"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_topic_that_is_subscribed_to_again_at_once_is_read_on(cluster: EmbeddedCluster, protocol: str) -> None:
    cluster.create_topic("other")
    await fill(cluster, 2, partitions=1)
    async with member(cluster, "events", "other", group_protocol=protocol) as consumer:
        with anyio.fail_after(20):
            assert (await consumer.getone()) is not None
        consumer.subscribe(["other"])
        await anyio.lowlevel.checkpoint()
        consumer.subscribe(["events", "other"])
        async with reading(consumer) as got:
            await until(lambda: 1 in {record.offset for record in got})
            await until(lambda: consumer.assignment() == ALL | {TopicPartition("other", 0)})


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_commit_in_flight_ends_before_its_consumer(cluster: EmbeddedCluster, protocol: str) -> None:
    await fill(cluster, 1)
    consumer = member(cluster, "events", client_id="one", group_protocol=protocol, enable_auto_commit=False)
    await consumer.start()
    held = cluster.faults.add("OffsetCommit", client_id="one", hold=True, count=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.commit, dict.fromkeys(ALL, 1))
        await until(lambda: held.struck == 1)
        tasks.start_soon(consumer.stop, 60_000)
        await anyio.wait_all_tasks_blocked()
        held.remove()
    assert await committed(cluster) == {tp.partition: 1 for tp in ALL}
