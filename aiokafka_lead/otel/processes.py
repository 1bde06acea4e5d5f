"""Spans for the application's processing of records. Each is the current span while the processing lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import Link, Span, SpanKind, get_current_span, set_span_in_context

from .._core.run.failures import reason_of
from .._core.tracing import TracedClient
from .._records import ConsumerRecord
from ..types import Headers
from .instruments import Kit, end, is_suppressed, is_valid, with_origin
from .names import Attribute, extracted, mark, may_be_sampled, read, record_exception, trace_header

MOST_LINKS = 128
"""OpenTelemetry's default limit of links per span."""

Record = ConsumerRecord[Any, Any]


class Process:
    """The processing of a record or a batch: a context that is current meanwhile, and a span if it is sampled."""

    __slots__ = ("began", "context", "error", "is_bare", "span", "topic")

    def __init__(self, context: Context, span: Span | None, topic: str | None, *, is_bare: bool = False) -> None:
        self.is_bare = is_bare
        """True if the processing is only measured, in the context that was current before."""
        self.context = context
        self.span = span
        self.topic = topic
        self.began = time.perf_counter()
        self.error: BaseException | None = None
        """Error of the latest attempt."""


@contextmanager
def current(context: Context) -> Iterator[None]:
    """Make the context current within the block."""
    # `detach` would need the token, which is invalid if the block ends in another task.
    before = get_current()
    attach(context)
    try:
        yield
    finally:
        attach(before)


class Processes:
    """Tracing of the processing of a consumer's records."""

    def __init__(self, kit: Kit, client: TracedClient | None) -> None:
        self.kit = kit
        self.client = client

    def is_off(self, context: Context) -> bool:
        """Return True if operations that begin in this context are not recorded, as far as is known."""
        return not self.kit.on or self.kit.rules.drops(get_current_span(context)) or is_suppressed(context)

    def process(self, record: Record) -> Process | None:
        """Begin the processing of a record; return None if it needs no context.

        The span is a child of the span that sent the record, and links to the current span.
        """
        ambient = get_current()
        if not self.kit.on or is_suppressed(ambient):
            return None
        header = trace_header(record.headers)
        if header is None and self.kit.rules.drops(get_current_span(ambient)):
            return self._measured(ambient, record.topic)
        context = with_origin(extracted(record.headers, ambient), header)
        parent = get_current_span(context)
        if self.kit.rules.drops(parent):
            return Process(context, None, record.topic)
        here = get_current_span(ambient)
        links = []
        if parent is not here:
            links = [Link(each.get_span_context()) for each in (parent, here) if is_valid(each)]
        pairs = (
            (Attribute.PARTITION, str(record.partition)),
            (Attribute.OFFSET, record.offset),
            (Attribute.TOMBSTONE, True if record.value is None else None),
        )
        span = self.kit.start("process", "process", SpanKind.CONSUMER, self.client, record.topic, pairs, context, links)
        return Process(set_span_in_context(span, context), span if span.is_recording() else None, record.topic)

    def process_batch(self, topic: str | None, partition: int | None, every: Sequence[Headers]) -> Process | None:
        """Begin the processing of several records. The span links to the spans that sent them."""
        ambient = get_current()
        if not self.kit.on or is_suppressed(ambient):
            return None
        if self.kit.rules.drops(get_current_span(ambient)):
            return self._measured(ambient, topic)
        pairs = (
            (Attribute.PARTITION, None if partition is None else str(partition)),
            (Attribute.MESSAGE_COUNT, len(every)),
        )
        span = self.kit.start("process", "process", SpanKind.CONSUMER, self.client, topic, pairs, ambient)
        if span.is_recording():
            link(span, every)
            return Process(set_span_in_context(span, ambient), span, topic)
        return Process(set_span_in_context(span, ambient), None, topic)

    def process_all(self, records: Sequence[Record]) -> Process | None:
        """Begin the processing of several records, as `process_batch` does."""
        place = place_of([(record.topic, record.partition) for record in records])
        return self.process_batch(*place, [record.headers for record in records])

    @contextmanager
    def during(self, process: Process | None) -> Iterator[None]:
        """Make the processing current within the block, and end it with the block."""
        if process is None:
            yield
            return
        with current(process.context):
            try:
                yield
            except BaseException as error:
                self.end(process, error)
                raise
        self.end(process)

    def _measured(self, context: Context, topic: str | None) -> Process | None:
        """Begin processing without a span. Its duration is measured if metrics are collected."""
        return None if self.kit.instruments is None else Process(context, None, topic, is_bare=True)

    def end(self, process: Process, error: BaseException | None = None) -> None:
        """End the processing, with this error if it failed."""
        instruments = self.kit.instruments
        if instruments is not None and self.kit.on:
            instruments.processed(self.client, process.topic, time.perf_counter() - process.began, error)
        self.end_span(process, error)

    def end_span(self, process: Process, error: BaseException | None) -> None:
        """End the span of unmeasured processing, with this error if it failed."""
        if process.span is not None:
            if error is not None:
                record_exception(process.span, error)
                mark(process.span, error, self.kit.words)
            end(process.span)

    def retry(self, process: Process, error: BaseException, attempts: int) -> None:
        """Record a failed attempt that will be repeated."""
        if process.span is not None:
            record_exception(process.span, error)
            process.span.add_event("retry", {"attempts": attempts, "exception.message": reason_of(error)})


def link(span: Span, every: Sequence[Headers]) -> None:
    """Link a span to the sampled spans that sent records with these headers, once to each."""
    seen: set[bytes] = set()
    links = 0
    for headers in every:
        header = trace_header(headers) if headers else None
        if header is None or header in seen or not may_be_sampled(header):
            continue
        seen.add(header)
        sender = get_current_span(read(headers)).get_span_context()
        if sender.trace_flags.sampled:
            span.add_link(sender)
            links += 1
            if links == MOST_LINKS:
                return


def place_of(places: Sequence[tuple[str, int]]) -> tuple[str | None, int | None]:
    """Return the topic and the partition of the records. Each is None unless it is the same for all records."""
    topics = {topic for topic, _ in places}
    if len(topics) != 1:
        return None, None
    partitions = {partition for _, partition in places}
    return topics.pop(), partitions.pop() if len(partitions) == 1 else None
