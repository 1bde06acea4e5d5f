"""`exactly_once` together with batches, and with order by key across retries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, ConsumerRecord, Handlers, Producer, Transaction
from aiokafka_lead.errors import (
    CoordinatorLoadInProgressError,
    DropRecordError,
    HandlerError,
    IllegalStateError,
    MessageTooLargeError,
)
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, committed, fill, runner_of, until

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]
Txn = Transaction[Any, Any]
IN_ORDER: dict[str, Any] = {
    "retries": 0,
    "retry_topics": ["50ms", "100ms"],
    "retry_order": "key",
    "retry_backoff_ms": 5,
    "max_transaction_ms": 20,
}


@pytest.fixture(autouse=True)
def copies(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("copies", 1)


async def write(cluster: EmbeddedCluster, *texts: str) -> None:
    """Write records such as "a1", with the key "a"."""
    async with Producer(cluster.bootstrap_servers) as producer:
        for text in texts:
            await producer.send_and_wait("events", text.encode(), text[0].encode(), 0)


async def copied(cluster: EmbeddedCluster, count: int) -> list[str]:
    """Wait for this number of committed copies, and return their values."""
    return [record.value.decode() for record in await written(cluster, "copies", count)]


async def written(cluster: EmbeddedCluster, topic: str, count: int) -> list[Record]:
    """Wait for this number of committed records, and return them."""
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        with anyio.fail_after(30):
            return [await consumer.getone() for _ in range(count)]


async def test_records_of_a_key_follow_the_one_that_waits(cluster: EmbeddedCluster) -> None:
    """This also holds after a transaction with a letter was aborted."""
    await write(cluster, "a1", "a2", "b1", "a3", "b2")
    seen: list[str] = []
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        until(consumer) as done,
    ):

        async def copy(record: Record, txn: Txn) -> None:
            text = record.value.decode()
            assert (record.topic, record.partition) == E0
            seen.append(text)
            times = seen.count(text)
            await txn.send("copies", record.value)
            if (text == "a1" and times < 3) or (text == "b2" and times == 2):
                raise LookupError
            if text == "a4":
                done()

        async def go_on() -> None:
            await copied(cluster, 5)
            await write(cluster, "a4")

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(go_on)
                await consumer.run(copy, exactly_once=producer, **IN_ORDER)
    found = await copied(cluster, 6)
    assert [text for text in found if text[0] == "a"] == ["a1", "a2", "a3", "a4"]
    assert [text for text in found if text[0] == "b"] == ["b1", "b2"]
    waited = [dict(each.headers) for each in committed_records(cluster, "events.g.retry.50ms")]
    assert not any(told["retry.offset"] == b"5" for told in waited), "nothing of its key waited any more"


def committed_records(cluster: EmbeddedCluster, topic: str) -> Iterator[Any]:
    yield from cluster.records(topic, 0)


async def test_records_of_open_transactions_are_not_handled_though_they_were_fetched_before(
    cluster: EmbeddedCluster,
) -> None:
    """A fetch that is in flight when `run` begins has the consumer's own isolation level."""
    servers, seen = cluster.bootstrap_servers, list[bytes]()
    async with (
        Producer(servers, transactional_id="t") as producer,
        Producer(servers, transactional_id="source") as source,
        runner_of(cluster, fetch_max_wait_ms=20_000, request_timeout_ms=40_000) as consumer,
        until(consumer) as done,
        anyio.create_task_group() as tasks,
    ):

        async def copy(record: Record, txn: Txn) -> None:
            seen.append(record.value)
            if record.value == b"done":
                done()

        with anyio.fail_after(30):
            await cluster.wait_for_requests("Fetch")
            tasks.start_soon(lambda: consumer.run(copy, exactly_once=producer, **IN_ORDER))
            while not any(each.request.isolation_level for each in cluster.requests.select("Fetch")):
                await cluster.wait_for_requests("Fetch", count=cluster.requests.count("Fetch") + 1)
            await source.begin_transaction()
            await source.send_and_wait("events", b"undone", b"a", 0)
            await source.abort_transaction()
            async with source.transaction() as txn:
                await txn.send("events", b"done", b"a", 0)
    assert seen == [b"done"]


async def test_a_member_that_takes_over_knows_who_waits(cluster: EmbeddedCluster) -> None:
    await write(cluster, "a1", "b1")
    options = {**IN_ORDER, "retry_topics": ["500ms"]}
    seen: list[str] = []
    failed = 0
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def fail(record: Record, txn: Txn) -> None:
            nonlocal failed
            if record.value == b"a1":
                failed += 1
                raise LookupError
            await txn.send("copies", record.value)

        tasks.start_soon(lambda: consumer.run(fail, exactly_once=producer, **options))
        await copied(cluster, 1)
        await consumer.stop()
    assert failed == 1
    await write(cluster, "a2", "b2")
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        until(consumer) as done,
    ):

        async def copy(record: Record, txn: Txn) -> None:
            seen.append(record.value.decode())
            if {"a1", "a2", "b2"} <= set(seen):
                done()

        with anyio.fail_after(30):
            await consumer.run(copy, exactly_once=producer, **options)
    assert seen.index("a1") < seen.index("a2")


