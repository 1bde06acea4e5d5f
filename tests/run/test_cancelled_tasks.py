"""`Consumer.run` if the task of a handler is cancelled, or raises to end the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from typing import Any

import anyio
import pytest

from aiokafka_lead import ConsumerRecord, Producer
from aiokafka_lead.errors import BackgroundTaskError, HandlerError
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, committed, fill, runner_of, until

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

Record = ConsumerRecord[Any, Any]
FAST: dict[str, Any] = {"retry_backoff_ms": 5}

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""trio cancels tasks by their scopes only."""


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


@on_asyncio
@pytest.mark.parametrize("order", ["key", "none"])
async def test_a_registry_that_cancels_a_handlers_task_has_made_that_record_fail(
    cluster: EmbeddedCluster, order: Any
) -> None:
    await fill(cluster, 300, keys=300)
    jobs: dict[int, asyncio.Task[Any]] = {}
    seen: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            first = record.offset not in jobs
            jobs[record.offset] = this_task()
            if record.offset == 20 and first:
                await anyio.sleep_forever()
            if record.offset == 25 and first:
                jobs[20].cancel()
            await asyncio.sleep(0)
            seen.append(record.offset)
            if len(seen) == 300:
                done()

        with anyio.fail_after(20):
            await consumer.run(handle, order=order, **FAST)
    assert sorted(seen) == list(range(300))
    assert await committed(cluster, E0) == 300


@on_asyncio
@pytest.mark.parametrize("waits", [True, False])
async def test_a_handler_that_cancels_its_own_task_has_failed(cluster: EmbeddedCluster, waits: bool) -> None:
    """Even if it returns before asyncio can raise the cancellation: the next record is not affected."""
    await fill(cluster, 10)
    calls: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            calls.append(record.offset)
            if record.offset == 3 and calls.count(3) == 1:
                this_task().cancel()
                if not waits:
                    return
            await asyncio.sleep(0)
            if len(calls) == 11:
                done()

        with anyio.fail_after(20):
            await consumer.run(handle, order="partition", **FAST)
    assert calls == [0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9]
    assert await committed(cluster, E0) == 10


@on_asyncio
async def test_a_handler_that_swallows_its_cancellation_has_not_failed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 10)
    calls: list[int] = []
    cancellations: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            calls.append(record.offset)
            cancellations.append(this_task().cancelling())
            if record.offset == 3:
                this_task().cancel()
                try:
                    await asyncio.sleep(0)
                except asyncio.CancelledError:
                    pass
            if len(calls) == 10:
                done()

        with anyio.fail_after(20):
            await consumer.run(handle, order="partition", **FAST)
    assert calls == list(range(10))
    assert cancellations == [0] * 10


