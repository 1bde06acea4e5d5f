"""A consumer's spans, for receiving, processing and committing records."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import Link, Span, SpanKind, get_current_span, set_span_in_context

from .._core.consumer.record_batch import RecordBatch
from .._core.run.failures import reason_of
from .._core.tracing import BatchLoop, RecordLoop, RunTracing, TracedClient
from .._core.unsampled import Unsampled
from .._records import ConsumerRecord
from ..types import Headers, OffsetAndMetadata, TopicPartition
from .instruments import Kit, current_getter, end, is_suppressed, is_valid, with_origin
from .names import Attribute, Value, extracted, mark, may_be_sampled, read, record_exception, trace_header

# --- spans of the application's processing ----------------------------------------------------------------------------
#
# Such a span is the current one while the application processes its records.

MOST_LINKS = 128
"""OpenTelemetry's default limit of links per span."""

Record = ConsumerRecord[Any, Any]


class Process:
    """The processing of a record or a batch: its context, and its span if it is sampled."""

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
    """In the block, make this context the current one."""
    # `detach` would need the token, which is invalid if the block ends in another task.
    before = get_current()
    attach(context)
    try:
        yield
    finally:
        attach(before)


class Processes:
    """Traces how the application processes a consumer's records."""

    def __init__(self, kit: Kit, client: TracedClient | None) -> None:
        self.kit = kit
        self.client = client

    def is_off(self, context: Context) -> bool:
        """Return True if operations that begin in this context are certain not to be recorded."""
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
        """Add an event for a failed attempt that will be repeated. ``attempts`` is the number of attempts so far."""
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


# --- spans of run -----------------------------------------------------------------------------------------------------
#
# In `Consumer.run`, each record has a span, which contains all its attempts.
#
# In `ShareConsumer.run`, each delivery has a span, because the next delivery may be to another member.


Key = tuple[str, int, int, int]


class Run:
    """Creates the spans of one call of `run`.

    The span of a record ends when the record is handled, dead-lettered or given up.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._open: dict[Key, Process] = {}
        """Spans of records that are being handled, or will be handled again after a failure."""

    def around(self, handle: Callable[[Record], Awaitable[object]]) -> Callable[[Record], Awaitable[object]]:
        """Return the handler wrapped in the record's span."""

        async def traced(record: Record) -> None:
            key = _key(record)
            process = self._open.get(key) or self._processes.process(record)
            if process is None:
                await handle(record)
                return
            self._open[key] = process
            before = get_current()
            attach(process.context)
            try:
                await handle(record)
            except BaseException as error:
                process.error = error
                raise
            finally:
                attach(before)
            self._end(key, None)

        return traced

    def together(self, records: Sequence[Record]) -> AbstractContextManager[object]:
        """Return a context manager for one call of a handler with several records."""
        return self._processes.during(self._processes.process_all(records))

    def retried(self, record: Record, error: BaseException, attempts: int) -> None:
        """Add an event for the failed attempt. The handler will be called again within the same span."""
        process = self._open.get(_key(record))
        if process is not None:
            self._processes.retry(process, error, attempts)

    def within(self, record: Record) -> AbstractContextManager[object]:
        """Return a context manager that makes the span of a failed record current again."""
        process = self._open.get(_key(record))
        return nullcontext() if process is None else current(process.context)

    def dead_letter(self, record: Record, error: BaseException, topic: str) -> None:
        """End the record's span with the error, after an event that names the dead-letter topic."""
        process = self._open.get(_key(record))
        if process is not None and process.span is not None:
            process.span.add_event("dead letter", {Attribute.DESTINATION.value[0]: topic})
        self.failed(record, error)

    def failed(self, record: Record, error: BaseException) -> None:
        """End the span of a record that was given up because of this error."""
        self._end(_key(record), error)

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """End the spans of records that wait for a retry, in these partitions (default: in all partitions)."""
        for key, process in list(self._open.items()):
            if partitions is None or key[:2] in partitions:
                self._end(key, process.error)

    def _end(self, key: Key, error: BaseException | None) -> None:
        process = self._open.pop(key, None)
        if process is not None:
            self._processes.end(process, error)


def _key(record: Any) -> Key:
    # A share group's record may be delivered again while a handler that lost its lock is still working.
    return record.topic, record.partition, record.offset, getattr(record, "delivery_count", 1)


