"""Spans in memory, and helpers that inspect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags, use_span

from aiokafka_lead import Consumer, ConsumerRecord
from aiokafka_lead.testing import EmbeddedCluster

__all__ = ["Record", "Spans", "attributes", "ids", "reader_of", "trace_of", "unsampled_request"]

Record = ConsumerRecord[Any, Any]


class Spans(SpanProcessor):
    """Recorded spans."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._ended: anyio.Event | None = None
        """Set when another span has ended, while a test waits."""
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.provider.add_span_processor(self)
        self.tracer = self.provider.get_tracer("application")

    def on_end(self, span: ReadableSpan) -> None:
        if self._ended is not None:
            self._ended.set()

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the ended spans of this name, in order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def names(self) -> list[str]:
        """Return the names of all spans."""
        return [span.name for span in self._exporter.get_finished_spans()]

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of this name."""
        (span,) = self.named(name)
        return span

    async def wait_for(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """Wait for this number of ended spans of this name, and return them."""
        with anyio.fail_after(20):
            while len(found := self.named(name)) < count:
                self._ended = anyio.Event()
                await self._ended.wait()
        return found


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


def ids(span: ReadableSpan | Span | SpanContext | None) -> tuple[int, int]:
    """Return the ids of trace and span."""
    assert span is not None
    context = span if isinstance(span, SpanContext) else span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def trace_of(record: Record | Sequence[tuple[str, bytes | None]]) -> tuple[int, int, bool]:
    """Return the contents of a record's one trace header: ids of trace and span, and the sampling decision."""
    headers = record if isinstance(record, Sequence) else record.headers
    (value,) = [value for key, value in headers if key == "traceparent"]
    assert value is not None
    _, trace, span, flags = value.split(b"-")
    return int(trace, 16), int(span, 16), bool(int(flags, 16) & 1)


def unsampled_request() -> Any:
    """Run the block within a request whose trace is not recorded."""
    return use_span(NonRecordingSpan(SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(0))))


def reader_of(cluster: EmbeddedCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    """Return a consumer of these topics, or "events", from their beginning on."""
    options = {"auto_offset_reset": "earliest", **options}
    return Consumer(*(topics or ("events",)), bootstrap_servers=cluster.bootstrap_servers, **options)
