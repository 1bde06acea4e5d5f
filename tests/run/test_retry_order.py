"""`retry_order`, `retry_delay`, and the retry partitions of a member."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, ConsumerRecord, Handlers, Producer, TopicPartition, Transaction
from aiokafka_lead.errors import ConfigError, HandlerError, NotLeaderOrFollowerError
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, committed, fill, runner_of, until

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]
IN_ORDER: dict[str, Any] = {"retries": 0, "retry_topics": ["50ms", "100ms"], "retry_order": "key"}


async def write(cluster: EmbeddedCluster, *texts: str, partition: int = 0) -> None:
    """Write records such as "a1", with the key "a"."""
    async with Producer(cluster.bootstrap_servers) as producer:
        for text in texts:
            await producer.send_and_wait("events", text.encode(), text[0].encode(), partition)


async def test_records_of_a_key_follow_the_one_that_waits(cluster: EmbeddedCluster) -> None:
    await write(cluster, "a1", "a2", "b1", "a3", "b2")
    seen: list[str] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            text = record.value.decode()
            seen.append(text)
            assert (record.topic, record.partition) == E0
            if text == "a1" and seen.count(text) < 3:
                raise LookupError
            if text == "a3":
                done()

        with anyio.fail_after(30):
            await consumer.run(handle, **IN_ORDER)
    assert [text for text in seen if text[0] == "a"] == ["a1", "a1", "a1", "a2", "a3"]
    assert seen.index("b2") < seen.index("a2")
    waited = [
        dict(record.headers)
        for name in IN_ORDER["retry_topics"]
        for record in cluster.records(f"events.g.retry.{name}", 0)
    ]
    followers = [told for told in waited if told["retry.attempts"] == b"0"]
    assert {told["retry.offset"] for told in followers} == {b"1", b"3"}
    assert not any("retry.exception" in told for told in followers)


async def test_a_key_returns_to_its_partition_once_nothing_waits(cluster: EmbeddedCluster) -> None:
    await write(cluster, "a1", "a2")
    failed = False
    async with runner_of(cluster) as consumer, until(consumer) as done, anyio.create_task_group() as tasks:

        async def handle(record: Record) -> None:
            nonlocal failed
            if record.value == b"a1" and not failed:
                failed = True
                raise LookupError
            if record.value == b"a2":
                tasks.start_soon(write, cluster, "a3")
            if record.value == b"a3":
                done()

        options: dict[str, Any] = {**IN_ORDER, "retry_topics": ["500ms"]}
        with anyio.fail_after(30):
            await consumer.run(handle, **options)
    assert len(cluster.records("events.g.retry.500ms", 0)) == 2


async def test_a_follower_that_fails_has_its_own_retries_and_delays(cluster: EmbeddedCluster) -> None:
    await write(cluster, "a1", "a2")
    seen: list[str] = []
    async with runner_of(cluster) as consumer, anyio.create_task_group() as tasks:

        async def handle(record: Record) -> None:
            seen.append(record.value.decode())
            raise LookupError

        options = {**IN_ORDER, "retries": 1, "retry_backoff_ms": 5, "dead_letter_topic": "failed"}
        tasks.start_soon(lambda: consumer.run(handle, **options))
        with anyio.fail_after(30):
            while len(cluster.records("failed")) < 2:
                await cluster.wait_for_requests("Produce", count=cluster.requests.count("Produce") + 1)
        await consumer.stop()
    # Twice, and then after each delay; the second one follows until the first is given up.
    assert seen == ["a1"] * 4 + ["a2"] * 4
    attempts = [dict(record.headers)["dead_letter.attempts"] for record in cluster.records("failed")]
    assert attempts == [b"4", b"4"]


class Failing:
    """Handles batches. A batch with "a1" fails until its fourth attempt."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.handled: list[str] = []

    def handle(self, records: list[Record]) -> None:
        texts = [record.value.decode() for record in records]
        assert all((record.topic, record.partition) == E0 for record in records)
        self.calls.append(texts)
        if "a1" in texts and sum("a1" in each for each in self.calls) < 4:
            raise LookupError
        self.handled += texts


