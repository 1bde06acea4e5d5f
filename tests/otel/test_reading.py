"""Spans of a consumer's reads: the records received, and the current span while the application works on one."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, get_current_span

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead.errors import CommitFailedError, TopicAuthorizationFailedError
from aiokafka_lead.otel import processing, uninstrument
from aiokafka_lead.testing import EmbeddedCluster

from .support import Spans, attributes, ids, reader_of, unsampled_request

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


async def send(cluster: EmbeddedCluster, spans: Spans, count: int, **options: Any) -> list[ReadableSpan]:
    """Send numbered records one by one; return the spans of the sends."""
    before = len(spans.named("send events"))
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(count):
            await producer.send_and_wait("events", b"%d" % number, partition=0, **options)
        await spans.wait_for("send events", before + count)
    return spans.named("send events")[before:]


def here() -> tuple[int, int]:
    return ids(get_current_span().get_span_context())


NOWHERE = (0, 0)


async def test_the_span_of_a_record_is_current_in_the_body_of_a_loop(cluster: EmbeddedCluster, spans: Spans) -> None:
    sent = await send(cluster, spans, 4)
    inside: list[tuple[int, int]] = []
    async with reader_of(cluster, group_id="g") as consumer:
        async for _ in consumer:
            inside.append(here())
            await anyio.lowlevel.checkpoint()
            assert here() == inside[-1]
            assert len(spans.named("process events")) == len(inside) - 1
            if len(inside) == 4:
                break
        assert here() == NOWHERE
        done = spans.named("process events")
    assert [ids(span) for span in done] == inside
    assert [ids(span.parent) for span in done] == [ids(span) for span in sent]
    assert done[1].kind is SpanKind.CONSUMER
    assert {name: value for name, value in attributes(done[1]).items() if not name.startswith("server")} == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "events",
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "aiokafka-lead",
        "messaging.consumer.group.name": "g",
        "messaging.kafka.cluster.id": cluster.cluster_id,
        "messaging.kafka.offset": 1,
    }


async def test_a_loop_that_is_left_by_an_error_leaves_nothing_current(cluster: EmbeddedCluster, spans: Spans) -> None:
    await send(cluster, spans, 1)
    with spans.tracer.start_as_current_span("main") as main:
        async with reader_of(cluster) as consumer:
            try:
                async for _ in consumer:
                    raise KeyError
            except KeyError:
                pass
            assert here() == ids(main)
    assert len(spans.named("process events")) == 1


async def test_a_cancelled_loop_ends_its_span(cluster: EmbeddedCluster, spans: Spans) -> None:
    await send(cluster, spans, 1)
    async with reader_of(cluster) as consumer:
        with anyio.move_on_after(20) as scope:
            async for _ in consumer:
                scope.cancel()
                await anyio.sleep_forever()
        assert here() == NOWHERE
    assert len(spans.named("process events")) == 1


async def test_no_span_is_open_while_the_loop_waits(cluster: EmbeddedCluster, spans: Spans) -> None:
    await send(cluster, spans, 1)
    async with reader_of(cluster) as consumer, anyio.create_task_group() as tasks:

        async def read() -> None:
            async for _ in consumer:
                pass

        tasks.start_soon(read)
        await spans.wait_for("process events")
        tasks.cancel_scope.cancel()


async def test_a_span_that_is_current_around_the_loop_is_linked(cluster: EmbeddedCluster, spans: Spans) -> None:
    (sent,) = await send(cluster, spans, 1)
    with spans.tracer.start_as_current_span("main") as main:
        async with reader_of(cluster) as consumer:
            async for _ in consumer:
                break
    (span,) = spans.named("process events")
    assert ids(span.parent) == ids(sent)
    assert [ids(link.context) for link in span.links] == [ids(sent), ids(main)]


async def test_sends_within_the_body_go_on_with_the_trace(cluster: EmbeddedCluster, spans: Spans) -> None:
    (sent,) = await send(cluster, spans, 1)
    async with Producer(cluster.bootstrap_servers) as producer, reader_of(cluster) as consumer:
        async for record in consumer:
            await producer.send_and_wait("letters", record.value, headers=record.headers)
            break
        await spans.wait_for("send letters")
    letter, work = spans.one("send letters"), spans.one("process events")
    assert ids(letter.parent) == ids(work)
    assert ids(letter)[0] == ids(sent)[0]
    async with reader_of(cluster, "letters") as consumer:
        async for record in consumer:
            assert [key for key, _ in record.headers] == ["traceparent"]
            break
    assert ids(spans.one("process letters").parent) == ids(letter)


async def test_the_trace_of_a_record_that_is_not_sampled_goes_on_so(cluster: EmbeddedCluster, spans: Spans) -> None:
    with unsampled_request():
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send("events", b"1")
    async with Producer(cluster.bootstrap_servers) as producer, reader_of(cluster) as consumer:
        async for _ in consumer:
            assert here() == (0xABC, 0xDEF)
            await producer.send_and_wait("letters", b"2")
            break
        assert here() == NOWHERE
    assert spans.names() == []


async def test_records_without_a_context_begin_a_trace(cluster: EmbeddedCluster, spans: Spans) -> None:
    uninstrumented = Producer(cluster.bootstrap_servers)
    tracer, provider = spans.tracer, spans.provider
    uninstrument()
    async with uninstrumented as producer:
        await producer.send("events", b"1")
    from aiokafka_lead.otel import instrument

    instrument(tracer_provider=provider)
    async with reader_of(cluster) as consumer:
        async for _ in consumer:
            with tracer.start_as_current_span("inner"):
                break
    assert spans.one("process events").parent is None
    assert ids(spans.one("inner").parent) == ids(spans.one("process events"))


async def test_what_getmany_gives_is_received(cluster: EmbeddedCluster, spans: Spans) -> None:
    sent = await send(cluster, spans, 3)
    async with reader_of(cluster, group_id="g") as consumer:
        assert await consumer.getmany(TopicPartition("events", 1)) == {}
        (records,) = (await consumer.getmany(timeout_ms=20_000)).values()
        assert here() == NOWHERE
        with processing(records) as work:
            assert here() == ids(work)
        with pytest.raises(KeyError), processing(records[1]):
            raise KeyError("no such order")
    received = spans.one("receive events")
    assert received.kind is SpanKind.CLIENT
    assert attributes(received)["messaging.batch.message_count"] == len(records) == 3
    assert attributes(received)["messaging.destination.partition.id"] == "0"
    assert [ids(link.context) for link in received.links] == [ids(span) for span in sent]
    together, second = spans.named("process events")
    assert [ids(link.context) for link in together.links] == [ids(span) for span in sent]
    assert ids(second.parent) == ids(sent[1])
    assert attributes(second)["error.type"] == "KeyError"
    assert [event.name for event in second.events] == ["exception"]


async def test_what_getone_gives_is_received(cluster: EmbeddedCluster, spans: Spans) -> None:
    (sent,) = await send(cluster, spans, 1)
    async with reader_of(cluster) as consumer:
        await consumer.getone()
    received = spans.one("receive events")
    assert attributes(received)["messaging.kafka.offset"] == 0
    assert "messaging.batch.message_count" not in attributes(received)
    assert [ids(link.context) for link in received.links] == [ids(sent)]


async def test_batches_are_received_and_worked_on(cluster: EmbeddedCluster, spans: Spans) -> None:
    (sent,) = await send(cluster, spans, 1)
    async with Producer(cluster.bootstrap_servers) as producer:
        with unsampled_request():
            await (await producer.send_many("events", [b"1", b"2"], partition=0))
    async with reader_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        seen, inside = 0, NOWHERE
        async for batch in consumer.batches():
            inside = here()
            seen += len(batch)
            assert await batch.commit()
            if seen == 3:
                break
        assert here() == NOWHERE
    work = spans.named("process events")
    assert sum(attributes(span)["messaging.batch.message_count"] for span in work) == 3
    assert [ids(link.context) for span in work for link in span.links] == [ids(sent)]
    assert ids(work[-1]) == inside
    assert len(spans.named("receive events")) == len(work)
    commit = spans.named("commit events")[-1]
    assert ids(commit.parent) == inside


async def test_commits(cluster: EmbeddedCluster, spans: Spans) -> None:
    await send(cluster, spans, 1)
    async with reader_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        await consumer.getone()
        await consumer.commit({TopicPartition("events", 0): 1})
        await consumer.commit({TopicPartition("events", 0): 1, TopicPartition("events", 1): 0})
        with pytest.raises(CommitFailedError):
            await consumer.commit({TopicPartition("letters", 0): 1})
        cluster.faults.add("OffsetCommit", error_code=TopicAuthorizationFailedError, count=1)
        with pytest.raises(TopicAuthorizationFailedError):
            await consumer.commit({TopicPartition("events", 0): 1})
    one, two, refused = spans.named("commit events")
    assert one.kind is SpanKind.CLIENT
    assert attributes(one)["messaging.operation.type"] == "settle"
    assert attributes(one)["messaging.consumer.group.name"] == "g"
    assert attributes(one)["messaging.kafka.offset"] == 1
    assert attributes(two).get("messaging.destination.partition.id") is None
    assert attributes(refused)["error.type"] == "TOPIC_AUTHORIZATION_FAILED"
    assert attributes(spans.one("commit letters"))["error.type"] == "aiokafka_lead.errors.CommitFailedError"


async def test_a_consumer_records_nothing_once_that_is_taken_back(cluster: EmbeddedCluster, spans: Spans) -> None:
    await send(cluster, spans, 2)
    async with reader_of(cluster, group_id="g") as consumer:
        uninstrument()
        async for _ in consumer:
            assert here() == NOWHERE
            break
        await consumer.getone()
        await consumer.commit()
        with processing([]):
            assert here() == NOWHERE
    assert set(spans.names()) == {"send events"}
