"""`ShareConsumer.run` on an embedded cluster: a work queue."""

from __future__ import annotations

import anyio
import pytest

from aiokafka_lead import AcknowledgeType, Consumer, ConsumerRecord, Delivery, ShareRunOptions, TopicPartition
from aiokafka_lead.errors import ConfigTypeError, HandlerError, IllegalStateError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import Handled, Record, cluster_with_locks, consumer, fill, take, values

pytestmark = pytest.mark.anyio

QUICK: ShareRunOptions = {"retries": 2, "retry_backoff_ms": 1, "dead_letter_topic": "jobs.failed"}


async def test_every_record_is_handled_and_accepted(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "jobs", 300)
    handled = Handled()
    async with consumer(cluster.bootstrap_servers) as jobs, anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run, handled)
        await handled.until(300)
        await jobs.stop()
    assert values(handled.records) == list(range(300))
    async with consumer(cluster.bootstrap_servers) as jobs:
        await fill(cluster.bootstrap_servers, "jobs", 1, first=300)
        assert values(await take(jobs, 1)) == [300]


async def test_a_slow_record_holds_back_nobody(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "single", 100)
    handled, go_on = Handled(), anyio.Event()

    async def handle(record: Record) -> None:
        if record.offset == 0:
            await go_on.wait()
        handled.note(record)

    async with consumer(cluster.bootstrap_servers, "single") as jobs, anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run, handle)
        await handled.until(99)
        assert 0 not in values(handled.records)
        go_on.set()
        await handled.until(100)
        await jobs.stop()


@again_if_late(1_000, 5_000)
async def test_locks_are_renewed_while_handlers_work(lock_ms: int) -> None:
    """Beyond the duration of a lock, without a second delivery."""
    async with cluster_with_locks(lock_ms) as cluster:
        await fill(cluster.bootstrap_servers, "single", 3)
        handled = Handled()

        async def handle(record: Record) -> None:
            first = record.lock_expires_at
            await cluster.wait_for_requests(
                "ShareAcknowledge", count=4, timeout_ms=40_000
            )  # renewals alone, and no decision
            assert record.lock_expires_at > first + 0.5
            handled.note(record)

        async with consumer(cluster.bootstrap_servers, "single") as jobs, anyio.create_task_group() as tasks:
            tasks.start_soon(jobs.run, handle)
            await handled.until(3)
            await jobs.stop()
        assert [record.delivery_count for record in handled.records] == [1, 1, 1]
        assert len(handled.records) == 3


async def test_what_fails_is_delivered_again_and_then_a_dead_letter_with_its_cause(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "single", 3)
    handled = Handled()

    async def handle(record: Record) -> None:
        handled.note(record)
        if record.offset == 1:
            raise ValueError("one")

    letters: list[ConsumerRecord[bytes | None, bytes | None]] = []
    servers = cluster.bootstrap_servers
    async with consumer(servers, "single") as jobs, anyio.create_task_group() as tasks:

        async def run() -> None:
            await jobs.run(handle, **QUICK)

        tasks.start_soon(run)
        async with Consumer("jobs.failed", bootstrap_servers=servers, auto_offset_reset="earliest") as failed:
            letters.append(await failed.getone())
        await jobs.stop()
    (letter,) = letters
    assert [record.delivery_count for record in handled.records if record.offset == 1] == [1, 2, 3]
    headers = dict(letter.headers)
    assert letter.value == b"1"
    assert (headers["dead_letter.attempts"], headers["dead_letter.exception"]) == (b"3", b"ValueError")
    async with consumer(servers, "single") as jobs:
        assert await jobs.getmany(timeout_ms=300) == {}