class Reads(Processes):
    """Creates the spans of one consumer: reads, processing, commits and acknowledgements."""

    # --- receiving ---------------------------------------------------------------------------------------------------

    def received(self, began: int, records: Sequence[Record]) -> None:
        """Trace a call that began at ``began`` (``time.time_ns()``) and has returned these records."""
        if not self.kit.on:
            return
        topic, partition = place_of([(record.topic, record.partition) for record in records])
        one = records[0] if len(records) == 1 else None
        span = self.receive(
            began, topic, partition, None if one is not None else len(records), None if one is None else one.offset
        )
        if span is not None:
            link(span, [record.headers for record in records])
            end(span)

    def receive(
        self, began: int, topic: str | None, partition: int | None, count: int | None, offset: int | None
    ) -> Span | None:
        if self.kit.instruments is not None and self.kit.on:
            self.kit.instruments.operation("receive", "receive", self.client, topic, began)
        context = get_current()
        if self.is_off(context):
            return None
        pairs = (
            (Attribute.PARTITION, None if partition is None else str(partition)),
            (Attribute.MESSAGE_COUNT, count),
            (Attribute.OFFSET, offset),
        )
        span = self.kit.start("receive", "receive", SpanKind.CLIENT, self.client, topic, pairs, context, began=began)
        return span if span.is_recording() else None

    # --- loops and runs ----------------------------------------------------------------------------------------------

    def records(self) -> RecordLoop:
        """Return the tracing of a loop over records."""
        return RecordsLoop(self)

    def batches(self) -> BatchLoop:
        """Return the tracing of a loop over batches."""
        return BatchesLoop(self)

    def run(self) -> RunTracing:
        """Return the tracing of a call of `Consumer.run` or `ShareConsumer.run`."""
        return Run(self)

    def stopped(self) -> None:
        """Stop counting the consumer's records, because it has stopped."""
        if self.kit.instruments is not None and self.client is not None:
            self.kit.instruments.stopped(self.client)

    # --- commits -----------------------------------------------------------------------------------------------------

    def committed(
        self, began: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None
    ) -> None:
        """Trace a commit that began at ``began``. ``error`` is None if it succeeded."""
        context = get_current()
        topic, partition = place_of(list(offsets))
        if self.kit.instruments is not None and self.kit.on:
            self.kit.instruments.operation("commit", "settle", self.client, topic, began, error)
        if self.is_off(context):
            return
        one = next(iter(offsets.values())).offset if len(offsets) == 1 else None
        self._settled("commit", topic, partition, (Attribute.OFFSET, one), context, began, error)

    def acknowledged(self, began: int, counts: Mapping[TopicPartition, int], error: BaseException | None) -> None:
        """Trace a request with acknowledgements for these numbers of records."""
        # Called by a connection, whose current context is the context in which the connection was created.
        context = Context()
        topic, partition = place_of(list(counts))
        if self.kit.instruments is not None and self.kit.on:
            self.kit.instruments.operation("acknowledge", "settle", self.client, topic, began, error)
        if not self.is_off(context):
            count = (Attribute.MESSAGE_COUNT, sum(counts.values()))
            self._settled("acknowledge", topic, partition, count, context, began, error)

    def _settled(
        self,
        operation: str,
        topic: str | None,
        partition: int | None,
        what: tuple[Attribute, Value | None],
        context: Context,
        began: int,
        error: BaseException | None,
    ) -> None:
        pairs = ((Attribute.PARTITION, None if partition is None else str(partition)), what)
        span = self.kit.start(operation, "settle", SpanKind.CLIENT, self.client, topic, pairs, context, began=began)
        if error is not None:
            mark(span, error, self.kit.words)
        end(span)


class Loop:
    """Manages the current context in the body of a loop, until the next step or the end of the loop.

    The body runs in the task that requests the next record, so it has the same context. Only the loop refers to the
    iterator, and only the iterator refers to this object. Therefore ``__del__`` runs, however the loop ends.
    """

    __slots__ = ("_ambient", "_process", "_reads")

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._process: Process | None = None
        self._ambient: Context

    def _enter(self, process: Process | None) -> None:
        if process is not None:
            self._ambient = get_current()
            attach(process.context)
            self._process = process

    def _leave(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if get_current() is process.context:
                attach(self._ambient)
            self._end(process)

    def _end(self, process: Process) -> None:
        self._reads.end(process)

    def __del__(self) -> None:
        self._leave()


class RecordsLoop(Loop):
    """Called by an ``async for`` with each record. The body is not measured, because that would take too long."""

    __slots__ = ("unsampled",)

    def __init__(self, reads: Reads) -> None:
        super().__init__(reads)
        self.unsampled = Unsampled(current_getter())

    def __call__(self, record: Record | None) -> None:
        self._leave()
        if record is not None:
            process = self._reads.process(record)
            if process is not None and not process.is_bare:
                self._enter(process)
            elif not record.headers:
                self.unsampled.note(get_current(), record.topic, ())

    def _end(self, process: Process) -> None:
        self._reads.end_span(process, None)


class BatchesLoop(Loop):
    """Called by a loop with each batch. A batch has a span for receiving and a span for processing."""

    __slots__ = ()

    def __call__(self, batch: RecordBatch[Any, Any] | None, began: int = 0) -> None:
        self._leave()
        if batch is not None:
            topic, partition = batch.topic, batch.partition
            span = self._reads.receive(began, topic, partition, len(batch), None)
            if span is not None:
                link(span, batch.headers)
                end(span)
            off = self._reads.is_off(get_current())
            self._enter(self._reads.process_batch(topic, partition, [()] * len(batch) if off else batch.headers))
