"""`Handlers`: several topics, typed values, results that are sent, threads, batches."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import threading
import uuid
from typing import Any

import anyio
import msgspec
import pydantic
import pytest

from aiokafka_lead import Consumer, ConsumerRecord, Handlers, Producer, ShareConsumer, Transaction
from aiokafka_lead.errors import ConfigError, ConfigTypeError, HandlerError, TopicAuthorizationFailedError
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, committed, fill, until, until_committed

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]
FAST: dict[str, Any] = {"retry_backoff_ms": 5, "order": "partition"}


class Order(msgspec.Struct):
    customer: str
    cents: int


class Invoice(msgspec.Struct):
    customer: str
    total: int


@pytest.fixture
def topics(cluster: EmbeddedCluster) -> None:
    for topic in ("orders", "refunds", "invoices"):
        cluster.create_topic(topic, partitions=1)


def member(cluster: EmbeddedCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    options = {"group_id": "g", "auto_offset_reset": "earliest", **options}
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **options)


async def send(cluster: EmbeddedCluster, topic: str, *values: Any, key: bytes | None = None) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for value in values:
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            await producer.send_and_wait(topic, content, key=key, partition=0)


@pytest.mark.usefixtures("topics")
async def test_each_topic_has_its_handler(cluster: EmbeddedCluster) -> None:
    await send(cluster, "orders", {"customer": "ann", "cents": 5}, {"cents": "five"}, {"customer": "bob", "cents": 7})
    await send(cluster, "refunds", b"raw")
    handlers = Handlers()
    seen: list[Any] = []
    async with member(cluster) as consumer, until(consumer) as done:

        def note(what: Any) -> None:
            seen.append(what)
            if len(seen) == 3:
                done()

        @handlers.on("orders")
        async def order(order: Order) -> None:
            note((order.customer, order.cents))

        @handlers.on("refunds", model=bytes)
        async def refund(given):  # type: ignore[no-untyped-def]
            note(given)

        assert handlers.topics == ("orders", "refunds")
        await consumer.run(handlers, dead_letter_topic="failed")
        assert consumer.subscription() == {"orders", "refunds"}
    assert set(seen) == {("ann", 5), ("bob", 7), b"raw"}
    [letter] = cluster.records("failed")
    assert letter.value == b'{"cents": "five"}'
    assert dict(letter.headers)["dead_letter.attempts"] == b"0"


async def test_handlers_and_topics_have_to_agree(cluster: EmbeddedCluster) -> None:
    handlers = Handlers()

    @handlers.on("events")
    async def handle(record: Record) -> None: ...

    with pytest.raises(ConfigError, match="topic events already has a handler"):
        handlers.on("events")(handle)
    async with member(cluster, "events", "failed") as consumer:
        with pytest.raises(ConfigError, match="no handler for failed"):
            await consumer.run(handlers)
    async with member(cluster, "failed") as consumer:
        with pytest.raises(ConfigError, match="registered for topics that the consumer does not read: events"):
            await consumer.run(handlers)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"key": str}, "key needs the option to"),
        ({"max_records": 0}, "max_records"),
        ({"max_wait_ms": -1}, "max_wait_ms"),
        ({"in_thread": "yes"}, "in_thread"),
    ],
)
def test_options_are_checked_where_they_stand(options: Any, error: str) -> None:
    async def handle(record: Record) -> None: ...

    with pytest.raises((ConfigError, ConfigTypeError), match=error):
        Handlers().on("events", **options)(handle)


@pytest.mark.usefixtures("topics")
async def test_what_a_handler_returns_is_sent(cluster: EmbeddedCluster) -> None:
    await send(cluster, "orders", {"customer": "ann", "cents": 5}, {"customer": "bob", "cents": 0}, key=b"k")
    handlers = Handlers()
    async with member(cluster, "orders") as consumer, until(consumer) as done:

        @handlers.on("orders", to="invoices", key=lambda invoice: invoice.customer)
        async def bill(order: Order, offset: int) -> Invoice | None:
            if offset == 1:
                done()
                return None
            return Invoice(order.customer, order.cents)

        await consumer.run(handlers, order="partition")
    [invoice] = cluster.records("invoices")
    assert (invoice.key, invoice.value) == (b"ann", b'{"customer":"ann","total":5}')


@pytest.mark.usefixtures("topics")
async def test_a_list_is_several_records_with_the_key_of_the_one_handled(cluster: EmbeddedCluster) -> None:
    await send(cluster, "orders", b"1", key=b"k")
    handlers = Handlers()
    async with member(cluster, "orders") as consumer:

        @handlers.on(to="invoices")
        async def split(record: Record) -> list[Any]:
            return ["text", b"bytes", {"a": 1}]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handlers)
            with anyio.fail_after(20):
                while len(cluster.records("invoices")) < 3:
                    await cluster.wait_for_requests("Produce", count=cluster.requests.count("Produce") + 1)
            await consumer.stop()
    sent = [(record.key, record.value) for record in cluster.records("invoices")]
    assert sent == [(b"k", b"text"), (b"k", b"bytes"), (b"k", b'{"a":1}')]


class Aliased(pydantic.BaseModel):
    order_id: int = pydantic.Field(alias="orderId")


class Renamed(msgspec.Struct, rename="camel"):
    order_id: int


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Everything:
    id: uuid.UUID
    price: decimal.Decimal
    colour: Colour
    tags: set[str]
    raw: bytes
    at: datetime.datetime
    model: Aliased
    several: list[Aliased]


EVERYTHING = Everything(
    uuid.UUID(int=7),
    decimal.Decimal("1.50"),
    Colour.RED,
    {"a", "b"},
    b"raw",
    datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    Aliased(orderId=3),
    [Aliased(orderId=4)],
)


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    "result", [Aliased(orderId=3), Renamed(3), EVERYTHING], ids=lambda result: type(result).__name__
)
async def test_a_handler_reads_what_another_one_of_its_type_returns(cluster: EmbeddedCluster, result: Any) -> None:
    await send(cluster, "orders", b"1")
    handlers = Handlers()
    seen: list[tuple[Any, Any]] = []
    async with member(cluster, "orders", "invoices") as consumer, until(consumer) as done:

        @handlers.on("orders", to="invoices", key=lambda result: uuid.UUID(int=7))  # type: ignore[arg-type, return-value]
        async def returns(record: Record) -> Any:
            return result

        @handlers.on("invoices", model=type(result))
        async def reads(given: Any, key: str) -> None:
            seen.append((given, key))
            done()

        with anyio.fail_after(20):
            await consumer.run(handlers, retries=0)
    assert seen == [(result, str(uuid.UUID(int=7)))]


@pytest.mark.usefixtures("topics")
async def test_no_number_is_nothing_that_json_has(cluster: EmbeddedCluster) -> None:
    await send(cluster, "orders", b"1")
    handlers = Handlers()
    async with member(cluster, "orders") as consumer:

        @handlers.on(to="invoices")
        async def average(record: Record) -> dict[str, float]:
            return {"average": float("nan")}

        with pytest.raises(HandlerError, match="not JSON compliant"):
            await consumer.run(handlers, retries=0)
    assert cluster.records("invoices") == []


@pytest.mark.usefixtures("topics")
async def test_nothing_is_sent_of_a_list_with_something_that_cannot_be(cluster: EmbeddedCluster) -> None:
    await send(cluster, "orders", b"1")
    handlers = Handlers()
    async with member(cluster, "orders") as consumer:

        @handlers.on(to="invoices")
        async def split(record: Record) -> list[Any]:
            return ["text", object()]

        with pytest.raises(HandlerError, match="object cannot be sent"):
            await consumer.run(handlers, retries=1, retry_backoff_ms=5)
    assert cluster.records("invoices") == []


@pytest.mark.usefixtures("topics")
async def test_results_are_part_of_the_transaction(cluster: EmbeddedCluster) -> None:
    await send(cluster, "orders", *range(5))
    handlers = Handlers()
    failed = False
    found: list[int] = []
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="t") as producer,
        member(cluster, "orders") as consumer,
        anyio.create_task_group() as tasks,
    ):

        @handlers.on("orders", to="invoices")
        async def double(number: int, txn: Transaction[Any, Any]) -> int:
            nonlocal failed
            if number == 3 and not failed:
                failed = True
                raise ValueError
            return 2 * number

        reading: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
        tasks.start_soon(lambda: consumer.run(handlers, exactly_once=producer, retry_backoff_ms=5))
        async with Consumer("invoices", bootstrap_servers=cluster.bootstrap_servers, **reading) as reader:
            with anyio.fail_after(30):
                found = [int((await reader.getone()).value or 0) for _ in range(5)]
        await consumer.stop()
    assert failed
    assert sorted(found) == [0, 2, 4, 6, 8]


@pytest.mark.usefixtures("topics")
async def test_a_topic_for_results_that_may_not_be_used_is_told_at_the_start(cluster: EmbeddedCluster) -> None:
    handlers = Handlers()

    @handlers.on("orders", to="nowhere")
    async def bill(record: Record) -> None: ...

    cluster.faults.add("Metadata", topic="nowhere", error_code=TopicAuthorizationFailedError.code, count=None)
    async with member(cluster, "orders") as consumer:
        with pytest.raises(TopicAuthorizationFailedError, match="nowhere"):
            await consumer.run(handlers)


@pytest.mark.usefixtures("topics")
async def test_a_plain_function_runs_in_a_thread_if_asked_to(cluster: EmbeddedCluster) -> None:
    await send(cluster, "orders", {"customer": "ann", "cents": 5})
    handlers = Handlers()
    threads: list[int] = []
    async with member(cluster, "orders") as consumer, until(consumer) as done:

        @handlers.on("orders", in_thread=True)
        def block(order: Order) -> None:
            threads.append(threading.get_ident())
            anyio.from_thread.run_sync(done)

        await consumer.run(handlers)
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def test_a_function_that_a_thread_would_not_run_is_refused() -> None:
    """Its call makes an object, and all of its records would be committed without being handled."""

    async def handle(record: Record) -> None: ...

    def generate(record: Record) -> Any:
        yield record

    for wrong in (handle, generate):
        with pytest.raises(ConfigTypeError, match="in_thread needs a plain function"):
            Handlers().on("events", in_thread=True)(wrong)


async def test_a_plain_function_is_refused_otherwise(cluster: EmbeddedCluster) -> None:
    handlers = Handlers()

    @handlers.on("events")
    def block(record: Record) -> None:
        return None

    async with member(cluster, "events") as consumer:
        with pytest.raises(ConfigTypeError, match="block"):
            await consumer.run(handlers)


async def test_share_consumers_have_handlers_too(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 3)
    handlers = Handlers()
    seen: list[int] = []
    async with ShareConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="shared") as consumer:

        @handlers.on("events", to="failed")
        async def handle(number: int) -> int:
            seen.append(number)
            return number

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handlers)
            await cluster.wait_for_requests("ShareFetch", count=2)
            await fill(cluster, 3)
            with anyio.fail_after(20):
                while len(cluster.records("failed")) < 3:
                    await cluster.wait_for_requests("Produce", count=cluster.requests.count("Produce") + 1)
            await consumer.stop()
    assert {0, 1, 2} == set(seen)


# --- batches ---------------------------------------------------------------------------------------------------------


async def run_batches(cluster: EmbeddedCluster, count: int, handle: Any, **options: Any) -> None:
    """Run a handler of batches until everything is committed."""
    handlers = Handlers()
    handlers.on("events", max_records=4, max_wait_ms=20)(handle)
    async with member(cluster, "events", auto_commit_interval_ms=20) as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: consumer.run(handlers, **{**FAST, **options}))
        await until_committed(cluster, E0, count)
        await consumer.stop()


async def test_a_batch_has_records_of_one_partition_in_order(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 10, keys=2)
    await fill(cluster, 3, partition=1)
    batches: list[list[Record]] = []

    async def handle(records: list[Record]) -> None:
        await anyio.lowlevel.checkpoint()
        batches.append(records)

    await run_batches(cluster, 10, handle)
    offsets = [[record.offset for record in batch] for batch in batches if batch[0].partition == 0]
    assert offsets == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert all(len({record.partition for record in batch}) == 1 for batch in batches)


async def test_a_batch_of_models_leaves_bad_records_to_the_dead_letters(cluster: EmbeddedCluster) -> None:
    await send(cluster, "events", {"customer": "ann", "cents": 1}, b"no order", {"customer": "bob", "cents": 2})
    batches: list[list[Order]] = []

    async def handle(orders: list[Order]) -> None:
        batches.append(orders)

    await run_batches(cluster, 3, handle, dead_letter_topic="failed")
    assert batches == [[Order("ann", 1), Order("bob", 2)]]
    assert [letter.value for letter in cluster.records("failed")] == [b"no order"]


async def test_a_batch_that_fails_is_handled_again_and_then_record_by_record(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 6)
    calls: list[list[int]] = []

    async def handle(records: list[Record]) -> None:
        offsets = [record.offset for record in records]
        calls.append(offsets)
        if 2 in offsets:
            raise ValueError("two")

    await run_batches(cluster, 6, handle, retries=1, dead_letter_topic="failed")
    together = [0, 1, 2, 3]
    assert calls == [together, together, [0], [1], [2], [3], [4, 5]]
    [letter] = cluster.records("failed")
    assert dict(letter.headers)["dead_letter.offset"] == b"2"


async def test_what_waits_for_a_batch_is_not_committed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 6)
    handlers = Handlers()
    batches: list[int] = []
    async with member(cluster, "events") as consumer, anyio.create_task_group() as tasks:

        @handlers.on("events", max_records=4, max_wait_ms=60_000)
        async def handle(records: list[Record]) -> None:
            batches.append(len(records))
            tasks.start_soon(consumer.stop)

        await consumer.run(handlers)
    assert batches == [4]
    assert await committed(cluster, E0) == 4


async def test_concurrency_limits_batches_too(cluster: EmbeddedCluster) -> None:
    for partition in range(3):
        await fill(cluster, 4, partition=partition)
    handlers = Handlers()
    at_work: list[int] = []
    most = done = 0
    async with member(cluster, "events") as consumer, anyio.create_task_group() as tasks:

        @handlers.on("events", max_records=4)
        async def handle(records: list[Record]) -> None:
            nonlocal most, done
            at_work.append(records[0].partition)
            most = max(most, len(at_work))
            await anyio.sleep(0.02)
            at_work.pop()
            done += len(records)
            if done == 12:
                tasks.start_soon(consumer.stop)

        await consumer.run(handlers, concurrency=1)
    assert most == 1


async def test_batches_and_single_records_share_the_handlers(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(40):
            for topic, partition in (("events", number % 3), ("failed", 0)):
                await producer.send(topic, b"%d" % number, partition=partition)
    handlers = Handlers()
    running = most = done = 0
    async with member(cluster, "events", "failed") as consumer, until(consumer) as stop:

        async def work(count: int) -> None:
            nonlocal running, most, done
            running += 1
            most = max(most, running)
            await anyio.sleep(0.005)
            running -= 1
            done += count
            if done == 80:
                stop()

        @handlers.on("events", max_records=4, max_wait_ms=5)
        async def batch(records: list[Record]) -> None:
            await work(len(records))

        @handlers.on("failed")
        async def single(record: Record) -> None:
            await work(1)

        with anyio.fail_after(30):
            await consumer.run(handlers, concurrency=3, order="none")
    assert most == 3


async def test_a_batch_is_not_tried_again_while_the_consumer_stops(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 4)
    handlers = Handlers()
    async with member(cluster, "events") as consumer, anyio.create_task_group() as tasks:

        @handlers.on("events", max_records=4)
        async def handle(records: list[Record]) -> None:
            tasks.start_soon(consumer.stop, 120_000)
            raise LookupError

        with anyio.fail_after(20):
            await consumer.run(handlers, retries=1_000_000, retry_backoff_ms=5, retry_backoff_max_ms=5)
    assert await committed(cluster, E0) in (None, 0)