LETTERS: dict[str, Any] = {"retries": 0, "dead_letter_topic": "dead"}
BY_FATE: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "dead letter": (LETTERS, LookupError),
    "dropped": ({}, DropRecordError),
    "retried": ({"retries": 3}, LookupError),
    "later": ({"retries": 0, "retry_topics": ["20ms"]}, LookupError),
    "later, in order": (IN_ORDER, LookupError),
}


@pytest.mark.both_loops
@pytest.mark.parametrize("fate", BY_FATE)
async def test_a_handler_that_fails_before_it_sends_aborts_nothing(cluster: EmbeddedCluster, fate: str) -> None:
    """The other records of the transaction are handled once."""
    options, error = BY_FATE[fate]
    cluster.create_topic("dead", 1)
    await fill(cluster, 60, keys=7)
    seen: Counter[int] = Counter()
    found: list[str] = []
    again = fate in ("retried", "later", "later, in order")
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def copy(record: Record, txn: Txn) -> None:
            assert isinstance(txn, Transaction)
            number = int(record.value)
            seen[number] += 1
            await anyio.lowlevel.checkpoint()
            if number % 3 == 0 and not (again and seen[number] > 1):
                raise error
            await txn.send("copies", record.value)

        more = {"concurrency": 4, "retry_backoff_ms": 5, **options}
        tasks.start_soon(lambda: consumer.run(copy, exactly_once=producer, **more))
        found = await copied(cluster, 60 if again else 40)
        await consumer.stop()
    assert len(set(found)) == len(found)
    failed = {number for number in range(60) if number % 3 == 0}
    assert all(times == 1 for number, times in seen.items() if number not in failed)
    assert all(seen[number] == 1 + again for number in failed)
    assert not [each for each in cluster.requests.select("EndTxn") if not each.request.committed]
    assert len(list(cluster.records("dead"))) == (20 if fate == "dead letter" else 0)
    assert await committed(cluster, E0) == 60


async def test_a_bad_record_aborts_nothing(cluster: EmbeddedCluster) -> None:
    await write(cluster, "1", "x", "3")
    seen: list[int] = []
    async with Producer(cluster.bootstrap_servers, transactional_id="t") as producer, runner_of(cluster) as consumer:

        async def copy(value: int, txn: Txn) -> None:
            seen.append(value)
            await txn.send("copies", b"%d" % value)
            if value == 3:
                await consumer.stop()

        with anyio.fail_after(20):
            await consumer.run(copy, exactly_once=producer, on_bad_record="skip", order="partition")
    assert seen == [1, 3]
    assert await committed(cluster, E0) == 3


