"""`Consumer.run`: handling of records, in order and in parallel, and commits."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from aiokafka_lead import Client, ConsumerRecord, Producer
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import ConfigError, ConfigTypeError, IllegalStateError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import E0, EVENTS, Gate, committed, fill, runner_of, until, until_committed

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

Record = ConsumerRecord[Any, Any]


@pytest.mark.parametrize("order", ["key", "partition", "none"])
async def test_everything_is_handled_once_and_committed(cluster: EmbeddedCluster, order: Any) -> None:
    for tp in EVENTS:
        await fill(cluster, 200, keys=7, partition=tp.partition)
    seen: list[tuple[int, int]] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            if record.offset % 3 == 0:
                await anyio.lowlevel.checkpoint()
            seen.append((record.partition, record.offset))
            if len(seen) == 600:
                done()

        await consumer.run(handle, order=order)
    assert sorted(seen) == [(tp.partition, offset) for tp in EVENTS for offset in range(200)]
    assert [await committed(cluster, tp) for tp in EVENTS] == [200, 200, 200]


async def test_records_of_one_key_are_handled_in_order_and_of_others_at_once(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 60, keys=4)
    at_work: set[bytes] = set()
    most = 0
    last: dict[bytes, int] = defaultdict(lambda: -1)
    seen = 0
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            nonlocal most, seen
            assert record.key not in at_work
            assert last[record.key] < record.offset
            at_work.add(record.key)
            most = max(most, len(at_work))
            await anyio.lowlevel.checkpoint()
            at_work.remove(record.key)
            last[record.key] = record.offset
            seen += 1
            if seen == 60:
                done()

        await consumer.run(handle)
    assert most == 4


async def test_no_more_handlers_than_allowed_at_once(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 50)
    at_work = most = seen = 0
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            nonlocal at_work, most, seen
            at_work += 1
            most = max(most, at_work)
            await anyio.lowlevel.checkpoint()
            at_work -= 1
            seen += 1
            if seen == 50:
                done()

        await consumer.run(handle, concurrency=5, order="none")
    assert most == 5


async def test_a_partition_in_order_has_one_handler_at_a_time(cluster: EmbeddedCluster) -> None:
    for tp in EVENTS:
        await fill(cluster, 20, partition=tp.partition)
    at_work: set[int] = set()
    seen: dict[int, list[int]] = defaultdict(list)
    most = 0
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            nonlocal most
            assert record.partition not in at_work
            at_work.add(record.partition)
            most = max(most, len(at_work))
            await anyio.lowlevel.checkpoint()
            at_work.remove(record.partition)
            seen[record.partition].append(record.offset)
            if sum(map(len, seen.values())) == 60:
                done()

        await consumer.run(handle, order="partition")
    assert all(seen[tp.partition] == list(range(20)) for tp in EVENTS)
    assert most == 3


async def test_a_commit_does_not_pass_a_record_that_is_not_done(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 100)
    gate = Gate()
    async with runner_of(cluster, auto_commit_interval_ms=10) as consumer, until(consumer) as done:
        handled: set[int] = set()

        async def handle(record: Record) -> None:
            if record.offset == 30:
                await gate.wait()
            handled.add(record.offset)
            if len(handled) == 99:
                others.set()

        others = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handle)
            await others.wait()
            await until_committed(cluster, E0, 30)
            gate.open()
            await until_committed(cluster, E0, 100)
            done()


async def test_a_cancelled_run_commits_what_is_done_and_cancels_handlers(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 20)
    at_work = cancelled = 0
    async with runner_of(cluster) as consumer:
        with anyio.CancelScope() as scope:

            async def handle(record: Record) -> None:
                nonlocal at_work, cancelled
                if record.offset < 5 or record.offset == 8:
                    return
                at_work += 1
                if at_work == 14:
                    scope.cancel()
                try:
                    await anyio.sleep_forever()
                except anyio.get_cancelled_exc_class():
                    cancelled += 1
                    raise

            await consumer.run(handle, order="none")
        assert cancelled == 14
        assert await committed(cluster, E0) == 5
        # A task that reads on gets every unfinished record, even ones handed out before.
        assert (await consumer.getone()).offset == 5
    assert await committed(cluster, E0) in (5, 6)


async def test_stop_waits_for_handlers(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 10)
    gate = Gate()
    consumer = runner_of(cluster)
    await consumer.start()
    handled = 0
    full = anyio.Event()

    async def handle(record: Record) -> None:
        nonlocal handled
        if record.offset == 9:
            full.set()
        await gate.wait()
        handled += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handle)
        await full.wait()
        tasks.start_soon(consumer.stop)
        await anyio.lowlevel.checkpoint()
        gate.open()
    assert handled == 10
    assert await committed(cluster, E0) == 10


async def test_stop_leaves_no_gap_before_what_was_handled(cluster: EmbeddedCluster) -> None:
    """Commits cannot pass a gap, so everything after it would come again."""
    await fill(cluster, 100, keys=2)
    handled: list[int] = []
    async with runner_of(cluster) as consumer, anyio.create_task_group() as tasks:
        gate, others_done = Gate(), anyio.Event()

        async def handle(record: Record) -> None:
            if record.offset == 0:
                await gate.wait()
            handled.append(record.offset)
            if record.offset == 51:
                tasks.start_soon(consumer.stop)
                others_done.set()

        tasks.start_soon(consumer.run, handle)
        await others_done.wait()
        await anyio.wait_all_tasks_blocked()
        gate.open()
    assert handled[:26] == list(range(1, 53, 2))
    assert sorted(handled) == list(range(len(handled)))
    assert len(handled) >= 52
    assert await committed(cluster, E0) == len(handled)


@again_if_late(400, 8_000)
async def test_stop_ends_with_a_handler_that_does_not(
    timeout_ms: int, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(cluster, 10, size=100)
    stuck = anyio.Event()
    async with runner_of(cluster) as consumer:

        async def handle(record: Record) -> None:
            if record.offset == 3:
                stuck.set()
                await anyio.sleep_forever()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, handle)
                await stuck.wait()
                await consumer.stop(timeout_ms=timeout_ms)  # a part of it is for the last commit
    assert await committed(cluster, E0) == 3
    assert "the record at offset 3 of events-0 took too long" in caplog.text
    assert "0" * 99 + "3" not in caplog.text


@again_if_late(4000, 4000, 4000)
async def test_stop_keeps_its_time_with_no_broker_left(within_ms: int, cluster: EmbeddedCluster) -> None:
    await fill(cluster, 10)
    async with runner_of(cluster) as consumer:
        busy = anyio.Event()

        async def handle(record: Record) -> None:
            busy.set()
            await anyio.sleep(0.01)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handle)
            await busy.wait()
            await cluster.kill_broker(1)
            try:
                with anyio.fail_after(within_ms / 1000):  # without a limit the last commit alone takes five seconds
                    await consumer.stop(timeout_ms=1000)
            finally:
                await cluster.start_broker(1)
            tasks.cancel_scope.cancel()


async def test_a_handler_may_stop_the_consumer(cluster: EmbeddedCluster) -> None:
    """Its own record is done, and no other one begins."""
    await fill(cluster, 10)
    seen: list[int] = []
    consumer = runner_of(cluster)
    await consumer.start()

    async def handle(record: Record) -> None:
        seen.append(record.offset)
        if record.offset == 4:
            await consumer.stop()

    with anyio.fail_after(20):
        await consumer.run(handle, order="partition")
    assert not consumer.health().live  # the stop has ended with the run
    assert seen == [0, 1, 2, 3, 4]
    assert await committed(cluster, E0) == 5


@pytest.mark.parametrize("how", ["itself", "a task", "a thread", "the client"])
async def test_handlers_that_stop_the_consumer_do_not_wait_for_each_other(cluster: EmbeddedCluster, how: str) -> None:
    await fill(cluster, 6)
    at_work = anyio.Semaphore(0)
    client = Client(cluster.bootstrap_servers)
    consumer: Consumer[Any, Any] = client.consumer("events", group_id="g", auto_offset_reset="earliest")

    async def stop() -> None:
        await (client.stop() if how == "the client" else consumer.stop())

    async def handle(record: Record) -> None:
        if record.offset < 5:
            await at_work.acquire()
        else:
            for _ in range(5):
                at_work.release()
        if how == "a task":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stop)
        elif how == "a thread":
            await anyio.to_thread.run_sync(anyio.from_thread.run, stop)
        else:
            await stop()

    async with client, consumer:
        with anyio.fail_after(20):
            await consumer.run(handle, order="none")
    assert await committed(cluster, E0) == 6


async def test_keys_and_values_are_deserialized(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 3, keys=3)
    seen: list[tuple[str, int]] = []
    options: dict[str, Any] = {"key_deserializer": bytes.decode, "value_deserializer": int}
    async with runner_of(cluster, **options) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append((record.key, record.value))
            if len(seen) == 3:
                done()

        await consumer.run(handle)
    assert sorted(seen) == [("0", 0), ("1", 1), ("2", 2)]


async def test_without_a_group_nothing_is_committed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 3)
    async with runner_of(cluster, group_id=None) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            if record.offset == 2:
                done()

        await consumer.run(handle)
    assert cluster.requests.count("OffsetCommit") == 0


async def test_a_seek_back_hands_records_out_again(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 10)
    seen: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append(record.offset)
            if seen.count(9) == 1 and record.offset == 9:
                consumer.seek(E0, 7)
            elif seen.count(9) == 2:
                done()

        await consumer.run(handle, order="partition")
    assert seen == [*range(10), 7, 8, 9]
    assert await committed(cluster, E0) == 10


async def test_bounds_on_what_is_in_hand(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 300)
    await fill(cluster, 300, partition=1)
    gate = Gate()
    async with runner_of(cluster) as consumer, until(consumer) as done:
        handled = [0, 0]

        async def handle(record: Record) -> None:
            if record.partition == 0:
                await gate.wait()
            handled[record.partition] += 1
            if record.partition == 1 and handled[1] == 300:
                # A stuck partition keeps no more than its share, and does not delay the rest.
                assert await consumer.position(E0) <= 15
                gate.open()
            if handled == [300, 300]:
                done()

        with anyio.fail_after(20):
            await consumer.run(handle, concurrency=4, max_in_hand=30, order="partition")


async def test_bounds_on_bytes(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 40, size=50_000)
    gate = Gate()
    first = anyio.Event()
    async with runner_of(cluster) as consumer, until(consumer) as done:
        handled = 0

        async def handle(record: Record) -> None:
            nonlocal handled
            first.set()
            await gate.wait()
            handled += 1
            if handled == 40:
                done()

        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await consumer.run(handle, concurrency=1, max_in_hand=1000, max_in_hand_bytes=500_000)

            tasks.start_soon(run)
            await first.wait()
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            assert await consumer.position(E0) <= 20
            gate.open()


async def test_wrong_use_is_told(cluster: EmbeddedCluster) -> None:
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            with pytest.raises(IllegalStateError, match="already running"):
                await consumer.run(handle)
            done()

        with pytest.raises(ConfigTypeError, match="handler"):
            await consumer.run(None)  # type: ignore[arg-type]
        with pytest.raises(ConfigTypeError, match="concurency"):
            await consumer.run(handle, concurency=3)  # type: ignore[call-arg]
        with pytest.raises(ConfigError, match="order"):
            await consumer.run(handle, order="random")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="dead_letter_topic"):
            await consumer.run(handle, dead_letter_producer=Producer(cluster.bootstrap_servers))
        await fill(cluster, 1)
        await consumer.run(handle)


async def test_a_function_that_is_not_async_is_told_before_any_record(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 100)
    seen: list[int] = []

    def handle(record: Record) -> None:
        seen.append(record.offset)

    consumer: Consumer[Any, Any]
    async with runner_of(cluster) as consumer:
        with pytest.raises(ConfigTypeError, match=r"handler must be an async function: .*handle is a plain function"):
            await consumer.run(handle)  # type: ignore[arg-type]
    assert seen == []
    assert not await committed(cluster, E0)


@pytest.mark.parametrize("deserializer", [None, int])
async def test_a_function_that_returns_nothing_to_await_is_called_once(
    cluster: EmbeddedCluster, deserializer: Any
) -> None:
    """Without retries and dead letters, which would affect every record."""
    await fill(cluster, 100)
    seen: list[int] = []

    def handle(record: Record) -> int:
        seen.append(record.offset)
        return record.offset

    async with runner_of(cluster, value_deserializer=deserializer) as consumer:
        with pytest.raises(ConfigTypeError, match="handle returned int, which cannot be awaited"):
            await consumer.run(handle, order="none", dead_letter_topic="failed")  # type: ignore[arg-type]
        assert seen == [0]
        assert (await consumer.getone()).offset == 0
    assert cluster.records("failed") == []


async def test_a_function_that_returns_coroutines_is_a_handler(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 20)
    seen: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record, into: list[int]) -> None:
            into.append(record.offset)
            if len(into) == 20:
                done()

        await consumer.run(lambda record: handle(record, seen))
    assert sorted(seen) == list(range(20))


async def test_unsubscribe_ends_a_run_that_waits_for_records(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    async with runner_of(cluster, group_id=None) as consumer:

        async def handle(record: Record) -> None:
            consumer.unsubscribe()
            await anyio.lowlevel.checkpoint()

        with anyio.fail_after(20):
            await consumer.run(handle)
            consumer.assign([E0])
            assert (await consumer.getone()).offset == 0


async def test_stop_bounds_the_end_of_a_run_that_was_unsubscribed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    async with runner_of(cluster, group_id=None) as consumer, anyio.create_task_group() as tasks:

        async def handle(record: Record) -> None:
            consumer.unsubscribe()
            tasks.start_soon(consumer.stop, 500)
            await anyio.sleep_forever()

        with anyio.fail_after(20):
            await consumer.run(handle)


@pytest.mark.parametrize("bounds", [{"max_in_hand": 1}, {"max_in_hand": 10, "max_in_hand_bytes": 20}])
async def test_bounds_that_are_less_than_a_record_let_one_through(
    cluster: EmbeddedCluster, bounds: dict[str, int]
) -> None:
    await fill(cluster, 5, size=100)
    handled: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            handled.append(record.offset)
            if record.offset == 4:
                done()

        with anyio.fail_after(20):
            await consumer.run(handle, **bounds)  # type: ignore[arg-type]
    assert handled == [0, 1, 2, 3, 4]
