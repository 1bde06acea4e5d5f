"""Spans and metrics of share consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, get_current_span

from aiokafka_lead import Producer, ShareConsumer
from aiokafka_lead.errors import ShareSessionNotFoundError
from aiokafka_lead.otel import instrument, uninstrument
from aiokafka_lead.testing import EmbeddedCluster
from tests.share.support import Handled, Record, configure, take

from .support import Spans, attributes, ids, reader_of, trace_of, unsampled_request
from .test_metrics import CONSUMED, DURATION, PROCESS, Measures

pytestmark = pytest.mark.anyio


@pytest.fixture(name="jobs")
async def member(cluster: EmbeddedCluster, spans: Spans) -> AsyncIterator[ShareConsumer]:
    await configure(cluster.bootstrap_servers, "workers")
    async with ShareConsumer(
        "events", bootstrap_servers=cluster.bootstrap_servers, group_id="workers", fetch_max_wait_ms=50
    ) as jobs:
        yield jobs


async def send(cluster: EmbeddedCluster, spans: Spans, count: int) -> list[ReadableSpan]:
    """Send numbered records in one batch; return the spans of the sends."""
    async with Producer(cluster.bootstrap_servers, linger_ms=60_000) as producer:
        for number in range(count):
            await producer.send("events", b"%d" % number, partition=0)
        await producer.flush()
        return await spans.wait_for("send events", count)


async def test_from_a_send_into_the_handler_and_to_the_acknowledgement(
    cluster: EmbeddedCluster, spans: Spans, jobs: ShareConsumer
) -> None:
    (sent,) = await send(cluster, spans, 1)
    inside: list[tuple[int, int]] = []

    async def handle(record: Record) -> None:
        inside.append(ids(get_current_span()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(jobs.run, handle)
        await spans.wait_for("acknowledge events")
        await jobs.stop()
    work, settled = spans.one("process events"), spans.one("acknowledge events")
    assert inside == [ids(work)]
    assert ids(work.parent) == ids(sent)
    assert attributes(work)["messaging.consumer.group.name"] == "workers"
    assert settled.kind is SpanKind.CLIENT
    assert settled.parent is None
    assert {name: value for name, value in attributes(settled).items() if not name.startswith("server")} == {
        "messaging.system": "kafka",
        "messaging.operation.name": "acknowledge",
        "messaging.operation.type": "settle",
        "messaging.destination.name": "events",
        "messaging.destination.partition.id": "0",
        "messaging.client.id": "aiokafka-lead",
        "messaging.consumer.group.name": "workers",
        "messaging.kafka.cluster.id": cluster.cluster_id,
        "messaging.batch.message_count": 1,
    }


async def test_each_delivery_has_a_span_and_a_dead_letter_goes_on_with_the_trace(
    cluster: EmbeddedCluster, spans: Spans, jobs: ShareConsumer
) -> None:
    (sent,) = await send(cluster, spans, 1)

    async def handle(record: Record) -> None:
        raise ValueError("never")

    async def run() -> None:
        await jobs.run(handle, retries=1, retry_backoff_ms=1, dead_letter_topic="letters")

    found: list[Any] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        async with reader_of(cluster, "letters") as letters:
            found.append(await letters.getone())
        await jobs.stop()
    (letter,) = found
    first, last = spans.named("process events")
    assert ids(first.parent) == ids(last.parent) == ids(sent)
    assert attributes(first)["error.type"] == attributes(last)["error.type"] == "ValueError"
    assert [event.name for event in first.events] == ["exception", "retry", "exception"]
    assert [event.name for event in last.events] == ["dead letter", "exception"]
    (buried,) = spans.named("send letters")
    assert ids(buried.parent) == ids(last)
    assert trace_of(letter)[:2] == ids(buried)


async def test_the_span_of_a_record_is_current_in_the_body_of_a_loop(
    cluster: EmbeddedCluster, spans: Spans, jobs: ShareConsumer
) -> None:
    sent = await send(cluster, spans, 3)
    inside: list[tuple[int, int]] = []
    async for _ in jobs:
        inside.append(ids(get_current_span()))
        if len(inside) == 3:
            break
    assert get_current_span().get_span_context().span_id == 0
    assert [ids(span) for span in spans.named("process events")] == inside
    assert [ids(span.parent) for span in spans.named("process events")] == [ids(span) for span in sent]


async def test_what_comes_together_is_linked(cluster: EmbeddedCluster, spans: Spans, jobs: ShareConsumer) -> None:
    sent = await send(cluster, spans, 3)
    work = (0, 0)
    async for batch in jobs.batches():
        assert len(batch) == 3
        work = ids(get_current_span())
        break
    received = spans.one("receive events")
    assert attributes(received)["messaging.batch.message_count"] == 3
    for span in (received, spans.one("process events")):
        assert [ids(link.context) for link in span.links] == [ids(each) for each in sent]
    assert work == ids(spans.one("process events"))


async def test_what_getmany_gives_was_received(cluster: EmbeddedCluster, spans: Spans, jobs: ShareConsumer) -> None:
    (sent,) = await send(cluster, spans, 1)
    assert len(await take(jobs, 1)) == 1
    (link,) = spans.one("receive events").links
    assert ids(link.context) == ids(sent)


async def test_an_acknowledgement_that_is_refused(cluster: EmbeddedCluster, spans: Spans, jobs: ShareConsumer) -> None:
    await send(cluster, spans, 1)
    await take(jobs, 1)
    cluster.faults.add("ShareAcknowledge", error_code=ShareSessionNotFoundError, whole=True, count=1)
    await jobs.commit()
    assert attributes(spans.named("acknowledge events")[0])["error.type"] == "SHARE_SESSION_NOT_FOUND"


async def test_within_a_request_that_is_not_sampled(
    cluster: EmbeddedCluster, spans: Spans, jobs: ShareConsumer
) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        with unsampled_request():
            await producer.send_and_wait("events", b"1")
    inside: list[bool] = []

    async def handle(record: Record) -> None:
        inside.append(get_current_span().is_recording())
        await jobs.stop()

    await jobs.run(handle)
    assert inside == [False]
    assert "process events" not in spans.names()


async def test_metrics(cluster: EmbeddedCluster, spans: Spans) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    instrument(tracer_provider=spans.provider, meter_provider=provider)
    measures, handled = Measures(reader), Handled()
    await configure(cluster.bootstrap_servers, "workers")
    await send(cluster, spans, 3)
    group: dict[str, Any] = {"messaging_consumer_group_name": "workers"}
    async with (
        ShareConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="workers") as jobs,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(jobs.run, handled)
        await handled.until(3)
        assert measures.of(CONSUMED, **group).value == 3
        await jobs.stop()
    uninstrument()
    assert measures.of(CONSUMED, **group).value == 3
    assert measures.of(PROCESS, **group).count == 3
    assert measures.of(DURATION, messaging_operation_name="acknowledge", **group).count >= 1
    provider.shutdown()