WAYS: dict[str, Callable[[Producer[Any, Any], Txn], Awaitable[object]]] = {
    "txn.send": lambda producer, txn: txn.send("copies", b"0"),
    "txn.send_many": lambda producer, txn: txn.send_many("copies", [b"0"]),
    "txn.send_and_wait": lambda producer, txn: txn.send_and_wait("copies", b"0"),
    "producer.send": lambda producer, txn: producer.send("copies", b"0"),
    "producer.send_many": lambda producer, txn: producer.send_many("copies", [b"0"]),
    "producer.send_and_wait": lambda producer, txn: producer.send_and_wait("copies", b"0"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_handler_that_fails_after_it_has_sent_aborts_the_transaction(
    cluster: EmbeddedCluster, way: str
) -> None:
    await write(cluster, "0")
    failed = False
    async with Producer(cluster.bootstrap_servers, transactional_id="t") as producer, runner_of(cluster) as consumer:

        async def copy(record: Record, txn: Txn) -> None:
            nonlocal failed
            await WAYS[way](producer, txn)
            if not failed:
                failed = True
                raise LookupError
            await consumer.stop()

        with anyio.fail_after(20):
            await consumer.run(copy, exactly_once=producer, retry_backoff_ms=5)
    async with Producer(cluster.bootstrap_servers) as plain:
        await plain.send_and_wait("copies", b"last")
    assert await copied(cluster, 2) == ["0", "last"]


async def test_a_task_of_a_failed_handler_cannot_send(cluster: EmbeddedCluster) -> None:
    await write(cluster, "a")
    kept: list[Txn] = []
    async with Producer(cluster.bootstrap_servers, transactional_id="t") as producer, runner_of(cluster) as consumer:

        async def copy(record: Record, txn: Txn) -> None:
            kept.append(txn)
            if len(kept) == 1:
                raise LookupError
            with pytest.raises(IllegalStateError, match="has failed"):
                await kept[0].send("copies", b"late")
            assert txn.outcome is None
            await consumer.stop()

        with anyio.fail_after(20):
            await consumer.run(copy, exactly_once=producer, retry_backoff_ms=5)
    assert not list(cluster.records("copies"))


async def test_an_outage_of_a_handler_does_not_keep_a_transaction_open(cluster: EmbeddedCluster) -> None:
    """Readers of the other records wait for its end."""
    await write(cluster, "a", "b")
    seen: Counter[bytes] = Counter()
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def copy(record: Record, txn: Txn) -> None:
            seen[record.value] += 1
            if record.value == b"b" and seen[b"b"] == 1:
                raise LookupError
            await txn.send("copies", record.value)

        options: dict[str, Any] = {"retry_backoff_ms": 1500}
        tasks.start_soon(lambda: consumer.run(copy, exactly_once=producer, **options))
        assert await copied(cluster, 2) == ["a", "b"]
        await consumer.stop()
    assert seen == {b"a": 2, b"b": 2}, "the transaction was aborted, and handled again"


async def test_one_aborted_transaction_finds_all_records_that_fail(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("dead", 1)
    await fill(cluster, 60)
    calls = 0
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def copy(record: Record, txn: Txn) -> None:
            nonlocal calls
            calls += 1
            await anyio.lowlevel.checkpoint()
            await txn.send("copies", record.value)
            if record.offset % 3 == 0:
                raise LookupError

        options: dict[str, Any] = {"concurrency": 4, "retries": 0, "dead_letter_topic": "dead", "retry_backoff_ms": 5}
        tasks.start_soon(lambda: consumer.run(copy, exactly_once=producer, **options))
        await copied(cluster, 40)
        await consumer.stop()
    assert await committed(cluster, E0) == 60
    assert calls <= 60 + 40 + 60, "each record twice, and some margin for a first transaction of few records"


async def copy_in_batches(cluster: EmbeddedCluster, *, sends_first: bool) -> list[list[int]]:
    """Copy six records with a handler that fails for the record at offset 2; return the offsets of each call."""
    cluster.create_topic("dead", 1)
    await fill(cluster, 6)
    calls: list[list[int]] = []
    handlers = Handlers()

    @handlers.on("events", max_records=4, max_wait_ms=60_000)
    async def copy(records: list[Record], txn: Txn) -> None:
        offsets = [record.offset for record in records]
        calls.append(offsets)
        if 2 in offsets and not sends_first:
            raise LookupError
        for record in records:
            await txn.send("copies", record.value)
        if 2 in offsets:
            raise LookupError

    options: dict[str, Any] = {"retries": 1, "dead_letter_topic": "dead", "retry_backoff_ms": 5}
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: consumer.run(handlers, exactly_once=producer, **options))
        assert await copied(cluster, 5) == ["0", "1", "3", "4", "5"]
        await consumer.stop()
    assert await committed(cluster, E0) == 6
    return calls


async def test_batches_are_copied_once(cluster: EmbeddedCluster) -> None:
    """A failed batch is handled again as a whole, then record by record."""
    calls = await copy_in_batches(cluster, sends_first=True)
    assert [0, 1, 2, 3] in calls
    assert [2] in calls
    letters = [dict(letter.headers)["dead_letter.offset"] for letter in cluster.records("dead")]
    assert set(letters) == {b"2"}


async def test_a_batch_that_fails_before_it_sends_aborts_nothing(cluster: EmbeddedCluster) -> None:
    """It is handled again as a whole, then record by record, within the same transaction."""
    calls = await copy_in_batches(cluster, sends_first=False)
    assert calls == [[0, 1, 2, 3], [0, 1, 2, 3], [0], [1], [2], [3], [4, 5]]
    assert [dict(letter.headers)["dead_letter.offset"] for letter in cluster.records("dead")] == [b"2"]
    assert not [each for each in cluster.requests.select("EndTxn") if not each.request.committed]


async def test_results_of_batches_are_part_of_the_transaction(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 6)
    failed = False
    handlers = Handlers()

    @handlers.on("events", to="copies", max_records=100, max_wait_ms=10)
    async def double(numbers: list[int]) -> list[int]:
        nonlocal failed
        if not failed:
            failed = True
            raise LookupError
        return [2 * number for number in numbers]

    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: consumer.run(handlers, exactly_once=producer, retry_backoff_ms=5))
        assert await copied(cluster, 6) == ["0", "2", "4", "6", "8", "10"]
        await consumer.stop()
    assert failed


async def test_handlers_that_stop_the_consumer_are_part_of_the_transaction(cluster: EmbeddedCluster) -> None:
    await write(cluster, "a", "b", "c")
    seen: list[int] = []
    async with Producer(cluster.bootstrap_servers, transactional_id="t") as producer, runner_of(cluster) as consumer:

        async def copy(record: Record, txn: Txn) -> None:
            await txn.send("copies", record.value)
            seen.append(record.offset)
            if len(seen) >= 2:
                await consumer.stop()

        with anyio.fail_after(20):
            await consumer.run(copy, exactly_once=producer)
    assert await copied(cluster, 3) == ["a", "b", "c"]
    assert await committed(cluster, E0) == 3


@pytest.mark.parametrize("retry_topics", [[], ["50ms"]], ids=["letters", "retries"])
async def test_a_letter_that_its_description_makes_too_large_goes_without(
    cluster: EmbeddedCluster, retry_topics: list[str]
) -> None:
    cluster.create_topic("dead", 1, configs={"max.message.bytes": "3000"})
    for delay in retry_topics:
        cluster.create_topic(f"events.g.retry.{delay}", 3, configs={"max.message.bytes": "2000"})
    await fill(cluster, 3, size=2000)
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def fail(record: Record, txn: Txn) -> None:
            await txn.send("copies", b"%d" % record.offset)
            if record.offset < 2:
                raise LookupError("x" * 1900)

        async def stop_at_the_end() -> None:
            assert await copied(cluster, 1) == ["2"]
            await consumer.stop()

        tasks.start_soon(stop_at_the_end)
        options: dict[str, Any] = {"retry_topics": retry_topics, "dead_letter_topic": "dead", "retry_backoff_ms": 5}
        with anyio.fail_after(30):
            await consumer.run(fail, exactly_once=producer, retries=0, order="partition", **options)
    letters = await written(cluster, "dead", 2)
    assert [dict(letter.headers)["dead_letter.offset"] for letter in letters] == [b"0", b"1"]
    for letter in letters:
        told = dict(letter.headers)
        assert (told["dead_letter.message"], told["dead_letter.exception"]) == (b"", b"LookupError")


@pytest.mark.parametrize("api", ["EndTxn", "TxnOffsetCommit"])
async def test_an_outage_of_a_coordinator_is_waited_out(cluster: EmbeddedCluster, api: str) -> None:
    await write(cluster, "a1")
    fault = cluster.faults.add(api, error_code=CoordinatorLoadInProgressError)
    quick: dict[str, Any] = {"max_block_ms": 300, "retry_backoff_ms": 10, "retry_backoff_max_ms": 50}
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t", **quick) as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def copy(record: Record, txn: Txn) -> None:
            await txn.send("copies", record.value)

        tasks.start_soon(lambda: consumer.run(copy, exactly_once=producer, transaction_retries=0, retry_backoff_ms=5))
        with anyio.fail_after(30):
            while not any("no transaction was committed" in problem for problem in consumer.health().problems):
                await cluster.wait_for_requests(api, count=cluster.requests.count(api) + 1)
            await cluster.wait_for_requests(api, count=cluster.requests.count(api) + 20)
        fault.remove()
        await write(cluster, "a2")
        assert await copied(cluster, 2) == ["a1", "a2"]
        await consumer.stop()


async def test_a_retry_topic_that_is_deleted_costs_one_transaction(cluster: EmbeddedCluster) -> None:
    seen = anyio.Event()
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def copy(record: Record, txn: Txn) -> None:
            await txn.send("copies", record.value)
            if not seen.is_set():
                seen.set()
                cluster.delete_topic("events.g.retry.50ms")

        options: dict[str, Any] = {"retry_topics": ["50ms"], "retry_backoff_ms": 5, "transaction_retries": 3}
        tasks.start_soon(lambda: consumer.run(copy, exactly_once=producer, **options))
        await write(cluster, "a1", "a2")
        assert await copied(cluster, 2) == ["a1", "a2"]
        await consumer.stop()


async def test_a_letter_that_is_refused_names_its_record(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("dead", 1, configs={"max.message.bytes": "1000"})
    await fill(cluster, 1, size=2000)
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        runner_of(cluster) as consumer,
    ):

        async def fail(record: Record, txn: Txn) -> None:
            raise LookupError

        with anyio.fail_after(30), pytest.raises(HandlerError, match="dead letter was not accepted by dead") as caught:
            await consumer.run(fail, exactly_once=producer, retries=0, dead_letter_topic="dead", retry_backoff_ms=5)
    assert isinstance(caught.value.__cause__, MessageTooLargeError)
    assert caught.value.record.offset == 0
