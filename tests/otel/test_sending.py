"""Spans of sends: they end with the acknowledgement, and records carry their context."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry import baggage, propagate
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, attach, detach, set_value
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator, default_getter, default_setter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aiokafka_lead import Producer
from aiokafka_lead.compat import AIOKafkaProducer
from aiokafka_lead.errors import ConfigTypeError, KafkaError, MessageTooLargeError, TopicAuthorizationFailedError
from aiokafka_lead.otel import uninstrument
from aiokafka_lead.testing import EmbeddedCluster

from .support import Record, Spans, attributes, ids, reader_of, trace_of, unsampled_request

pytestmark = pytest.mark.anyio


async def written(cluster: EmbeddedCluster, count: int) -> list[Record]:
    """Return this many records of "events", read without tracing."""
    uninstrument()
    found: list[Record] = []
    async with reader_of(cluster) as consumer:
        with anyio.fail_after(20):
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += records
    return found


async def test_a_span_ends_with_the_acknowledgement(cluster: EmbeddedCluster, spans: Spans) -> None:
    held = cluster.faults.add("Produce", after=True, hold=True)
    async with Producer(cluster.bootstrap_servers, client_id="orders", linger_ms=0) as producer:
        with spans.tracer.start_as_current_span("request") as request:
            delivery = await producer.send("events", None, key=b"k1", partition=2)
        with anyio.fail_after(20):
            await cluster.wait_for_requests("Produce")
        assert spans.names() == ["request"]
        held.remove()
        metadata = await delivery
        (span,) = await spans.wait_for("send events")
    assert span.kind is SpanKind.PRODUCER
    assert span.status.status_code is StatusCode.UNSET
    assert span.parent is not None
    assert ids(span.parent) == ids(request)
    host, port = cluster.bootstrap_servers.split(":")
    assert attributes(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "events",
        "messaging.destination.partition.id": "2",
        "messaging.client.id": "orders",
        "messaging.kafka.cluster.id": cluster.cluster_id,
        "messaging.kafka.message.key": "k1",
        "messaging.kafka.message.tombstone": True,
        "messaging.kafka.offset": metadata.offset,
        "server.address": host,
        "server.port": int(port),
    }
    (record,) = await written(cluster, 1)
    assert trace_of(record) == (*ids(span), True)


async def test_nothing_is_current_after_a_send(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1")
        producer.send_nowait("events", b"2")
        with spans.tracer.start_as_current_span("later"):
            pass
        await spans.wait_for("send events", 2)
    assert spans.one("later").parent is None


async def test_a_refused_record_ends_its_span_with_the_error(cluster: EmbeddedCluster, spans: Spans) -> None:
    cluster.faults.add("Produce", error_code=TopicAuthorizationFailedError)
    async with Producer(cluster.bootstrap_servers) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("events", b"1", partition=0)
        (span,) = await spans.wait_for("send events")
    assert attributes(span)["error.type"] == "TOPIC_AUTHORIZATION_FAILED"
    assert attributes(span)["messaging.destination.partition.id"] == "0"
    assert "messaging.kafka.offset" not in attributes(span)
    assert span.status.status_code is StatusCode.ERROR


async def test_a_record_that_is_not_taken_ends_its_span(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers, max_request_size=1000, max_block_ms=1000) as producer:
        await producer.partitions_for("events", timeout_ms=20_000)
        with pytest.raises(MessageTooLargeError):
            await producer.send("events", b"x" * 2000)
        with pytest.raises(MessageTooLargeError):
            producer.send_nowait("events", b"x" * 2000)
        with pytest.raises(KafkaError):
            await producer.send("unknown", b"1", partition=7)
        with pytest.raises(ConfigTypeError):
            await producer.send_many("events", [1])  # type: ignore[list-item]
    found = [attributes(span)["error.type"] for span in spans.named("send events")]
    assert found == ["MESSAGE_TOO_LARGE"] * 2 + ["aiokafka_lead.errors.ConfigTypeError"]
    assert len(spans.named("send unknown")) == 1


async def test_records_sent_together_have_one_span(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        batch = await producer.send_many("events", [b"%d" % number for number in range(50)], partition=1)
        await batch
        await producer.send_many("events", [b"a", b"b"], headers=[[("own", b"1")], [("own", b"2")]], partition=0)
        await producer.send_many("events", [])
    found = sorted(spans.named("send events"), key=lambda span: attributes(span)["messaging.batch.message_count"])
    none, two, many = found
    assert attributes(many)["messaging.batch.message_count"] == 50
    assert attributes(many)["messaging.destination.partition.id"] == "1"
    records = await written(cluster, 52)
    assert {trace_of(record) for record in records if record.partition == 1} == {(*ids(many), True)}
    own = [record for record in records if record.partition == 0]
    assert [trace_of(record) for record in own] == [(*ids(two), True)] * 2
    assert [record.headers[0] for record in own] == [("own", b"1"), ("own", b"2")]
    assert attributes(none)["messaging.batch.message_count"] == 0


async def test_the_first_failure_of_many_is_that_of_the_span(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers, max_request_size=1000) as producer:
        outcomes = await (await producer.send_many("events", [b"1", b"x" * 2000, b"3"]))
        assert isinstance(outcomes[1], MessageTooLargeError)
        (span,) = await spans.wait_for("send events")
    assert attributes(span)["error.type"] == "MESSAGE_TOO_LARGE"


async def test_a_divided_batch_ends_its_span_once(cluster: EmbeddedCluster, spans: Spans) -> None:
    cluster.faults.add("Produce", error_code=MessageTooLargeError, count=1)
    async with Producer(cluster.bootstrap_servers, linger_ms=50) as producer:
        batch = await producer.send_many("events", [b"%d" % number for number in range(20)], partition=0)
        with spans.tracer.start_as_current_span("request"):
            delivery = producer.send_nowait("events", b"20", partition=0)
        await batch
        await delivery
        assert producer.metrics().batches_split > 0
        await spans.wait_for("send events", 2)
    assert spans.names().count("send events") == 2


async def test_what_is_not_sampled_is_carried_and_not_recorded(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        with unsampled_request():
            for number in range(5):
                await producer.send("events", b"%d" % number)
                producer.send_nowait("events", b"%d" % number, headers=[("own", b"1")])
            await (await producer.send_many("events", [b"a", b"b"]))
            await (await producer.send_many("events", [b"c"], keys=[b"k"], headers=[("own", b"1")]))
    records = await written(cluster, 13)
    assert spans.names() == []
    assert {trace_of(record) for record in records} == {(0xABC, 0xDEF, False)}
    assert sum(("own", b"1") in record.headers for record in records) == 6


async def test_each_request_has_a_decision_of_its_own(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for _ in range(3):
            with unsampled_request():
                await producer.send("events", b"0")
            with spans.tracer.start_as_current_span("request"):
                await producer.send("events", b"1")
                await producer.send("letters", b"1")
            await producer.send("events", b"2")
    assert len(spans.named("send events")) == 6
    assert len(spans.named("send letters")) == 3


@pytest.mark.parametrize("sampler", [ALWAYS_OFF, ParentBased(ALWAYS_OFF), TraceIdRatioBased(0)])
async def test_a_sampler_that_drops_everything(cluster: EmbeddedCluster, spans: Spans, sampler: Sampler) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(3):
            await producer.send("events", b"%d" % number)
        await (await producer.send_many("events", [b"a", b"b"]))
    assert spans.names() == []
    traces = [trace_of(record) for record in await written(cluster, 5) if record.headers]
    assert not any(sampled for _, _, sampled in traces)


async def test_a_context_of_the_applications_own_is_kept_and_linked(cluster: EmbeddedCluster, spans: Spans) -> None:
    own = b"00-0000000000000000000000000000abcd-00000000000000ef-01"
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1", headers=[("traceparent", own)])
    (record,) = await written(cluster, 1)
    assert trace_of(record) == (0xABCD, 0xEF, True)
    span = spans.one("send events")
    assert span.kind is SpanKind.CLIENT
    assert [ids(link.context) for link in span.links] == [(0xABCD, 0xEF)]


async def test_baggage_travels_along(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        token = attach(baggage.set_baggage("tenant", "blue"))
        await producer.send("events", b"1")
        detach(token)
    (record,) = await written(cluster, 1)
    assert ("baggage", b"tenant=blue") in record.headers


async def test_where_instrumentation_is_suppressed_nothing_is_recorded(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        await producer.send("events", b"1")
        await producer.send("events", b"2")
        detach(token)
    assert [record.headers for record in await written(cluster, 2)] == [(), ()]
    assert spans.names() == []


async def test_serializers_are_called_once(cluster: EmbeddedCluster, spans: Spans) -> None:
    calls: list[str] = []

    def serialize(value: str) -> bytes:
        calls.append(value)
        return value.encode()

    async with Producer(cluster.bootstrap_servers, value_serializer=serialize) as producer:
        await producer.send("events", "1")
        with unsampled_request():
            await producer.send("events", "2")
            await producer.send("events", "3")
    assert calls == ["1", "2", "3"]
    assert len(spans.named("send events")) == 1
    assert len(await written(cluster, 3)) == 3


async def test_sends_of_a_transaction(cluster: EmbeddedCluster, spans: Spans) -> None:
    async with Producer(cluster.bootstrap_servers, transactional_id="payments", linger_ms=1000) as producer:
        async with producer.transaction() as txn:
            await txn.send("events", b"1")
            with unsampled_request():
                for _ in range(3):
                    await txn.send("events", b"2")
        async with producer.transaction() as txn:
            txn.send_nowait("events", b"3")
            await producer.abort_transaction()
    kept, aborted = spans.named("send events")
    assert "error.type" not in attributes(kept)
    assert attributes(aborted)["error.type"] == "aiokafka_lead.errors.TransactionAbortedError"


async def test_a_running_producer_records_nothing_once_that_is_taken_back(
    cluster: EmbeddedCluster, spans: Spans
) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send("events", b"1")
        uninstrument()
        await producer.send("events", b"2")
        await (await producer.send_many("events", [b"3"]))
    assert len(spans.named("send events")) == 1
    assert sum(bool(record.headers) for record in await written(cluster, 3)) == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_batch_that_was_filled_by_hand_has_a_span_and_its_records_the_context(
    cluster: EmbeddedCluster, spans: Spans
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, compression_type="gzip") as producer:
        batch = producer.create_batch()
        batch.append(key=b"k", value=b"1", timestamp=7, headers=[("h", b"x")])
        batch.append(key=None, value=None, timestamp=8)
        found = await (await producer.send_batch(batch, "events", partition=1))
        (span,) = await spans.wait_for("send events")
    assert found is not None
    assert found.offset == 0
    assert attributes(span)["messaging.batch.message_count"] == 2
    first, second = await written(cluster, 2)
    assert (first.key, first.value, first.timestamp_ms, dict(first.headers)["h"]) == (b"k", b"1", 7, b"x")
    assert (second.key, second.value, second.timestamp_ms) == (None, None, 8)
    assert trace_of(first) == trace_of(second)
    assert span.context is not None
    assert b"%032x" % span.context.trace_id in (dict(first.headers)["traceparent"] or b"")


class InParts(TextMapPropagator):
    """Writes a header for each part of a context, like B3, and one named after the baggage's key, like Jaeger."""

    @property
    def fields(self) -> set[str]:
        return {"x-trace", "x-span", "x-sampled"}

    def inject(self, carrier: Any, context: Context | None = None, setter: Setter[Any] = default_setter) -> None:
        span = get_current_span(context).get_span_context()
        setter.set(carrier, "x-trace", f"{span.trace_id:032x}")
        setter.set(carrier, "x-span", f"{span.span_id:016x}")
        setter.set(carrier, "x-sampled", str(int(span.trace_flags)))
        setter.set(carrier, "x-baggage-user", "ann")

    def extract(self, carrier: Any, context: Context | None = None, getter: Getter[Any] = default_getter) -> Context:
        context = Context() if context is None else context
        trace, span, sampled = (getter.get(carrier, name) for name in ("x-trace", "x-span", "x-sampled"))
        if not trace or not span or not sampled:
            return context
        found = SpanContext(int(trace[0], 16), int(span[0], 16), True, TraceFlags(int(sampled[0])))
        return set_span_in_context(NonRecordingSpan(found), context)


