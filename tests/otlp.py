"""A stand-in for an OpenTelemetry collector that receives spans by OTLP over HTTP, in OpenTelemetry's messages."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from aiokafka_lead.otel import instrument

__all__ = ["CollectedSpan", "Collector", "export_to"]


class CollectedSpan(NamedTuple):
    """A span as it was exported."""

    service: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    attributes: dict[str, Any]


class Collector:
    """Serves during a ``with`` block."""

    def __init__(self) -> None:
        self.spans: list[CollectedSpan] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *_: object) -> None:
                """Keep requests out of the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def paths(self) -> dict[tuple[int, int], list[CollectedSpan]]:
        """Return the span of each processed record and the spans above it, by partition and offset."""
        by_id = {span.span_id: span for span in self.spans}
        found: dict[tuple[int, int], list[CollectedSpan]] = {}
        for span in self.spans:
            if span.attributes.get("messaging.operation.type") != "process":
                continue
            path = [span]
            while (above := by_id.get(path[-1].parent_id)) is not None:
                path.append(above)
            place = int(span.attributes["messaging.destination.partition.id"])
            found[place, span.attributes["messaging.kafka.offset"]] = path
        return found


def _spans(request: ExportTraceServiceRequest) -> list[CollectedSpan]:
    found = []
    for resource in request.resource_spans:
        (service,) = [each.value.string_value for each in resource.resource.attributes if each.key == "service.name"]
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            attributes = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
            found.append(
                CollectedSpan(service, span.name, span.trace_id, span.span_id, span.parent_span_id, attributes)
            )
    return found


def export_to(endpoint: str, service: str) -> TracerProvider:
    """Set up this process to trace with OpenTelemetry's SDK."""
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")
    # A full queue drops spans silently, and a busy machine exports late.
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=100_000, schedule_delay_millis=200))
    trace.set_tracer_provider(provider)
    instrument()
    return provider
