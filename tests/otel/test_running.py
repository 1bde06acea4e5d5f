"""Spans of `Consumer.run`: current in the handler, one for each record with its retries, and on to dead letters."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pydantic
import pytest
from opentelemetry import propagate
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import StatusCode, get_current_span

from aiokafka_lead import Consumer, Handlers, Producer
from aiokafka_lead.errors import HandlerError
from aiokafka_lead.testing import EmbeddedCluster

from .support import Record, Spans, attributes, ids, reader_of, trace_of, unsampled_request

pytestmark = pytest.mark.anyio

QUICK: dict[str, Any] = {"retry_backoff_ms": 5}


class CannotHandleError(Exception):
    """Error raised by handlers here."""


def member(cluster: EmbeddedCluster) -> Consumer[Any, Any]:
    return reader_of(cluster, group_id="g", auto_commit_interval_ms=60_000)


async def run(consumer: Consumer[Any, Any], handler: Any, until: anyio.Event, **options: Any) -> None:
    """Run until the event is set."""
    async with anyio.create_task_group() as tasks:

        async def stop() -> None:
            with anyio.move_on_after(20):
                await until.wait()
            await consumer.stop()

        tasks.start_soon(stop)
        await consumer.run(handler, **QUICK, **options)
    assert until.is_set()


async def test_from_a_request_over_kafka_into_the_handler(cluster: EmbeddedCluster, spans: Spans) -> None:
    handled = anyio.Event()

    async def handle(record: Record) -> None:
        await anyio.lowlevel.checkpoint()
        with spans.tracer.start_as_current_span("charge"):
            pass
        handled.set()

    async with Producer(cluster.bootstrap_servers) as producer:
        with spans.tracer.start_as_current_span("POST /orders"):
            await producer.send_and_wait("events", b"1")
        await spans.wait_for("send events")
    async with member(cluster) as consumer:
        await run(consumer, handle, handled)
    path = [spans.one(name) for name in ("charge", "process events", "send events", "POST /orders")]
    assert [ids(span.parent) for span in path[:-1]] == [ids(span) for span in path[1:]]
    assert len({ids(span)[0] for span in path}) == 1
    assert {span.parent for span in spans.named("commit events")} == {None}


class Broken(SpanProcessor):
    """A span processor that fails at the start or the end of each span."""

    def __init__(self, fails_at: str) -> None:
        self._fails_at = fails_at

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self._fails_at == "start":
            raise ZeroDivisionError

    def on_end(self, span: Any) -> None:
        if self._fails_at == "end":
            raise ZeroDivisionError


class BrokenPropagator(TextMapPropagator):
    """A propagator that fails."""

    @property
    def fields(self) -> set[str]:
        return {"traceparent"}

    def extract(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    def inject(self, *_: Any, **__: Any) -> None:
        raise ZeroDivisionError


@pytest.mark.parametrize("broken", ["start", "end", "propagator"])
async def test_tracing_that_fails_disturbs_no_record(
    cluster: EmbeddedCluster,
    spans: Spans,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if broken == "propagator":
        monkeypatch.setattr(propagate, "get_global_textmap", BrokenPropagator)
    else:
        spans.provider.add_span_processor(Broken(broken))
    handled: list[Any] = []
    done = anyio.Event()

    async def handle(record: Record) -> None:
        await anyio.lowlevel.checkpoint()
        handled.append(record.value)
        if len(handled) == 2:
            done.set()

    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1", headers=[("traceparent", b"00-1")])
        await (await producer.send_many("events", [b"2"]))
    async with member(cluster) as consumer:
        await run(consumer, handle, done, retries=2)
    assert sorted(handled) == [b"1", b"2"]
    assert "ZeroDivisionError" in caplog.text


async def test_handlers_at_work_at_the_same_time_have_each_their_own(cluster: EmbeddedCluster, spans: Spans) -> None:
    inside: dict[bytes, set[tuple[int, int]]] = {}
    all_there, over = anyio.Event(), anyio.Event()

    async def handle(record: Record) -> None:
        found = inside.setdefault(record.value, set())
        found.add(ids(get_current_span()))
        if len(inside) == 6:
            all_there.set()
        await all_there.wait()
        found.add(ids(get_current_span()))
        if all(len(each) == 1 for each in inside.values()):
            over.set()

    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(6):
            await producer.send("events", b"%d" % number, key=b"%d" % number)
    async with member(cluster) as consumer:
        await run(consumer, handle, over, order="none", concurrency=6)
    assert {each for found in inside.values() for each in found} == {
        ids(span) for span in spans.named("process events")
    }
    assert len(spans.named("process events")) == 6


async def test_attempts_are_events_of_one_span(cluster: EmbeddedCluster, spans: Spans) -> None:
    inside: list[tuple[int, int]] = []
    handled = anyio.Event()

    async def handle(record: Record) -> None:
        inside.append(ids(get_current_span()))
        if len(inside) < 3:
            raise CannotHandleError(f"attempt {len(inside)}")
        handled.set()

    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send("events", b"1")
    async with member(cluster) as consumer:
        await run(consumer, handle, handled, retries=5)
    span = spans.one("process events")
    assert inside == [ids(span)] * 3
    retries = [event for event in span.events if event.name == "retry"]
    assert [event.attributes for event in retries] == [
        {"attempts": number, "exception.message": f"attempt {number}"} for number in (1, 2)
    ]
    assert span.status.status_code is StatusCode.UNSET
    assert "error.type" not in attributes(span)


async def test_what_was_read_stays_out_of_spans(cluster: EmbeddedCluster, spans: Spans) -> None:
    """pydantic's errors quote it."""

    async def handle(record: Record) -> None:
        pydantic.TypeAdapter(int).validate_json(b'"4111x"')
        raise AssertionError

    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1")
    async with member(cluster) as consumer:
        with pytest.raises(HandlerError):
            await consumer.run(handle, retries=1, **QUICK)
    span = spans.one("process events")
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception", "retry", "exception"]
    assert "4111" not in str([span.status.description, *(event.attributes for event in span.events)])


