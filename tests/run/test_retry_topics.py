"""`retry_topics`: a failed record waits for its next attempt outside its partition."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, ConsumerRecord, Handlers, Producer
from aiokafka_lead.errors import ConfigError, ConfigTypeError, HandlerError, IllegalStateError, PermanentError
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, committed, fill, runner_of, until

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]
FIRST, SECOND = "events.g.retry.50ms", "events.g.retry.100ms"
LATER: dict[str, Any] = {"retries": 0, "retry_topics": ["50ms", "100ms"], "retry_backoff_ms": 5}


async def test_a_record_that_fails_leaves_its_partition_and_comes_back(cluster: EmbeddedCluster) -> None:
    own = (("trace", b"t"), ("retry.topic", b"elsewhere"), ("retry.attempts", b"7"))  # as of a copied record
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(3):
            sent = {"key": b"k", "partition": 1, "timestamp_ms": 1_700_000_000_000, "headers": list(own)}
            await producer.send_and_wait("events", b"%d" % number, **sent)  # type: ignore[arg-type]
    seen: list[tuple[int, float]] = []
    records: list[Record] = []
    async with runner_of(cluster, auto_offset_reset="earliest") as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append((record.offset, time.time()))
            records.append(record)
            tries = len([offset for offset, _ in seen if offset == 0])
            if record.offset == 0 and tries < 3:
                raise LookupError("not yet" if tries == 1 else "still not")
            if len(seen) == 5:
                done()

        await consumer.run(handle, order="partition", **LATER)
    assert [offset for offset, _ in seen if offset] == [1, 2]
    first_at, second_at, third_at = (at for offset, at in seen if offset == 0)
    assert second_at - first_at >= 0.05
    assert third_at - second_at >= 0.1
    first, _, again = (record for record in records if record.offset == 0)
    place = ("events", 1, 0, 1_700_000_000_000, b"k", b"0", own)
    for record in (first, again):
        assert (record.topic, record.partition, record.offset, record.timestamp_ms) == place[:4]
        assert (record.key, record.value, tuple(record.headers)) == place[4:]
    [waited] = cluster.records(SECOND, 1)
    told = dict(waited.headers)
    assert told["retry.attempts"] == b"2"
    assert told["retry.message"] == b"not yet"
    assert told["retry.topic"] == b"events"


async def test_after_the_last_delay_it_is_a_dead_letter(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 2)
    attempts = 0
    async with runner_of(cluster) as consumer, anyio.create_task_group() as tasks:

        async def handle(record: Record) -> None:
            nonlocal attempts
            if record.offset == 0:
                attempts += 1
                raise LookupError("never")

        tasks.start_soon(lambda: consumer.run(handle, dead_letter_topic="failed", **LATER))
        with anyio.fail_after(30):
            while not cluster.records("failed"):
                await cluster.wait_for_requests("Produce", count=cluster.requests.count("Produce") + 1)
        await consumer.stop()
    assert attempts == 3
    [letter] = cluster.records("failed")
    told = dict(letter.headers)
    assert [told[f"dead_letter.{name}"] for name in ("topic", "partition", "offset", "attempts")] == [
        b"events",
        b"0",
        b"0",
        b"3",
    ]
    assert not [name for name in told if name.startswith("retry.")]
    assert await committed(cluster, E0) == 2


async def test_another_run_finds_what_waits(cluster: EmbeddedCluster) -> None:
    """Even if it begins at the end of topics."""
    await fill(cluster, 1)
    failing: dict[str, Any] = {"retries": 0, "retry_topics": ["1s"]}
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def fail(record: Record) -> None:
            done()
            raise LookupError

        await consumer.run(fail, **failing)
    assert await committed(cluster, E0) == 1
    seen: list[int] = []
    async with runner_of(cluster, auto_offset_reset="latest") as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            seen.append(record.offset)
            done()

        with anyio.fail_after(30):
            await consumer.run(handle, **failing)
    assert seen == [0]


async def test_with_topics_and_a_group(cluster: EmbeddedCluster) -> None:
    """The subscription is restored afterwards."""
    await fill(cluster, 3)
    seen: list[int] = []
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:

        async def handle(record: Record) -> None:
            seen.append(record.offset)
            if record.offset == 1:
                raise LookupError if seen.count(1) < 3 else SystemError

        with anyio.fail_after(30), pytest.raises(HandlerError):
            await consumer.run(handle, **LATER)
        assert consumer.subscription() == {"events"}
    assert seen.count(1) == 3
    assert {0, 1, 2} == set(seen)


async def test_exactly_once(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 4)
    failed = 0
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        until(consumer) as done,
    ):

        async def handle(record: Record, txn: Any) -> None:
            nonlocal failed
            if record.offset == 1 and failed < 2:
                failed += 1
                raise LookupError
            await txn.send("failed", record.value, record.key)
            if record.offset == 1:
                done()

        with anyio.fail_after(30):
            await consumer.run(handle, exactly_once=producer, max_transaction_ms=20, **LATER)
    reading: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer("failed", bootstrap_servers=cluster.bootstrap_servers, **reading) as reader:
        with anyio.fail_after(20):
            found = [(await reader.getone()).value for _ in range(4)]
    assert sorted(found) == [b"0", b"1", b"2", b"3"]


async def test_a_second_call_of_run_leaves_the_first_as_it_is(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    tries: list[str] = []
    async with runner_of(cluster) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            tries.append(record.topic)
            if len(tries) == 2:
                done()
                return
            with pytest.raises(IllegalStateError, match="already running"):
                await consumer.run(handle, **LATER)
            raise LookupError("not yet")

        with anyio.fail_after(30):
            await consumer.run(handle, **LATER)
    assert tries == ["events", "events"]


async def test_topics_that_were_chosen_meanwhile_stay(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:

        async def handle(record: Record) -> None:
            consumer.subscribe(["failed"])
            raise PermanentError("stop")

        with anyio.fail_after(30), pytest.raises(HandlerError):
            await consumer.run(handle, **LATER)
        assert consumer.subscription() == {"failed"}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"retry_topics": ["soon"]}, "retry_topics must contain delays"),
        ({"retry_topics": "10s"}, "retry_topics must be a list of delays"),
        ({"retry_topics": ["10s", "10s"]}, "must not contain a delay twice"),
    ],
)
async def test_delays_are_checked(cluster: EmbeddedCluster, given: Any, error: str) -> None:
    async with runner_of(cluster) as consumer:
        with pytest.raises((ConfigError, ConfigTypeError), match=error):
            await consumer.run(never, **given)


async def test_a_pattern_is_not_enough(cluster: EmbeddedCluster) -> None:
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
        consumer.subscribe(pattern="ev.*")
        with pytest.raises(ConfigError, match="retry_topics need a subscription to topics by name"):
            await consumer.run(never, **LATER)


@pytest.mark.parametrize("group_id", ["billing:eu", "team/a", "bänk", "g" * 240])
async def test_a_group_that_fits_into_no_topic_name_is_told(cluster: EmbeddedCluster, group_id: str) -> None:
    async with runner_of(cluster, group_id=group_id) as consumer:
        with pytest.raises(ConfigError, match="retry_topics need a group_id that is valid in topic names"):
            await consumer.run(never, **LATER)


async def never(record: Record) -> None:
    raise AssertionError("nothing is handed out")


async def test_topics_subscribed_to_during_a_run_have_retry_topics(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("more", partitions=1)
    await fill(cluster, 1)
    seen: list[str] = []
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest"}
    async with (
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer,
        Producer(cluster.bootstrap_servers) as producer,
        until(consumer) as done,
    ):

        async def handle(record: Record) -> None:
            seen.append(record.topic)
            if len(seen) == 1:
                consumer.subscribe(["events", "more"])
                await producer.send_and_wait("more", b"new")
            elif len(seen) == 2:
                raise LookupError
            else:
                done()

        with anyio.fail_after(30):
            await consumer.run(handle, retries=0, retry_topics=["50ms"], retry_order="key")
    assert seen == ["events", "more", "more"]
    assert len(cluster.records("more.g.retry.50ms")) == 1


async def test_batches_have_delayed_retries(cluster: EmbeddedCluster) -> None:
    """A failed batch is handled again as a whole, then record by record; records that fail alone wait."""
    await fill(cluster, 4)
    seen: list[list[int]] = []
    handlers = Handlers()
    async with runner_of(cluster) as consumer, until(consumer) as done:

        @handlers.on("events", max_records=4, max_wait_ms=500)
        async def handle(records: list[Record]) -> None:
            seen.append([record.offset for record in records])
            assert all(record.topic == "events" for record in records)
            if any(record.offset == 2 for record in records) and len(seen) < 8:
                raise LookupError
            if len(seen) == 8:
                done()

        with anyio.fail_after(30):
            await consumer.run(handlers, retries=1, retry_backoff_ms=5, retry_topics=["50ms", "60ms"])
    assert seen == [[0, 1, 2, 3]] * 2 + [[0], [1], [2], [3], [2], [2]]
    [letter] = cluster.records("events.g.retry.60ms", 0)
    assert dict(letter.headers)["retry.attempts"] == b"3"