async def test_without_dead_letters_it_is_rejected_and_the_others_go_on(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(cluster.bootstrap_servers, "single", 5)
    handled = Handled()

    async def handle(record: Record) -> None:
        if record.offset == 1:
            raise ValueError("one")
        handled.note(record)

    async with consumer(cluster.bootstrap_servers, "single") as jobs, anyio.create_task_group() as tasks:

        async def run() -> None:
            await jobs.run(handle, retries=0)

        tasks.start_soon(run)
        await handled.until(4)
        await jobs.stop()
    assert "offset 1 of single-0 could not be handled (attempt 1), and was rejected: ValueError('one')" in caplog.text


async def test_a_handler_may_acknowledge_its_record(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    await fill(cluster.bootstrap_servers, "single", 5)
    handled = Handled()
    async with consumer(cluster.bootstrap_servers, "single") as jobs, anyio.create_task_group() as tasks:

        async def handle(record: Record) -> None:
            jobs.acknowledge(record, AcknowledgeType.REJECT)
            handled.note(record)

        tasks.start_soon(jobs.run, handle)
        await handled.until(5)
        await jobs.stop()
    assert "lock was lost" not in caplog.text
    async with consumer(cluster.bootstrap_servers, "single") as jobs:
        assert await jobs.getmany(timeout_ms=300) == {}


async def test_a_dead_letter_that_is_refused_ends_the_run_and_its_record_comes_again(cluster: EmbeddedCluster) -> None:
    class Refusing:
        async def partitions_for(self, topic: str) -> frozenset[int]:
            return frozenset({0})

        async def send(self, *arguments: object, **options: object) -> Delivery:
            raise RuntimeError("full")

    async def fail(record: Record) -> None:
        raise ValueError(record.offset)

    await fill(cluster.bootstrap_servers, "single", 1)
    async with consumer(cluster.bootstrap_servers, "single") as jobs:
        with pytest.raises(HandlerError, match="full"):
            await jobs.run(fail, retries=0, dead_letter_topic="jobs.failed", dead_letter_producer=Refusing())
        (again,) = await take(jobs, 1)
        assert again.delivery_count == 2


async def test_a_stop_lets_handlers_end_and_releases_what_was_not_begun(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "single", 50)
    begun, handled, go_on = Handled(), Handled(), anyio.Event()

    async def handle(record: Record) -> None:
        begun.note(record)
        await go_on.wait()
        handled.note(record)

    jobs = consumer(cluster.bootstrap_servers, "single")
    await jobs.start()
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            await jobs.run(handle, concurrency=4)

        tasks.start_soon(run)
        await begun.until(4)
        tasks.start_soon(jobs.stop)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert len(handled.records) == len(begun.records) == 4
    async with consumer(cluster.bootstrap_servers, "single") as other:
        assert len(await take(other, 46)) == 46


async def test_a_handler_may_stop_its_consumer(cluster: EmbeddedCluster) -> None:
    """Records of handlers that do so are accepted, and no other ones begin."""
    await fill(cluster.bootstrap_servers, "single", 9)
    seen: list[int] = []
    jobs = consumer(cluster.bootstrap_servers, "single")
    await jobs.start()
    all_begun = anyio.Event()

    async def handle(record: Record) -> None:
        seen.append(record.offset)
        if len(seen) == 3:
            all_begun.set()
        await all_begun.wait()
        await jobs.stop()

    with anyio.fail_after(20):
        await jobs.run(handle, concurrency=3)
    assert len(seen) == 3
    async with consumer(cluster.bootstrap_servers, "single") as other:
        assert {record.offset for record in await take(other, 6)} == {*range(9)} - {*seen}


async def test_a_stop_bounds_the_end_of_a_run_that_was_unsubscribed(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "single", 1)
    begun, cancelled = anyio.Event(), anyio.Event()

    async def handle(record: Record) -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    jobs = consumer(cluster.bootstrap_servers, "single")
    await jobs.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run, handle)
        await begun.wait()
        jobs.unsubscribe()
        await anyio.wait_all_tasks_blocked()
        await jobs.stop(1_000)
        assert cancelled.is_set()


async def test_a_cancelled_run_releases_everything_in_hand(cluster: EmbeddedCluster) -> None:
    await fill(cluster.bootstrap_servers, "single", 10)
    begun = Handled()

    async def handle(record: Record) -> None:
        begun.note(record)
        await anyio.sleep_forever()

    async with consumer(cluster.bootstrap_servers, "single") as jobs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(jobs.run, handle)
            await begun.until(10)
            tasks.cancel_scope.cancel()
        again = await take(jobs, 10)
    assert values(again) == list(range(10))
    assert {record.delivery_count for record in again} == {2}


async def test_deserializers_run_in_the_handlers_task_and_what_they_refuse_is_a_dead_letter(
    cluster: EmbeddedCluster,
) -> None:
    await fill(cluster.bootstrap_servers, "single", 3)
    got: list[object] = []

    async def number(content: bytes) -> int:
        if content == b"1":
            raise ValueError("one")
        return int(content)

    async def handle(record: Record) -> None:
        got.append(record.value)

    servers = cluster.bootstrap_servers
    async with (
        consumer(servers, "single", value_deserializer=number) as jobs,
        anyio.create_task_group() as tasks,
    ):

        async def run() -> None:
            await jobs.run(handle, dead_letter_topic="jobs.failed")

        tasks.start_soon(run)
        async with Consumer("jobs.failed", bootstrap_servers=servers, auto_offset_reset="earliest") as failed:
            assert (await failed.getone()).value == b"1"
        await jobs.stop()
    assert sorted(map(str, got)) == ["0", "2"]


async def test_leaders_move_and_every_record_is_handled(cluster: EmbeddedCluster) -> None:
    handled = Handled()
    servers = cluster.bootstrap_servers
    async with consumer(servers) as one, consumer(servers) as two, anyio.create_task_group() as tasks:
        tasks.start_soon(one.run, handled)
        tasks.start_soon(two.run, handled)
        for step in range(5):
            await fill(servers, "jobs", 60, first=60 * step)
            cluster.move_all_leaders("jobs")
            await handled.until(60 * (step + 1))
        await one.stop()
        await two.stop()


async def test_one_run_at_a_time_and_an_async_handler(cluster: EmbeddedCluster) -> None:
    handled = Handled()

    def handle(record: Record) -> str:
        return "no coroutine"

    async with consumer(cluster.bootstrap_servers, "single") as jobs:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(jobs.run, handled)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(IllegalStateError, match="already running"):
                await jobs.run(handled)
            tasks.cancel_scope.cancel()
        await fill(cluster.bootstrap_servers, "single", 1)
        with pytest.raises(ConfigTypeError, match="async"):
            await jobs.run(handle)  # type: ignore[arg-type]
        assert [record.delivery_count for record in await take(jobs, 1)] == [2]
    assert cluster.end_offset(*TopicPartition("single", 0)) == 1