async def test_a_dead_letter_goes_on_with_the_trace(cluster: EmbeddedCluster, spans: Spans) -> None:
    handled = anyio.Event()

    async def handle(record: Record) -> None:
        if record.value == b"2":
            handled.set()
            return
        raise CannotHandleError("never")

    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1", partition=0)
        await producer.send("events", b"2", partition=0)
    first = spans.named("send events")[0]
    async with member(cluster) as consumer:
        await run(consumer, handle, handled, retries=1, dead_letter_topic="letters", order="partition")
    failed, _ = spans.named("process events")
    letter = spans.one("send letters")
    assert ids(failed.parent) == ids(first)
    assert ids(letter.parent) == ids(failed)
    assert attributes(failed)["error.type"].endswith("CannotHandleError")
    assert [event.name for event in failed.events] == ["exception", "retry", "dead letter", "exception"]
    async with reader_of(cluster, "letters") as consumer:
        async for record in consumer:
            assert trace_of(record) == (*ids(letter), True)
            break


async def test_a_record_that_ends_the_run_ends_its_span(cluster: EmbeddedCluster, spans: Spans) -> None:
    async def handle(record: Record) -> None:
        raise CannotHandleError("never")

    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send("events", b"1")
    async with member(cluster) as consumer:
        with pytest.raises(HandlerError):
            await consumer.run(handle)
    assert attributes(spans.one("process events"))["error.type"].endswith("CannotHandleError")


async def test_a_record_that_waits_when_the_run_ends_has_its_span_ended(cluster: EmbeddedCluster, spans: Spans) -> None:
    failed = anyio.Event()

    async def handle(record: Record) -> None:
        failed.set()
        raise CannotHandleError("not now")

    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send("events", b"1")
    async with member(cluster) as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: consumer.run(handle, retries=9, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000))
        with anyio.fail_after(20):
            await failed.wait()
        await consumer.stop()
    assert attributes(spans.one("process events"))["error.type"].endswith("CannotHandleError")