async def test_batches_keep_the_order_of_keys(cluster: EmbeddedCluster) -> None:
    texts = ["a1", "b1", "a2", "c1", "a3", "b2"]
    await write(cluster, *texts)
    failing, handlers = Failing(), Handlers()
    async with runner_of(cluster) as consumer, until(consumer) as done:

        @handlers.on("events", max_records=3, max_wait_ms=200)
        async def handle(records: list[Record]) -> None:
            failing.handle(records)
            if len(failing.handled) == len(texts):
                done()

        with anyio.fail_after(30):
            await consumer.run(handlers, **IN_ORDER)
    assert failing.calls[:3] == [["a1", "b1", "a2"], ["a1"], ["b1"]]
    assert ["c1", "b2"] in failing.calls
    assert [text for text in failing.handled if text[0] == "a"] == ["a1", "a2", "a3"]
    assert sorted(failing.handled) == sorted(texts)
    waited = [dict(record.headers) for record in cluster.records("events.g.retry.50ms", 0)]
    assert [told["retry.offset"] for told in waited] == [b"0", b"2", b"4"]
    assert [told["retry.attempts"] for told in waited] == [b"1", b"0", b"0"]


async def test_batches_keep_the_order_of_keys_in_transactions(cluster: EmbeddedCluster) -> None:
    texts = ["a1", "b1", "a2", "c1", "a3", "b2"]
    await write(cluster, *texts)
    failing, handlers = Failing(), Handlers()
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        until(consumer) as done,
    ):

        @handlers.on("events", max_records=3, max_wait_ms=200)
        async def copy(records: list[Record], txn: Transaction[Any, Any]) -> None:
            failing.handle(records)
            for record in records:
                await txn.send("failed", record.value, record.key)
            if any(record.value == b"a3" for record in records):
                done()

        with anyio.fail_after(30):
            await consumer.run(handlers, exactly_once=producer, retry_backoff_ms=5, **IN_ORDER)
    reading: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer("failed", bootstrap_servers=cluster.bootstrap_servers, **reading) as reader:
        with anyio.fail_after(20):
            copied = [(await reader.getone()).value.decode() for _ in texts]
    assert sorted(copied) == sorted(texts)
    assert [text for text in copied if text[0] == "a"] == ["a1", "a2", "a3"]


async def test_a_member_that_takes_over_knows_who_waits(cluster: EmbeddedCluster) -> None:
    await write(cluster, "a1", "b1")
    options = {**IN_ORDER, "retry_topics": ["500ms"]}
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def fail(record: Record) -> None:
            if record.value == b"a1":
                done()
                raise LookupError

        await consumer.run(fail, **options)
    assert await committed(cluster, E0) == 2
    await write(cluster, "a2", "b2")
    seen: list[str] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append(record.value.decode())
            if len(seen) == 3:
                done()

        with anyio.fail_after(30):
            await consumer.run(handle, **options)
    assert sorted(seen) == ["a1", "a2", "b2"]
    assert seen.index("a1") < seen.index("a2")


async def test_a_retry_partition_whose_end_is_not_found_holds_up_its_own_family_alone(
    cluster: EmbeddedCluster,
) -> None:
    await write(cluster, "a1")
    cluster.faults.add("ListOffsets", topic="events.g.retry.50ms", partition=1, error_code=NotLeaderOrFollowerError)
    async with runner_of(cluster, default_api_timeout_ms=500) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            assert (record.topic, record.partition) == E0
            done()

        with anyio.fail_after(30):
            await consumer.run(handle, **IN_ORDER)


