"""The spans of a consumer: receiving, processing, and committing records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import Span, SpanKind

from .._core.consumer.record_batch import RecordBatch
from .._core.tracing import BatchLoop, RecordLoop, RunTracing
from .._core.unsampled import Unsampled
from .._records import ConsumerRecord
from ..types import OffsetAndMetadata, TopicPartition
from .current import current_getter
from .failures import mark
from .names import Attribute, Value
from .processes import Process, Processes, link, place_of
from .running import Run

__all__ = ["Reads"]

Record = ConsumerRecord[Any, Any]


class Reads(Processes):
    """The spans of one consumer."""

    # --- receiving ---------------------------------------------------------------------------------------------------

    def received(self, began: int, records: Sequence[Record]) -> None:
        """Record that a call has returned these records."""
        if not self.kit.on:
            return
        topic, partition = place_of([(record.topic, record.partition) for record in records])
        one = records[0] if len(records) == 1 else None
        span = self.receive(
            began, topic, partition, None if one is not None else len(records), None if one is None else one.offset
        )
        if span is not None:
            link(span, [record.headers for record in records])
            span.end()

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
        """Begin a loop."""
        return RecordsLoop(self)

    def batches(self) -> BatchLoop:
        """Begin a loop over batches."""
        return BatchesLoop(self)

    def run(self) -> RunTracing:
        """Begin `Consumer.run` or `ShareConsumer.run`."""
        return Run(self)

    def stopped(self) -> None:
        """Record that the consumer hands out no more records."""
        if self.kit.instruments is not None and self.client is not None:
            self.kit.instruments.stopped(self.client)

    # --- commits -----------------------------------------------------------------------------------------------------

    def committed(
        self, began: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: BaseException | None
    ) -> None:
        """Record the end of a commit, successful or failed."""
        context = get_current()
        topic, partition = place_of(list(offsets))
        if self.kit.instruments is not None and self.kit.on:
            self.kit.instruments.operation("commit", "settle", self.client, topic, began, error)
        if self.is_off(context):
            return
        one = next(iter(offsets.values())).offset if len(offsets) == 1 else None
        self._settled("commit", topic, partition, (Attribute.OFFSET, one), context, began, error)

    def acknowledged(self, began: int, counts: Mapping[TopicPartition, int], error: BaseException | None) -> None:
        """Record a request that acknowledged these numbers of records, or failed."""
        # A connection calls this, whose current context belongs to the creator of the connection.
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
        span.end()


class Loop:
    """The current context in the body of a loop, until the loop's next step or end.

    The loop's body runs in the task, and so in the context, that asks for the next record. However the loop ends, only
    the loop holds the iterator, and this object goes with it.
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
    """Called by an ``async for`` with each record. Its body is not measured, which would take too long."""

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
    """Ends the span of a batch when the loop asks for the next one; receiving a batch has a span of its own."""

    __slots__ = ()

    def __call__(self, batch: RecordBatch[Any, Any] | None, began: int = 0) -> None:
        self._leave()
        if batch is not None:
            topic, partition = batch.topic, batch.partition
            span = self._reads.receive(began, topic, partition, len(batch), None)
            if span is not None:
                link(span, batch.headers)
                span.end()
            off = self._reads.is_off(get_current())
            self._enter(self._reads.process_batch(topic, partition, [()] * len(batch) if off else batch.headers))
