"""Ways to turn tracing on, including OpenTelemetry's own tools, through to a receiver of its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points
from threading import Thread

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from aiokafka_lead import Producer
from aiokafka_lead.otel import instrument, uninstrument
from aiokafka_lead.otel.instrumentor import AIOKafkaLeadInstrumentor
from aiokafka_lead.testing import EmbeddedCluster

from .support import Spans, reader_of

pytestmark = pytest.mark.anyio


async def test_the_entry_point_instruments(cluster: EmbeddedCluster) -> None:
    (found,) = [each for each in entry_points(group="opentelemetry_instrumentor") if each.name == "aiokafka_lead"]
    assert found.load() is AIOKafkaLeadInstrumentor
    spans = Spans()
    instrumentor = AIOKafkaLeadInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send("events", b"1")
    instrumentor.uninstrument()
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send("events", b"2")
    assert spans.names() == ["send events"]


async def test_twice_is_once(cluster: EmbeddedCluster, spans: Spans) -> None:
    instrument(tracer_provider=spans.provider)
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send("events", b"1")
    assert spans.names() == ["send events"]


@contextmanager
def receiver(into: list[ExportTraceServiceRequest]) -> Iterator[str]:
    """Run a server of OTLP over HTTP; yield the URL that takes spans."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            into.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Keep requests out of the log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces"
        server.shutdown()
        thread.join()


async def test_a_receiver_of_otlp_gets_the_whole_trace(cluster: EmbeddedCluster) -> None:
    requests: list[ExportTraceServiceRequest] = []
    with receiver(requests) as endpoint:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        instrument(tracer_provider=provider)
        async with Producer(cluster.bootstrap_servers) as producer:
            with provider.get_tracer("application").start_as_current_span("POST /orders"):
                await producer.send_and_wait("events", b"1")
        async with reader_of(cluster) as consumer:
            async for _ in consumer:
                break
        uninstrument()
        provider.shutdown()
    scopes = [scope for request in requests for each in request.resource_spans for scope in each.scope_spans]
    spans = {span.name: span for scope in scopes for span in scope.spans}
    request, sent, work = spans["POST /orders"], spans["send events"], spans["process events"]
    assert (sent.parent_span_id, work.parent_span_id) == (request.span_id, sent.span_id)
    assert {span.trace_id for span in (request, sent, work)} == {request.trace_id}
    assert (sent.kind, work.kind) == (Span.SPAN_KIND_PRODUCER, Span.SPAN_KIND_CONSUMER)
    (ours,) = {(scope.scope.name, scope.schema_url) for scope in scopes if scope.scope.name == "aiokafka_lead"}
    assert ours[1].endswith("/1.44.0")