@pytest.fixture(params=[InParts(), CompositePropagator([TraceContextTextMapPropagator(), InParts()])])
def propagator(request: pytest.FixtureRequest) -> Iterator[TextMapPropagator]:
    before = propagate.get_global_textmap()
    propagate.set_global_textmap(request.param)
    yield request.param
    propagate.set_global_textmap(before)


@pytest.mark.parametrize("sampler", [None, ALWAYS_OFF])
async def test_headers_that_are_passed_on_hold_each_name_once(
    cluster: EmbeddedCluster, spans: Spans, propagator: TextMapPropagator
) -> None:
    hops = 3
    async with Producer(cluster.bootstrap_servers) as producer, reader_of(cluster) as consumer:
        await producer.send_and_wait("events", b"0", partition=0, headers=[("own", b"1"), ("x-baggage-user", b"eve")])
        with anyio.fail_after(20):
            async for record in consumer:
                number = int(record.value or b"")
                if number == hops:
                    break
                await producer.send_and_wait("events", b"%d" % (number + 1), partition=0, headers=record.headers)
                await producer.send_and_wait("letters", record.value, headers=record.headers)
    for record in [*cluster.records("events"), *cluster.records("letters")]:
        names = [name for name, _ in record.headers]
        assert sorted(names) == sorted({"own", "x-baggage-user", *propagator.fields} & set(names))
        assert {"own", "x-trace"} <= set(names)
    if spans.names():
        assert len({ids(span)[0] for span in [*spans.named("send events"), *spans.named("process events")]}) == 1