@on_asyncio
async def test_a_task_that_is_cancelled_between_two_records_is_replaced(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    tasks: set[asyncio.Task[Any]] = set()
    before: set[asyncio.Task[Any]] = set()
    seen: list[int] = []
    five = anyio.Event()
    async with runner_of(cluster) as consumer, until(consumer) as done, anyio.create_task_group() as group:

        async def handle(record: Record) -> None:
            tasks.add(this_task())
            await asyncio.sleep(0)
            seen.append(record.offset)
            if len(seen) == 5:
                five.set()
            if len(seen) == 10:
                done()

        async def run() -> None:
            await consumer.run(handle, concurrency=2, **FAST)

        with anyio.fail_after(20):
            group.start_soon(run)
            await five.wait()
            before |= tasks
            for task in before:
                while not task.done():  # they wait for records
                    task.cancel()
                    await asyncio.sleep(0)
            await fill(cluster, 5)
            while len(seen) < 10:  # noqa: ASYNC110
                await anyio.sleep(0.005)
    assert sorted(seen) == list(range(10))
    assert tasks - before
    assert await committed(cluster, E0) == 10


@on_asyncio
async def test_a_cancelled_task_without_retries_left_ends_the_run_with_an_error(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 30)
    async with runner_of(cluster) as consumer:

        async def handle(record: Record) -> None:
            if record.offset == 20:
                this_task().cancel()
                await anyio.sleep_forever()

        with anyio.fail_after(20), pytest.raises(HandlerError, match=r"offset 20 of events-0 .*CancelledError"):
            await consumer.run(handle, retries=0, order="partition")
    assert await committed(cluster, E0) == 20


@on_asyncio
async def test_a_cancelled_task_sends_a_dead_letter_even_if_it_is_cancelled_again(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)

    class Registry:
        """A producer whose task is cancelled a second time while it sends."""

        def __init__(self, producer: Producer[Any, Any]) -> None:
            self._producer = producer
            self.partitions_for = producer.partitions_for
            self.asked = 0

        async def send(self, *args: Any, **options: Any) -> Any:
            self.asked += 1
            if self.asked == 1:
                this_task().cancel()
            return await self._producer.send(*args, **options)

    async with (
        Producer(cluster.bootstrap_servers, linger_ms=0) as producer,
        runner_of(cluster) as consumer,
        until(consumer) as done,
    ):
        registry: Any = Registry(producer)
        seen: list[int] = []

        async def handle(record: Record) -> None:
            if record.offset == 2:
                this_task().cancel()
                await anyio.sleep_forever()
            seen.append(record.offset)
            if record.offset == 4:
                done()

        options: Any = {"dead_letter_topic": "failed", "dead_letter_producer": registry}
        with anyio.fail_after(20):
            await consumer.run(handle, retries=0, order="partition", **options)
    assert seen == [0, 1, 3, 4]
    letters = cluster.records("failed")
    assert {letter.value for letter in letters} == {b"2"}
    assert dict(letters[0].headers)["dead_letter.exception"] == b"asyncio.exceptions.CancelledError"
    assert await committed(cluster, E0) == 5


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_run_whose_own_tasks_are_cancelled_says_so(cluster: EmbeddedCluster) -> None:
    """Returning would end a service with exit status 0."""
    import trio

    await fill(cluster, 5)
    async with runner_of(cluster) as consumer:

        async def handle(record: Record) -> None:
            nursery = trio.lowlevel.current_task().parent_nursery
            assert nursery is not None
            nursery.cancel_scope.cancel()
            await anyio.sleep_forever()

        with anyio.fail_after(20), pytest.raises(BackgroundTaskError, match="cancelled"):
            await consumer.run(handle, order="partition")
        assert (await consumer.getone()).offset == 0


class Odd(BaseException):
    """Error that `except Exception` lets pass, as pytest and other frameworks raise them."""


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, Odd])
async def test_a_handler_that_exits_ends_the_run_in_order(cluster: EmbeddedCluster, kind: type[BaseException]) -> None:
    await fill(cluster, 100)
    seen: list[int] = []
    async with runner_of(cluster) as consumer:

        async def handle(record: Record) -> None:
            seen.append(record.offset)
            if record.offset == 20:
                raise kind(3)
            await anyio.lowlevel.checkpoint()

        with anyio.fail_after(20), pytest.raises(kind) as caught:
            await consumer.run(handle, order="partition")
        assert caught.value.args == (3,)
        assert seen == list(range(21))
        assert await committed(cluster, E0) == 20
        assert (await consumer.getone()).offset == 20


def test_an_exit_in_a_handler_ends_the_process_without_a_warning(anyio_backend: str) -> None:
    script = """
        import sys, anyio
        from aiokafka_lead import Consumer, Producer
        from aiokafka_lead.testing import EmbeddedCluster

        async def handle(record):
            if record.offset == 20:
                sys.exit(3)
            await anyio.lowlevel.checkpoint()

        async def main():
            async with EmbeddedCluster(1) as cluster:
                cluster.create_topic("t")
                async with Producer(cluster.bootstrap_servers) as producer:
                    await producer.send_many("t", [b"v"] * 100)
                options = {"group_id": "g", "auto_offset_reset": "earliest"}
                async with Consumer("t", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
                    await consumer.run(handle)

        anyio.run(main, backend=sys.argv[1])
        """
    command = [sys.executable, "-W", "default", "-c", textwrap.dedent(script), anyio_backend]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = ended.stderr.splitlines()
    assert "never awaited" not in ended.stderr
    assert "ResourceWarning" not in ended.stderr
    if anyio_backend == "asyncio":  # trio's nurseries wrap it, so the process ends with their traceback
        assert (ended.returncode, said) == (3, [])
