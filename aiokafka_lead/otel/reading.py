"""A consumer's spans, for receiving, processing and committing records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import Span, SpanKind

from .._core.consumer.record_batch import RecordBatch
from .._core.tracing import BatchLoop, RecordLoop, RunTracing
from .._core.unsampled import Unsampled
from .._records import ConsumerRecord
from ..types import OffsetAndMetadata, TopicPartition
from .instruments import current_getter, end
from .names import Attribute, Value, mark
from .processes import Process, Processes, current, link, place_of

# --- spans of run -----------------------------------------------------------------------------------------------------
#
# In `Consumer.run`, each record has a span, which contains all its attempts.
#
# In `ShareConsumer.run`, each delivery has a span, because the next delivery may be to another member.


HandledRecord = ConsumerRecord[Any, Any]
Key = tuple[str, int, int, int]


class Run:
    """Spans of one run. The span of a record ends when the record is handled, dead-lettered or given up."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._open: dict[Key, Process] = {}
        """Spans of records that are being handled, or will be handled again after a failure."""

    def around(
        self, handle: Callable[[HandledRecord], Awaitable[object]]
    ) -> Callable[[HandledRecord], Awaitable[object]]:
        """Return the handler wrapped in the record's span."""

        async def traced(record: HandledRecord) -> None:
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

    def together(self, records: Sequence[HandledRecord]) -> AbstractContextManager[object]:
        """Return a context manager for one call of a handler with several records."""
        return self._processes.during(self._processes.process_all(records))

    def retried(self, record: HandledRecord, error: BaseException, attempts: int) -> None:
        """Add an event for the failed attempt. The handler will be called again within the same span."""
        process = self._open.get(_key(record))
        if process is not None:
            self._processes.retry(process, error, attempts)

    def within(self, record: HandledRecord) -> AbstractContextManager[object]:
        """Return a context manager that makes the span of a failed record current again."""
        process = self._open.get(_key(record))
        return nullcontext() if process is None else current(process.context)

    def dead_letter(self, record: HandledRecord, error: BaseException, topic: str) -> None:
        """End the record's span with the error, after an event that names the dead-letter topic."""
        process = self._open.get(_key(record))
        if process is not None and process.span is not None:
            process.span.add_event("dead letter", {Attribute.DESTINATION.value[0]: topic})
        self.failed(record, error)

    def failed(self, record: HandledRecord, error: BaseException) -> None:
        """End the span of a record that was given up because of this error."""
        self._end(_key(record), error)

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """End the spans of records that wait for a retry, in these partitions or, at the end of the run, in all."""
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


Record = ConsumerRecord[Any, Any]


class Reads(Processes):
    """Spans of one consumer."""

    # --- receiving ---------------------------------------------------------------------------------------------------

    def received(self, began: int, records: Sequence[Record]) -> None:
        """Record a call that has returned these records."""
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

    # --- ways to read ------------------------------------------------------------------------------------------------

    def records(self) -> RecordLoop:
        """Begin a loop over records."""
        return RecordsLoop(self)

    def batches(self) -> BatchLoop:
        """Begin a loop over batches."""
        return BatchesLoop(self)

    def run(self) -> RunTracing:
        """Begin `Consumer.run` or `ShareConsumer.run`."""
        return Run(self)

    def stopped(self) -> None:
        """Record the end of the consumer."""
        if self.kit.instruments is not None and self.client is not None:
            self.kit.instruments.stopped(self.client)

    # --- commits -----------------------------------------------------------------------------------------------------

    def committed(
        self, began: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None
    ) -> None:
        """Record a commit that has succeeded or failed."""
        context = get_current()
        topic, partition = place_of(list(offsets))
        if self.kit.instruments is not None and self.kit.on:
            self.kit.instruments.operation("commit", "settle", self.client, topic, began, error)
        if self.is_off(context):
            return
        one = next(iter(offsets.values())).offset if len(offsets) == 1 else None
        self._settled("commit", topic, partition, (Attribute.OFFSET, one), context, began, error)

    def acknowledged(self, began: int, counts: Mapping[TopicPartition, int], error: BaseException | None) -> None:
        """Record a request with acknowledgements for these numbers of records."""
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
    """Current context of a loop's body, until the next step or the end of the loop.

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