async def test_what_is_not_sampled_is_not_recorded_through_retry_and_dead_letter(
    cluster: EmbeddedCluster, spans: Spans
) -> None:
    handled = anyio.Event()

    async def handle(record: Record) -> None:
        assert ids(get_current_span()) == (0xABC, 0xDEF)
        if record.value == b"2":
            handled.set()
            return
        raise CannotHandleError("never")

    with unsampled_request():
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send("events", b"1", partition=0)
            await producer.send("events", b"2", partition=0)
    async with member(cluster) as consumer:
        await run(consumer, handle, handled, retries=1, dead_letter_topic="letters")
    assert {name for name in spans.names() if not name.startswith("commit")} == set()


async def test_exactly_once(cluster: EmbeddedCluster, spans: Spans) -> None:
    done = anyio.Event()
    cluster.create_topic("copies", partitions=1)

    async def handle(record: Record, txn: Any) -> None:
        if record.value == b"bad":
            raise CannotHandleError("never")
        await txn.send("copies", record.value)

    async def wait_for_the_letter() -> None:
        while not cluster.records("letters"):  # noqa: ASYNC110 - no event
            await anyio.sleep(0.01)
        done.set()

    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"bad", partition=0)
        await producer.send("events", b"good", partition=0)
    async with (
        Producer(cluster.bootstrap_servers, transactional_id="copier") as producer,
        member(cluster) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(wait_for_the_letter)
        await run(consumer, handle, done, exactly_once=producer, retries=1, dead_letter_topic="letters")
    handled = spans.named("process events")
    bad, good = (
        [span for span in handled if attributes(span)["messaging.kafka.offset"] == offset] for offset in (0, 1)
    )
    letter = spans.named("send letters")[-1]
    assert ids(letter.parent) == ids(bad[-1])
    assert attributes(bad[0])["error.type"].endswith("CannotHandleError")
    assert ids(spans.named("send copies")[-1].parent) == ids(good[-1])


@pytest.mark.parametrize("how", ["plain", "in order", "exactly once"])
async def test_retry_topics_find_their_headers_before_those_of_the_trace(
    cluster: EmbeddedCluster, spans: Spans, how: str
) -> None:
    handled = anyio.Event()
    seen: list[Record] = []

    async def handle(record: Record, *txn: object) -> None:
        seen.append(record)
        if len(seen) < 3:
            raise CannotHandleError
        handled.set()

    options: dict[str, Any] = {"retries": 0, "retry_topics": ["50ms", "60ms"]}
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1", key=b"k", headers=[("own", b"1")])
    async with Producer(cluster.bootstrap_servers, transactional_id="t") as producer, member(cluster) as consumer:
        if how == "exactly once":
            options["exactly_once"] = producer
        elif how == "in order":
            options["retry_order"] = "key"
        await run(consumer, handle, handled, **options)
    assert [(record.topic, record.offset) for record in seen] == [("events", 0)] * 3
    assert {tuple(name for name, _ in record.headers) for record in seen} == {("own", "traceparent")}


async def test_a_handler_of_batches_has_a_span_for_each_attempt(cluster: EmbeddedCluster, spans: Spans) -> None:
    handlers, handled = Handlers(), anyio.Event()
    inside: list[tuple[int, int]] = []

    @handlers.on("events", max_records=3, max_wait_ms=60_000)
    async def handle(records: list[Record]) -> None:
        inside.append(ids(get_current_span()))
        if len(inside) == 1:
            raise CannotHandleError("not yet")
        handled.set()

    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(3):
            await producer.send_and_wait("events", b"%d" % number, partition=0)
    async with member(cluster) as consumer:
        await run(consumer, handlers, handled)
    failed, succeeded = spans.named("process events")
    assert inside == [ids(failed), ids(succeeded)]
    sent = {ids(span) for span in spans.named("send events")}
    for span in (failed, succeeded):
        assert attributes(span)["messaging.batch.message_count"] == 3
        assert {ids(link.context) for link in span.links} == sent
    assert failed.status.status_code is StatusCode.ERROR
    assert succeeded.status.status_code is StatusCode.UNSET
