"""`Consumer.run` with handlers that fail: retries, dead letters, errors."""

from __future__ import annotations

import asyncio
import os
import re
import time
from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest

from aiokafka_lead import (
    DEAD_LETTER_HEADERS,
    Consumer,
    ConsumerRecord,
    Handlers,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from aiokafka_lead.errors import (
    ConfigError,
    HandlerError,
    InvalidRecordError,
    KafkaError,
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import E0, E1, Gate, committed, fill, runner_of, until, until_committed

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]
FAST: dict[str, Any] = {"retry_backoff_ms": 5}


class CannotHandleError(Exception):
    """Error raised by handlers here."""


async def test_a_record_is_handled_again(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 10)
    seen: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append(record.offset)
            if record.offset == 3 and seen.count(3) < 4:
                raise CannotHandleError
            if len(seen) == 13:
                done()

        await consumer.run(handle, **FAST)
    assert seen.count(3) == 4
    assert sorted(set(seen)) == list(range(10))
    assert await committed(cluster, E0) == 10


@pytest.mark.parametrize(("order", "held_up"), [("key", [3, 7]), ("partition", [3, 4, 5, 6, 7, 8, 9]), ("none", [3])])
async def test_only_what_is_behind_a_failed_record_waits(cluster: EmbeddedCluster, order: Any, held_up: Any) -> None:
    """With order by key, only records of that key. Another partition always continues."""
    await fill(cluster, 10, keys=4)
    await fill(cluster, 10, keys=4, partition=1)
    handled: dict[int, list[int]] = {0: [], 1: []}
    async with runner_of(cluster) as consumer, until(consumer) as done:
        failed = False

        async def handle(record: Record) -> None:
            nonlocal failed
            if record.partition == 0 and record.offset == 3 and not failed:
                failed = True
                raise CannotHandleError
            handled[record.partition].append(record.offset)
            if len(handled[0]) == len(handled[1]) == 10:
                done()

        await consumer.run(handle, order=order, retry_backoff_ms=1000)
    assert sorted(handled[0][-len(held_up) :]) == held_up
    assert sorted(handled[1]) == list(range(10))


async def test_a_record_that_waits_takes_no_handlers_place(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 20)
    seen: list[int] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append(record.offset)
            if record.offset == 0 and seen.count(0) == 1:
                raise CannotHandleError
            if len(seen) == 21:
                done()

        await consumer.run(handle, order="none", concurrency=1, retry_backoff_ms=1000)
    assert sorted(seen) == [0, *range(20)]
    assert seen.index(0, 1) > 1


async def test_the_backoff_grows_up_to_its_bound(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    times: list[float] = []
    async with runner_of(cluster) as consumer:

        async def handle(record: Record) -> None:
            times.append(time.monotonic())
            raise CannotHandleError

        with pytest.raises(HandlerError):
            await consumer.run(handle, retries=4, retry_backoff_ms=20, retry_backoff_max_ms=80)
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert len(waits) == 4
    assert all(wait >= least for wait, least in zip(waits, [0.016, 0.032, 0.064, 0.064], strict=True))


async def test_without_a_dead_letter_topic_the_run_ends(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 20)
    async with runner_of(cluster) as consumer:
        attempts = 0

        async def handle(record: Record) -> None:
            nonlocal attempts
            if record.offset == 7:
                attempts += 1
                raise CannotHandleError("seven")
            if record.offset == 8:
                await anyio.sleep_forever()

        with (
            anyio.fail_after(20),
            pytest.raises(HandlerError, match=r"offset 7 of events-0 .*3 attempts.*seven") as info,
        ):
            await consumer.run(handle, retries=2, **FAST)
        assert attempts == 3
        assert (info.value.record.offset, info.value.attempts) == (7, 3)
        assert isinstance(info.value.__cause__, CannotHandleError)
        assert await committed(cluster, E0) == 7
        assert (await consumer.getone()).offset == 7


async def test_dead_letters(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait(
            "events", b"bad", key=b"k", partition=1, timestamp_ms=1_700_000_000_000, headers=[("trace", b"t")]
        )
        await producer.send_and_wait("events", b"good", key=b"k", partition=1)
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            if record.value == b"bad":
                raise CannotHandleError("no way")
            done()

        await consumer.run(handle, retries=1, dead_letter_topic="failed", **FAST)
    [letter] = cluster.records("failed")
    assert (letter.key, letter.value) == (b"k", b"bad")
    assert letter.headers[0] == ("trace", b"t")
    assert tuple(name for name, _ in letter.headers[1:]) == DEAD_LETTER_HEADERS
    *told, (_, frames) = letter.headers[1:]
    assert frames is not None
    assert re.search(rb"test_failures.py:\d+ in handle$", frames)
    assert [value for _, value in told] == [
        b"events",
        b"1",
        b"0",
        b"1700000000000",
        b"g",
        b"2",
        f"{CannotHandleError.__module__}.CannotHandleError".encode(),
        b"no way",
    ]
    assert await committed(cluster, E1) == 2


async def test_a_record_is_done_when_its_dead_letter_is_acknowledged(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 5)
    gate = Gate()

    class SlowProducer:
        """A producer with a slow broker."""

        def __init__(self, producer: Producer[Any, Any]) -> None:
            self._producer = producer
            self.partitions_for = producer.partitions_for
            self.asked = anyio.Event()

        async def send(self, *args: Any, **options: Any) -> Any:
            self.asked.set()
            await gate.wait()
            return await self._producer.send(*args, **options)

    async with (
        Producer(cluster.bootstrap_servers) as producer,
        runner_of(cluster, auto_commit_interval_ms=5) as consumer,
        until(consumer) as done,
        anyio.create_task_group() as tasks,
    ):
        slow: Any = SlowProducer(producer)

        async def handle(record: Record) -> None:
            if record.offset == 2:
                raise CannotHandleError

        async def run() -> None:
            options: Any = {"dead_letter_topic": "failed", "dead_letter_producer": slow}
            await consumer.run(handle, retries=0, order="none", **options)

        tasks.start_soon(run)
        await slow.asked.wait()
        await until_committed(cluster, E0, 2)
        gate.open()
        await until_committed(cluster, E0, 5)
        done()
    assert len(cluster.records("failed")) == 1


@pytest.mark.parametrize("stops_first", [False, True])
async def test_dead_letters_on_their_way_occupy_no_handlers_and_a_stop_waits_for_them(
    cluster: EmbeddedCluster, stops_first: bool
) -> None:
    await fill(cluster, 5)
    fault = cluster.faults.add("Produce", topic="failed", error_code=NotLeaderOrFollowerError)
    seen: list[int] = []
    async with runner_of(cluster) as consumer, anyio.create_task_group() as tasks:
        handled = anyio.Event()

        async def handle(record: Record) -> None:
            if record.offset < 2:
                raise CannotHandleError
            seen.append(record.offset)
            if record.offset == 4:
                handled.set()

        options: Any = {"retries": 0, "order": "none", "concurrency": 1, "dead_letter_topic": "failed"}
        tasks.start_soon(partial(consumer.run, handle, **options))
        with anyio.fail_after(20):
            await handled.wait()
            if stops_first:
                tasks.start_soon(consumer.stop)
                await anyio.wait_all_tasks_blocked()
            fault.remove()
            await consumer.stop()
    assert seen == [2, 3, 4]
    assert [letter.value for letter in cluster.records("failed")] == [b"0", b"1"]
    assert await committed(cluster, E0) == 5


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
def test_an_acknowledged_dead_letter_stops_no_other_record(anyio_backend: str) -> None:
    """It is acknowledged outside of any task, where no task for a handler can be created, except under `anyio.run`."""
    asyncio.run(_acknowledged_while_a_handler_works())


async def _acknowledged_while_a_handler_works() -> None:
    gate, handling = Gate(), anyio.Event()
    async with EmbeddedCluster() as cluster:
        for topic in ("events", "failed"):
            cluster.create_topic(topic, partitions=3)
        fault = cluster.faults.add("Produce", topic="failed", error_code=NotLeaderOrFollowerError, count=None)

        async def go_on() -> None:
            await fill(cluster, 1)
            while not fault.struck:
                await cluster.wait_for_requests("Produce", count=cluster.requests.count("Produce") + 1)
            await fill(cluster, 1, partition=1)
            await handling.wait()
            fault.remove()
            await until_committed(cluster, E0, 1)
            await fill(cluster, 1, partition=2)

        async with runner_of(cluster, auto_commit_interval_ms=20) as consumer, until(consumer) as done:

            async def handle(record: Record) -> None:
                if record.partition == 0:
                    raise LookupError
                if record.partition == 1:
                    handling.set()
                    await gate.wait()
                else:
                    gate.open()
                    done()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(go_on)
                await asyncio.wait_for(consumer.run(handle, retries=0, dead_letter_topic="failed"), 30)


async def test_a_dead_letter_that_is_refused_ends_the_run(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 3)
    cluster.faults.add("Produce", topic="failed", count=None, error_code=TopicAuthorizationFailedError.code)
    async with runner_of(cluster) as consumer:

        async def handle(record: Record) -> None:
            raise CannotHandleError("first cause")

        with pytest.raises(HandlerError, match=r"first cause.*not accepted by failed") as info:
            await consumer.run(handle, retries=0, order="partition", dead_letter_topic="failed")
        assert isinstance(info.value.__cause__, KafkaError)
    assert not await committed(cluster, E0)


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_the_record_whose_dead_letter_is_refused_is_named(cluster: EmbeddedCluster, exactly_once: bool) -> None:
    """A broker refuses the letters of other records together with it."""
    cluster.create_topic("letters", 1, configs={"cleanup.policy": "compact"})
    async with Producer(cluster.bootstrap_servers) as producer:
        for key in (b"a", b"b", None, b"c"):
            await producer.send_and_wait("events", b"v", key, 0)
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t", linger_ms=100) as producer,
        runner_of(cluster) as consumer,
    ):

        async def handle(record: Record, *txn: Any) -> None:
            raise CannotHandleError

        options: Any = {"exactly_once": producer, "retry_backoff_ms": 1} if exactly_once else {}
        with anyio.fail_after(30), pytest.raises(HandlerError, match="not accepted by letters") as info:
            await consumer.run(handle, retries=0, dead_letter_topic="letters", **options)
    assert info.value.record.offset == 2
    assert isinstance(info.value.__cause__, InvalidRecordError)


@again_if_late(1_000, 8_000)
async def test_a_dead_letter_topic_that_is_missing_is_told_at_once(time_ms: int, cluster: EmbeddedCluster) -> None:
    async with (
        Producer(cluster.bootstrap_servers, max_block_ms=time_ms, allow_auto_create_topics=False) as producer,
        runner_of(cluster) as consumer,
    ):
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await consumer.run(_nothing, dead_letter_topic="nowhere", dead_letter_producer=producer)


def _by_name(consumer: Consumer[Any, Any]) -> None:
    consumer.subscribe(["events", "failed"])


def _by_pattern(consumer: Consumer[Any, Any]) -> None:
    consumer.subscribe(pattern=".*e.*")


def _by_partition(consumer: Consumer[Any, Any]) -> None:
    consumer.assign([TopicPartition("failed", 0)])


@pytest.mark.parametrize("choose", [_by_name, _by_pattern, _by_partition])
async def test_dead_letters_that_the_consumer_would_read_are_refused(cluster: EmbeddedCluster, choose: Any) -> None:
    async with runner_of(cluster) as consumer:
        consumer.unsubscribe()
        choose(consumer)
        with pytest.raises(ConfigError, match="dead_letter_topic must be a topic that the consumer does not read"):
            await consumer.run(_nothing, dead_letter_topic="failed")


async def test_share_consumers_do_not_read_their_own_dead_letters(cluster: EmbeddedCluster) -> None:
    async with ShareConsumer("failed", bootstrap_servers=cluster.bootstrap_servers, group_id="shared") as consumer:
        with pytest.raises(ConfigError, match="dead_letter_topic must be a topic that the consumer does not read"):
            await consumer.run(_nothing, dead_letter_topic="failed")


@pytest.mark.parametrize("how", ["plain", "retry topics", "exactly once"])
async def test_a_record_that_fails_in_the_dead_letter_topic_ends_the_run(cluster: EmbeddedCluster, how: str) -> None:
    async with Producer(cluster.bootstrap_servers) as other:
        await other.send_and_wait("events", b"0")
        await other.send_and_wait("failed", b"1")
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
    run: dict[str, Any] = {"retries": 0, "dead_letter_topic": "failed"}
    async with (
        Consumer("events", group_id="g", **options) as consumer,
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
    ):

        async def handle(record: Record, *txn: object) -> None:
            consumer.subscribe(["failed"])
            raise LookupError

        if how == "retry topics":
            run["retry_topics"] = ["50ms"]
        if how == "exactly once":
            run["exactly_once"] = producer
        with anyio.fail_after(30), pytest.raises(HandlerError, match="it already is in dead_letter_topic") as caught:
            await consumer.run(handle, **run)
    assert caught.value.record is not None
    assert caught.value.record.value == b"1"
    assert len(cluster.records("failed")) <= 2


async def test_what_cannot_be_deserialized_is_a_dead_letter_too(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for value in (b"1", b"two", b"3"):
            await producer.send_and_wait("events", value, partition=0)
    seen: list[int] = []
    async with runner_of(cluster, value_deserializer=int) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append(record.value)
            if len(seen) == 2:
                done()

        await consumer.run(handle, dead_letter_topic="failed", order="partition")
    assert seen == [1, 3]
    [letter] = cluster.records("failed")
    assert letter.value == b"two"
    assert dict(letter.headers)["dead_letter.exception"] == b"aiokafka_lead.errors.RecordDeserializationError"
    assert await committed(cluster, E0) == 3


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_handler_whose_own_work_was_cancelled_has_failed(cluster: EmbeddedCluster) -> None:
    """asyncio raises the same error as for a cancelled handler; the record must not be lost with its worker."""
    await fill(cluster, 1)
    async with runner_of(cluster) as consumer, until(consumer) as done:
        calls = 0

        async def handle(record: Record) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                future.cancel()
                await future
            done()

        await consumer.run(handle, **FAST)
    assert calls == 2
    assert await committed(cluster, E0) == 1


async def _nothing(record: Record) -> None:
    pass


class Deep(ValueError):
    """An error nested too deeply for its text."""

    def __init__(self) -> None:
        value: Any = []
        for _ in range(5_000):
            value = [value]
        super().__init__(value)


async def test_an_exception_that_cannot_be_shown_is_one_like_any_other(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 2)
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            if record.offset == 0:
                raise Deep
            done()

        with pytest.raises(HandlerError, match=r"could not be handled \(1 attempts\): Deep") as caught:
            await consumer.run(handle, retries=0, order="partition")
        assert isinstance(caught.value.__cause__, Deep)
        await consumer.run(handle, retries=0, order="partition", dead_letter_topic="failed")
    (letter,) = cluster.records("failed")
    assert dict(letter.headers)["dead_letter.message"] == b"Deep"


async def send_large(cluster: EmbeddedCluster) -> None:
    """Send a record that a topic takes only because it is compressed."""
    options: dict[str, Any] = {"compression_type": "gzip", "max_request_size": 20_000_000}
    async with Producer(cluster.bootstrap_servers, **options) as producer:
        await producer.send_and_wait("events", LARGE, partition=0)


LARGE = b"large" * 600_000


@pytest.mark.parametrize("how", ["dead letter", "retry topic", "result", "batch", "without run"])
async def test_a_large_record_is_compressed_again(cluster: EmbeddedCluster, how: str) -> None:
    await send_large(cluster)
    handlers = Handlers()
    options: dict[str, Any] = {"retries": 0, "dead_letter_topic": "failed"}
    if how == "retry topic":
        options["retry_topics"] = ["50ms"]
    tries = 0

    @handlers.on("events", to="failed", max_records=2 if how == "batch" else None)
    async def handle(given: Any) -> Any:
        nonlocal tries
        tries += 1
        if how == "result":
            return [given.value, b"small"]
        raise CannotHandleError

    if how == "without run":
        reading: dict[str, Any] = {"on_bad_record": "dead_letter", "dead_letter_topic": "failed"}
        async with runner_of(cluster, value_deserializer=int, **reading) as consumer:
            while not cluster.records("failed"):
                await consumer.getmany(timeout_ms=100)
    else:
        async with runner_of(cluster) as consumer, anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handlers, **options))
            with anyio.fail_after(30):
                while not cluster.records("failed"):
                    await cluster.wait_for_requests("Produce", count=cluster.requests.count("Produce") + 1)
            await consumer.stop()
        assert tries == (2 if how == "retry topic" else 1)
    assert [record.value for record in cluster.records("failed")] == [LARGE, b"small"][: 1 + (how == "result")]


async def test_a_dead_letter_that_its_description_makes_too_large_goes_without(cluster: EmbeddedCluster) -> None:
    content = os.urandom(1_048_000)
    async with Producer(cluster.bootstrap_servers, max_request_size=2_000_000) as producer:
        await producer.send_and_wait("events", content, partition=0)
    async with runner_of(cluster) as consumer, anyio.create_task_group() as tasks:

        async def handle(record: Record) -> None:
            raise CannotHandleError("x" * 2_000)

        tasks.start_soon(lambda: consumer.run(handle, retries=0, retry_topics=["50ms"], dead_letter_topic="failed"))
        with anyio.fail_after(30):
            while not cluster.records("failed"):
                await cluster.wait_for_requests("Produce", count=cluster.requests.count("Produce") + 1)
        await consumer.stop()
    [letter] = cluster.records("failed")
    assert letter.value == content
    told = dict(letter.headers)
    assert tuple(told) == DEAD_LETTER_HEADERS
    assert (told["dead_letter.message"], told["dead_letter.frames"]) == (b"", b"")
    assert told["dead_letter.exception"] == b"tests.run.test_failures.CannotHandleError"
    assert await committed(cluster, E0) == 1