async def test_a_stop_while_retry_partitions_are_read_commits_nothing_behind_what_waits(
    cluster: EmbeddedCluster,
) -> None:
    await write(cluster, "a1")
    retry = TopicPartition("events.g.retry.1h", 0)
    options = {**IN_ORDER, "retry_topics": ["1h"]}
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def fail(record: Record) -> None:
            done()
            raise LookupError

        await consumer.run(fail, **options)
    assert await committed(cluster, retry) == 0
    cluster.faults.add("ListOffsets", topic=retry.topic, error_code=NotLeaderOrFollowerError)
    async with runner_of(cluster) as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(consumer.run, never, **options))
        with anyio.fail_after(30):
            while retry not in consumer.assignment() or await consumer.position(retry) < 1:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await consumer.stop()
    assert await committed(cluster, retry) == 0


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
async def test_retry_partitions_belong_to_the_member_of_their_partition(
    cluster: EmbeddedCluster, group_protocol: Any
) -> None:
    await fill(cluster, 1)
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "group_protocol": group_protocol}
    members = [Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) for _ in range(2)]
    async with members[0], members[1], anyio.create_task_group() as tasks:
        began = anyio.Event()

        async def handle(record: Record) -> None:
            began.set()

        for member in members:
            tasks.start_soon(partial(member.run, handle, **IN_ORDER))
        with anyio.fail_after(30):
            await began.wait()
            while not all(member.assignment() for member in members):  # noqa: ASYNC110
                await anyio.sleep(0.01)
        found = [member.assignment() for member in members]
        for each in found:
            own = {tp for tp in each if tp.topic == "events"}
            names = ("events", "events.g.retry.50ms", "events.g.retry.100ms")
            assert each == {TopicPartition(name, tp.partition) for tp in own for name in names}
        assert not found[0] & found[1]
        assert members[0].subscription() == {"events"}
        for member in members:
            await member.stop()


async def test_retry_topics_grow_with_their_topic(cluster: EmbeddedCluster) -> None:
    """This includes topics that have too few partitions at the start."""
    cluster.create_topic("events.g.retry.50ms", partitions=1)
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "metadata_max_age_ms": 100}
    seen: list[int] = []
    await fill(cluster, 1)
    async with (
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer,
        until(consumer) as done,
        anyio.create_task_group() as tasks,
    ):

        async def grow() -> None:
            async with AdminClient(cluster.bootstrap_servers) as admin:
                await admin.create_partitions({"events": 4})
            await fill(cluster, 1, partition=3)

        async def handle(record: Record) -> None:
            seen.append(record.partition)
            if record.partition == 0:
                tasks.start_soon(grow)
            elif seen.count(3) == 1:
                raise LookupError
            else:
                done()

        with anyio.fail_after(30):
            await consumer.run(handle, retries=0, retry_topics=["50ms"])
    assert seen == [0, 3, 3]
    assert cluster.partition_count("events.g.retry.50ms") == 4


async def test_a_function_chooses_the_delay(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    asked: list[tuple[int, str]] = []

    def choose(attempts: int, error: BaseException) -> str | None:
        asked.append((attempts, str(error)))
        return ["50ms", "50ms", None][len(asked) - 1]

    async with runner_of(cluster) as consumer:

        async def handle(record: Record) -> None:
            raise LookupError("not yet")

        with anyio.fail_after(30), pytest.raises(HandlerError, match="3 attempts"):
            await consumer.run(handle, retries=0, retry_topics=["1h", "50ms"], retry_delay=choose)
    assert asked == [(1, "not yet"), (2, "not yet"), (3, "not yet")]
    assert not cluster.records("events.g.retry.1h")


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_delay_that_is_none_ends_the_run(cluster: EmbeddedCluster, exactly_once: bool) -> None:
    await fill(cluster, 1)
    async with runner_of(cluster) as consumer, Producer(cluster.bootstrap_servers, transactional_id="t") as producer:

        async def handle(record: Record) -> None:
            raise LookupError

        options: dict[str, Any] = {"exactly_once": producer} if exactly_once else {}
        with anyio.fail_after(30), pytest.raises(HandlerError, match="retry_delay failed") as caught:
            await consumer.run(handle, retries=0, retry_topics=["1h"], retry_delay=lambda *_: "1s", **options)
    assert isinstance(caught.value.__cause__, ConfigError)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"retry_order": "key"}, 'retry_order="key" needs retry_topics'),
        ({**IN_ORDER, "order": "none"}, 'retry_order="key" needs retry_topics, and order="key"'),
        ({"retry_delay": lambda attempts, error: None}, "retry_delay needs retry_topics"),
    ],
)
async def test_options_that_do_not_fit_are_refused(cluster: EmbeddedCluster, given: Any, error: str) -> None:
    async with runner_of(cluster) as consumer:
        with pytest.raises(ConfigError, match=error):
            await consumer.run(never, **given)


async def never(record: Record) -> None:
    raise AssertionError("nothing is handed out")
