"""OpenTelemetry's metrics of clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead.errors import TopicAuthorizationFailedError
from aiokafka_lead.otel import instrument, uninstrument
from aiokafka_lead.testing import EmbeddedCluster

from .support import Record, Spans, reader_of, unsampled_request

pytestmark = pytest.mark.anyio

DURATION = "messaging.client.operation.duration"
SENT = "messaging.client.sent.messages"
CONSUMED = "messaging.client.consumed.messages"
PROCESS = "messaging.process.duration"


class Measures:
    """Recorded measurements."""

    def __init__(self, reader: InMemoryMetricReader) -> None:
        self._reader = reader

    def points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        """Return the data points of a metric, with their attributes."""
        data = self._reader.get_metrics_data()
        return [
            (dict(point.attributes or {}), point)
            for resource in (data.resource_metrics if data is not None else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def of(self, name: str, **wanted: str) -> Any:
        """Return the only point with these attributes; an underscore in a name means a dot."""
        attributes = {key.replace("_", "."): value for key, value in wanted.items()}
        (found,) = [point for has, point in self.points(name) if attributes.items() <= has.items()]
        return found


@pytest.fixture
def measures(spans: Spans) -> Iterator[Measures]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    instrument(tracer_provider=spans.provider, meter_provider=provider)
    yield Measures(reader)
    uninstrument()
    provider.shutdown()


async def test_what_is_sent(cluster: EmbeddedCluster, measures: Measures) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        with unsampled_request():
            await (await producer.send_many("events", [b"%d" % number for number in range(30)], partition=0))
        cluster.faults.add("Produce", topic="letters", error_code=TopicAuthorizationFailedError)
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("letters", b"1")
    sent = measures.of(SENT, messaging_destination_name="events")
    assert sent.value == 30
    host, port = cluster.bootstrap_servers.split(":")
    assert dict(sent.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "events",
        "server.address": host,
        "server.port": int(port),
    }
    assert measures.of(SENT, error_type="TOPIC_AUTHORIZATION_FAILED").value == 1
    took = measures.of(DURATION, messaging_destination_name="events")
    assert took.count == 1
    assert took.explicit_bounds[0] == 0.005


async def test_what_is_consumed(cluster: EmbeddedCluster, spans: Spans, measures: Measures) -> None:
    handled = anyio.Event()

    async def handle(record: Record) -> None:
        if record.value == b"bad":
            raise ValueError
        handled.set()

    async with Producer(cluster.bootstrap_servers) as producer:
        with unsampled_request():
            await (await producer.send_many("events", [b"1", b"2", b"3"], partition=0))
            await (await producer.send_many("letters", [b"bad", b"good"]))
    async with reader_of(cluster, group_id="g", enable_auto_commit=False) as consumer:
        await consumer.getone()
        assert len((await consumer.getmany(timeout_ms=20_000, max_records=1))[TopicPartition("events", 0)]) == 1
        async for _ in consumer:
            break
        await consumer.commit()
        assert measures.of(CONSUMED, messaging_consumer_group_name="g").value == 3
    assert measures.of(CONSUMED, messaging_consumer_group_name="g").value == 3
    assert measures.of(DURATION, messaging_operation_name="receive").count == 2
    assert measures.of(DURATION, messaging_operation_name="commit").count == 1
    assert measures.points(PROCESS) == []

    async with reader_of(cluster, "letters", group_id="h") as consumer, anyio.create_task_group() as tasks:

        async def stop() -> None:
            with anyio.fail_after(20):
                await handled.wait()
            await consumer.stop()

        tasks.start_soon(stop)
        await consumer.run(handle, dead_letter_topic="events", order="partition")
    failed, worked = sorted(
        (point for has, point in measures.points(PROCESS) if has["messaging.destination.name"] == "letters"),
        key=lambda point: "error.type" not in point.attributes,
    )
    assert failed.attributes["error.type"] == "ValueError"
    assert (failed.count, worked.count) == (1, 1)
    assert spans.named("process letters") == []


async def test_nothing_is_measured_once_that_is_taken_back(cluster: EmbeddedCluster, measures: Measures) -> None:
    async with Producer(cluster.bootstrap_servers) as producer, reader_of(cluster) as consumer:
        uninstrument()
        await producer.send_and_wait("events", b"1")
        async for _ in consumer:
            break
        await consumer.getmany()
    assert [measures.points(name) for name in (DURATION, SENT, PROCESS, CONSUMED)] == [[], [], [], []]


async def test_a_second_call_goes_on_counting(cluster: EmbeddedCluster, spans: Spans) -> None:
    provider = MeterProvider([reader := InMemoryMetricReader()])
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"1")
    for _ in range(2):
        instrument(tracer_provider=spans.provider, meter_provider=provider)
        async with reader_of(cluster) as consumer:
            await consumer.getone()
    assert Measures(reader).of(CONSUMED, messaging_destination_name="events").value == 2
    provider.shutdown()
