"""`Consumer.run` by members of a group: partitions come and go while handlers work."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from aiokafka_lead import ConsumerRecord
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import IllegalStateError, UnknownMemberIdError
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

from ..patience import again_if_late
from .support import E0, EVENTS, Gate, committed, fill, until, until_committed

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("protocol", ["classic", "consumer"])]

Record = ConsumerRecord[Any, Any]
WITHIN_S = 40


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """One broker with a short heartbeat interval, and a topic "events" of three partitions."""
    async with EmbeddedCluster(brokers=1, groups=GroupOptions(consumer_heartbeat_interval_ms=50)) as embedded:
        embedded.create_topic("events", partitions=3)
        yield embedded


def member(cluster: EmbeddedCluster, protocol: str, **options: Any) -> Consumer[Any, Any]:
    defaults: dict[str, Any] = {
        "group_id": "g",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 6_000,
        "retry_backoff_ms": 10,
    }
    return Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **(defaults | options))


async def test_a_second_member_takes_over_without_handling_anything_twice(
    cluster: EmbeddedCluster, protocol: str
) -> None:
    for tp in EVENTS:
        await fill(cluster, 100, keys=10, partition=tp.partition)
    handled: Counter[tuple[int, int]] = Counter()
    begun, by_second = anyio.Event(), anyio.Event()
    first, second = member(cluster, protocol), member(cluster, protocol)

    async def count(record: Record) -> None:
        handled[record.partition, record.offset] += 1
        if len(handled) == 300:
            stopping.start_soon(first.stop)
            stopping.start_soon(second.stop)

    async def handle_slowly(record: Record) -> None:
        begun.set()
        await (anyio.lowlevel.checkpoint() if by_second.is_set() else anyio.sleep(0.01))
        await count(record)

    async def handle_by_second(record: Record) -> None:
        by_second.set()
        await count(record)

    async def run_first() -> None:
        async with first:
            await first.run(handle_slowly, concurrency=4, max_in_hand=40)

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as stopping:
            stopping.start_soon(run_first)
            await begun.wait()
            async with second:
                await second.run(handle_by_second)
    assert by_second.is_set()
    assert set(handled.values()) == {1}
    assert [await committed(cluster, tp) for tp in EVENTS] == [100, 100, 100]


@again_if_late(5_000, 15_000)
async def test_a_handler_that_takes_too_long_is_cancelled_and_its_record_comes_again(
    timeout_ms: int, cluster: EmbeddedCluster, protocol: str
) -> None:
    written = cluster.end_offset("events", 0)  # by the first attempt, as in each partition
    for tp in EVENTS:
        await fill(cluster, 3, partition=tp.partition)
    stuck: set[int] = set()
    cancelled: set[int] = set()
    all_stuck = anyio.Event()
    again: set[tuple[int, int]] = set()
    # A fifth of it is left for the commits and the heartbeat when the handlers are cancelled.
    options = {"rebalance_timeout_ms": timeout_ms}

    async def handle(record: Record) -> None:
        if record.offset - written == 1:
            stuck.add(record.partition)
            if len(stuck) == 3:
                all_stuck.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.add(record.partition)

    async def run_first() -> None:
        async with member(cluster, protocol, **options) as first:
            await first.run(handle, order="partition")

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_first)
            await all_stuck.wait()
            async with member(cluster, protocol, **options) as second, until(second) as second_done:

                async def handle_again(record: Record) -> None:
                    if record.offset >= written:
                        again.add((record.partition, record.offset - written))
                    if record.offset - written == 2:
                        second_done()

                await second.run(handle_again, order="partition")
                assert {partition for partition, _ in again} <= cancelled
            tasks.cancel_scope.cancel()
    moved = {partition for partition, _ in again}
    assert again == {(partition, offset) for partition in moved for offset in (1, 2)}


async def test_who_is_put_out_while_a_handler_holds_up_a_rebalance_gives_up_everything(
    cluster: EmbeddedCluster, protocol: str
) -> None:
    """Other members own all of its partitions."""
    for tp in EVENTS:
        await fill(cluster, 1, partition=tp.partition)
    stuck: list[int] = []
    lost = anyio.Event()

    class Listener:
        async def on_partitions_lost(self, partitions: Any) -> None:
            lost.set()

    first, second = (member(cluster, protocol, client_id=name) for name in ("first", "second"))
    first.subscribe(["events"], listener=Listener())

    async def handle(record: Record) -> None:
        stuck.append(record.partition)
        await anyio.sleep_forever()

    async with first, anyio.create_task_group() as tasks:
        tasks.start_soon(first.run, handle)
        with anyio.fail_after(WITHIN_S):
            while len(stuck) < 3:
                await cluster.wait_for_requests("Fetch", count=cluster.requests.count("Fetch") + 1)
        await second.start(wait=False)
        api = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
        await cluster.wait_for_requests(api, count=cluster.requests.count(api) + 10)
        cluster.faults.add(api, error_code=UnknownMemberIdError, client_id="first", count=1)
        with anyio.fail_after(WITHIN_S):
            await lost.wait()
        tasks.cancel_scope.cancel()
    await second.stop()


async def test_what_is_done_is_committed_when_partitions_go(cluster: EmbeddedCluster, protocol: str) -> None:
    """Even though the next automatic commit is far away, and a handler works on another record."""
    await fill(cluster, 10)
    gate, others = Gate(), anyio.Event()
    async with (
        member(cluster, protocol, auto_commit_interval_ms=100_000) as consumer,
        until(consumer) as done,
        anyio.create_task_group() as tasks,
    ):

        async def handle(record: Record) -> None:
            if record.offset == 9:
                others.set()
                await gate.wait()

        with anyio.fail_after(WITHIN_S):
            tasks.start_soon(consumer.run, handle)
            await others.wait()
            cluster.create_topic("other")
            consumer.subscribe(["other"])
            await anyio.lowlevel.checkpoint()
            assert await committed(cluster, E0) in (None, 0)
            gate.open()
            await until_committed(cluster, E0, 10)
            done()


async def test_a_member_that_was_fenced_joins_again(cluster: EmbeddedCluster, protocol: str) -> None:
    """Records in progress are not committed, and come again."""
    await fill(cluster, 10)
    gate = Gate()
    seen: Counter[int] = Counter()
    async with member(cluster, protocol) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen[record.offset] += 1
            if record.offset == 4 and seen[4] == 1:
                api = "Heartbeat" if protocol == "classic" else "ConsumerGroupHeartbeat"
                cluster.faults.add(api, count=1, error_code=UnknownMemberIdError.code)
                await gate.wait()
            if record.offset == 9:
                done()

        with anyio.fail_after(WITHIN_S):
            await consumer.run(handle, order="partition")
    assert seen[4] == 2
    assert set(seen) == set(range(10))
    assert await committed(cluster, E0) == 10


async def test_a_stuck_handler_costs_the_membership(cluster: EmbeddedCluster, protocol: str) -> None:
    """max_poll_interval_ms counts handlers, not the reads that continue beside them."""
    await fill(cluster, 5)
    attempts: Counter[int] = Counter()
    async with member(cluster, protocol, max_poll_interval_ms=400) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            attempts[record.offset] += 1
            if record.offset == 2 and attempts[2] == 1:
                await anyio.sleep_forever()
            if record.offset == 4:
                done()

        with anyio.fail_after(WITHIN_S):
            await consumer.run(handle, order="partition")
    assert attempts[2] == 2
    assert await committed(cluster, E0) == 5


async def test_commit_within_a_run_stores_what_is_done(cluster: EmbeddedCluster, protocol: str) -> None:
    await fill(cluster, 10)
    gate, others = Gate(), anyio.Event()
    options: dict[str, Any] = {"auto_commit_interval_ms": 100_000}
    async with (
        member(cluster, protocol, **options) as consumer,
        until(consumer) as done,
        anyio.create_task_group() as tasks,
    ):

        async def handle(record: Record) -> None:
            if record.offset == 6:
                await gate.wait()
            if record.offset == 9:
                others.set()

        with anyio.fail_after(WITHIN_S):
            tasks.start_soon(consumer.run, handle)
            await others.wait()
            await consumer.commit()
            assert await committed(cluster, E0) == 6
            gate.open()
            done()


async def test_what_went_to_others_takes_no_room(cluster: EmbeddedCluster, protocol: str) -> None:
    """Stuck handlers of the first member take all its room when two other members join and take over."""
    for tp in EVENTS:
        await fill(cluster, 20, partition=tp.partition)
    handled: set[tuple[int, int]] = set()
    begun, unstuck, over = anyio.Event(), Gate(), anyio.Event()
    options = {"rebalance_timeout_ms": 400}

    async def handle(record: Record) -> None:
        begun.set()
        await unstuck.wait()
        handled.add((record.partition, record.offset))
        if len(handled) == 60:
            over.set()

    async def serve() -> None:
        async with member(cluster, protocol, **options) as consumer:
            consumers.append(consumer)
            await consumer.run(handle, concurrency=1, max_in_hand=4)

    consumers: list[Consumer[Any, Any]] = []
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await begun.wait()
            tasks.start_soon(serve)
            tasks.start_soon(serve)
            while len(consumers) < 3 or any(len(each.assignment()) != 1 for each in consumers):  # noqa: ASYNC110
                await anyio.sleep(0.02)
            unstuck.open()
            await over.wait()
            tasks.cancel_scope.cancel()


@again_if_late(4_000, 8_000)
async def test_records_before_those_that_were_begun_do_not_cost_the_membership(
    timeout_ms: int, cluster: EmbeddedCluster, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Handling all of them takes 20 s, longer than the rebalance waits."""
    caplog.clear()
    for tp in EVENTS:
        await fill(cluster, 400, keys=1, partition=tp.partition)
        await fill(cluster, 1, partition=tp.partition)
    begun: set[int] = set()

    async def handle(record: Record) -> None:
        if record.key is None:
            begun.add(record.partition)
            if len(begun) == len(EVENTS):
                behind_gaps.set()
        await anyio.sleep(0.05)  # the handler's work

    async def take(consumer: Consumer[Any, Any]) -> None:
        async with consumer:
            await consumer.run(handle)

    behind_gaps = anyio.Event()
    first = member(cluster, protocol, rebalance_timeout_ms=timeout_ms)
    second = member(cluster, protocol, rebalance_timeout_ms=timeout_ms)
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, first)
            await behind_gaps.wait()
            tasks.start_soon(take, second)
            while not second.assignment() or first.assignment() & second.assignment():  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
    assert not [line.message for line in caplog.records if ": lost " in line.getMessage()]


async def test_unsubscribe_ends_a_run_and_leaves_the_group(cluster: EmbeddedCluster, protocol: str) -> None:
    await fill(cluster, 10)
    gate, tenth = Gate(), anyio.Event()
    handled: list[int] = []

    async def handle(record: Record) -> None:
        if record.offset == 9:
            tenth.set()
            await gate.wait()
        handled.append(record.offset)

    async def unsubscribe() -> None:
        await tenth.wait()
        consumer.unsubscribe()
        await anyio.lowlevel.checkpoint()
        assert len(handled) == 9
        gate.open()

    with anyio.fail_after(WITHIN_S):
        async with member(cluster, protocol) as consumer, anyio.create_task_group() as tasks:
            tasks.start_soon(unsubscribe)
            await consumer.run(handle, order="partition")
            assert handled == list(range(10))
            with pytest.raises(IllegalStateError, match="nothing to read"):
                await consumer.run(handle)
            await until_committed(cluster, E0, 10)
            consumer.subscribe(["events"])
            await fill(cluster, 1)
            assert (await consumer.getone()).offset == 10
