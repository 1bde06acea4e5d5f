"""Spans of a producer, from the call of ``send`` to the acknowledgement."""

from __future__ import annotations

from contextvars import Context as Variables
from typing import Any

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Link, Span, SpanKind, get_current_span, set_span_in_context

from .._core.producer.delivery import Delivery, DeliveryBatch
from .._core.tracing import SendSpan, TracedClient
from .._core.unsampled import Unsampled
from ..types import Headers
from .instruments import Kit, current_getter, end, is_suppressed, is_valid, origin_of
from .names import Attribute, injected, mark, passed_on, read, trace_header, with_carried

KEY_CHARACTERS = 256
"""Maximum length of a key in an attribute. Longer keys are left out."""


class Sends:
    """Creates the spans of one producer."""

    def __init__(self, kit: Kit, client: TracedClient) -> None:
        self._kit = kit
        self._client = client
        self.unsampled = Unsampled(current_getter())

    def send(self, topic: str, key: object, value: object, partition: int | None, headers: Headers) -> SendSpan:
        """Begin the span of a record to be sent."""
        if self.unsampled.covers(topic):
            return Carried(self.unsampled.headers, None)
        own = trace_header(headers)
        pairs = (
            (Attribute.PARTITION, None if partition is None else str(partition)),
            (Attribute.KEY, _text(key)),
            (Attribute.TOMBSTONE, True if value is None else None),
        )
        context = get_current()
        if own is None or own == origin_of(context):
            return self._begin(context, topic, SpanKind.PRODUCER, pairs, ())
        # The application has put another context into the record's headers: keep it, and link the span to it.
        links = [Link(get_current_span(read(headers)).get_span_context())]
        return self._begin(context, topic, SpanKind.CLIENT, pairs, links)

    def send_many(self, topic: str, count: int, partition: int | None) -> SendSpan:
        """Begin the span of ``count`` records to be sent together."""
        if self.unsampled.covers(topic):
            return Carried(self.unsampled.headers, None)
        pairs = (
            (Attribute.PARTITION, None if partition is None else str(partition)),
            (Attribute.MESSAGE_COUNT, count),
        )
        return self._begin(get_current(), topic, SpanKind.PRODUCER, pairs, ())

    def settled(self, topic: str, records: int, seconds: float, error: BaseException | None, /) -> None:
        """Record the outcome of a batch: acknowledged, or failed with ``error``."""
        if self._kit.on and self._kit.instruments is not None:
            self._kit.instruments.settled(self._client, topic, records, seconds, error)

    def _begin(self, context: Context, topic: str, kind: SpanKind, pairs: Any, links: Any) -> SendSpan:
        parent = get_current_span(context)
        origin = origin_of(context)
        if is_suppressed(context):
            self.unsampled.note(context, topic, ())
            return Carried((), None)
        if self._kit.rules.drops(parent):
            carried = injected(context)
            self.unsampled.note(context, topic, carried)
            return Carried(carried, origin)
        span = self._kit.start("send", "send", kind, self._client, topic, pairs, context, links)
        carried = injected(set_span_in_context(span, context))
        if span.is_recording():
            return Sending(self._kit, span, carried, origin)
        if is_valid(parent):
            # The sampling decision for this trace. Without a parent, each record begins a trace with its own decision.
            self.unsampled.note(context, topic, carried)
        return Carried(carried, origin)


class Carried:
    """A send that is not sampled. Its record still carries the context, so consumers do not sample it either."""

    __slots__ = ("_carried", "_origin")

    def __init__(self, carried: Headers, origin: bytes | None) -> None:
        self._carried = carried
        self._origin = origin

    def carry(self, headers: Headers) -> Headers:
        """Return the headers of a record with the context added."""
        if not self._carried:
            return headers
        own = trace_header(headers) if headers else None
        if own is None:
            return with_carried(headers, self._carried)
        if own == self._origin:  # the application forwards the headers of the record that it processes
            return passed_on(headers, self._carried)
        return headers

    def taken(self, delivery: Any) -> None:
        """Ignore the delivery, because a send that is not sampled has no span."""

    def failed(self, error: BaseException) -> None:
        """Ignore the error, because a send that is not sampled has no span."""


class Sending(Carried):
    """A send that is sampled, with its span."""

    __slots__ = ("_kit", "_span")

    def __init__(self, kit: Kit, span: Span, carried: Headers, origin: bytes | None) -> None:
        super().__init__(carried, origin)
        self._kit = kit
        self._span = span

    def taken(self, delivery: Delivery | DeliveryBatch) -> None:
        """Let the span end when the delivery is done. Called when the producer has accepted the record or batch."""
        done = self._batch_done if isinstance(delivery, DeliveryBatch) else self._done
        delivery.add_done_callback(done, context=Variables())  # type: ignore[arg-type]
        if isinstance(delivery, DeliveryBatch) and not len(delivery):
            end(self._span)

    def failed(self, error: BaseException) -> None:
        """End the span with this error. Called when the producer has not accepted the record."""
        mark(self._span, error, self._kit.words)
        end(self._span)

    def _done(self, delivery: Delivery) -> None:
        error = delivery.exception()
        if error is not None:
            self._span.set_attributes(self._kit.words((Attribute.PARTITION, _partition(delivery.partition))))
            self.failed(error)
            return
        metadata = delivery.result()
        self._span.set_attributes(
            self._kit.words(
                (Attribute.PARTITION, str(metadata.partition)),
                (Attribute.OFFSET, metadata.offset if metadata.offset >= 0 else None),
            )
        )
        end(self._span)

    def _batch_done(self, batch: DeliveryBatch) -> None:
        error = next((outcome for outcome in batch.results() if isinstance(outcome, BaseException)), None)
        if error is not None:
            self.failed(error)
        else:
            end(self._span)


def _partition(number: int) -> str | None:
    return None if number < 0 else str(number)


def _text(key: object) -> str | None:
    """Return a key as text, or None if it has no unique text form."""
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            return None
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    return key if isinstance(key, str) and len(key) <= KEY_CHARACTERS and key.isprintable() else None
