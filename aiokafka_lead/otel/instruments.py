"""Metrics of OpenTelemetry's semantic conventions for messaging.

A measurement costs the Python SDK a microsecond. Sends are therefore measured per batch, from its first record to its
acknowledgement. Consumers count records anyway, and their counts are read when metrics are collected.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, cast
from weakref import WeakKeyDictionary

from opentelemetry import context as context_api
from opentelemetry.context import Context, create_key, get_current, set_value
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanKind, Tracer, get_current_span

from .._core.tracing import TracedClient
from .names import Attribute, Value, Vocabulary, error_type, log

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Bounds of histograms in seconds, as the conventions recommend."""

Series = tuple[TracedClient, str]


class Instruments:
    """The metric instruments that a call of `instrument` creates."""

    def __init__(self, meter: Meter, words: Vocabulary) -> None:
        self._words = words
        self._operation = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=BOUNDS_S,
        )
        self._process = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=BOUNDS_S,
        )
        self._sent = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        meter.create_observable_counter(
            "messaging.client.consumed.messages",
            [partial(_consumed, meter)],
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        self._reading: list[TracedClient] = []
        """Running consumers."""
        self._stopped: Counter[Series] = Counter()
        """Counts of stopped consumers, by topic."""
        if (earlier := _latest.get(meter)) is not None:
            self._stopped += earlier._stopped
        _latest[meter] = self
        self._known: dict[Any, dict[str, Value]] = {}

    def settled(
        self, client: TracedClient, topic: str, records: int, seconds: float, error: BaseException | None
    ) -> None:
        """Record the time and the outcome of a batch: acknowledged, or failed with ``error``."""
        attributes = self._attributes("send", "send", client, topic, error)
        self._operation.record(seconds, attributes)
        self._sent.add(records, attributes)

    def operation(
        self,
        name: str,
        kind: str,
        client: TracedClient | None,
        topic: str | None,
        began: int,
        error: BaseException | None = None,
    ) -> None:
        """Record the duration of a call that began at ``began`` (``time.time_ns()``)."""
        seconds = max(0.0, (time.time_ns() - began) / 1e9)
        self._operation.record(seconds, self._attributes(name, kind, client, topic, error))

    def processed(
        self, client: TracedClient | None, topic: str | None, seconds: float, error: BaseException | None
    ) -> None:
        """Record the duration of the application's work on records."""
        self._process.record(seconds, self._attributes("process", "process", client, topic, error))

    def reading(self, client: TracedClient) -> None:
        """Add a started consumer. Its counts are read when metrics are collected."""
        self._reading.append(client)

    def stopped(self, client: TracedClient) -> None:
        """Remove a stopped consumer and keep its counts."""
        if client in self._reading:
            self._reading.remove(client)
            kept = client._replace(client_id="", cluster_id=_unknown, consumed=dict)
            for topic, count in client.consumed().items():
                self._stopped[kept, topic] += count

    def turn_off(self) -> None:
        """Stop counting the records of running consumers. Their counts so far are kept."""
        for client in list(self._reading):
            self.stopped(client)

    def consumed(self) -> Iterable[Observation]:
        """Return the number of records that consumers have returned to the application, for each set of attributes."""
        totals = self._stopped.copy()
        for client in list(self._reading):
            for topic, count in client.consumed().items():
                totals[client, topic] += count
        together: Counter[tuple[tuple[str, Value], ...]] = Counter()
        for (client, topic), count in totals.items():
            together[tuple(self._attributes("receive", "receive", client, topic, None).items())] += count
        return [Observation(count, dict(attributes)) for attributes, count in together.items()]

    def _attributes(
        self, name: str, kind: str, client: TracedClient | None, topic: str | None, error: BaseException | None
    ) -> dict[str, Value]:
        """Return the attributes of a measurement. Equal arguments return the same dict."""
        failure = None if error is None else error_type(error)
        group, host, port = (None, None, None) if client is None else (client.group_id, client.host, client.port)
        key = (name, group, host, port, topic, failure)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._words(
                (Attribute.SYSTEM, "kafka"),
                (Attribute.OPERATION_NAME, name),
                (Attribute.OPERATION_TYPE, kind),
                (Attribute.DESTINATION, topic),
                (Attribute.GROUP, group),
                (Attribute.ERROR_TYPE, failure),
                (Attribute.SERVER_ADDRESS, host),
                (Attribute.SERVER_PORT, port),
            )
        return found


_latest: WeakKeyDictionary[Meter, Instruments] = WeakKeyDictionary()
"""Latest instruments of each meter. A meter keeps its first callbacks, and ignores later ones."""


def _consumed(meter: Meter, options: CallbackOptions) -> Iterable[Observation]:
    return _latest[meter].consumed()


def _unknown() -> None:
    return None


_OFF = "AlwaysOffSampler"
_PARTS = re.compile(r"(root|remoteParentNotSampled|localParentNotSampled):(\w+)")


class SamplingRules:
    """The sampler's rules, as far as its description reveals them. OpenTelemetry specifies the wording."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer: Any = tracer
        self._sampler: Any = None
        self._drops_roots = False
        self._drops_local = False
        self._drops_remote = False

    def drops(self, parent: Span) -> bool:
        """Return True if no child of this span is recorded, or False if that is unknown."""
        self._look()
        context = parent.get_span_context()
        if not context.is_valid:
            return self._drops_roots
        if context.trace_flags.sampled:
            return False
        return self._drops_remote if context.is_remote else self._drops_local

    def _look(self) -> None:
        # A tracer that was created before its provider was set delegates to another tracer.
        sampler = getattr(getattr(self._tracer, "_tracer", self._tracer), "sampler", None)
        if sampler is self._sampler:
            return
        self._sampler = sampler
        text = "" if sampler is None else sampler.get_description()
        off = (
            {part for part, kind in _PARTS.findall(text) if kind == _OFF} if text.startswith("ParentBased{") else set()
        )
        always = text == _OFF
        self._drops_roots = always or "root" in off
        self._drops_local = always or "localParentNotSampled" in off
        self._drops_remote = always or "remoteParentNotSampled" in off


_ORIGIN = create_key("aiokafka_lead-origin")
_SUPPRESSED = str(getattr(context_api, "_SUPPRESS_INSTRUMENTATION_KEY", "suppress_instrumentation"))


def current_getter() -> Callable[[], object]:
    """Return a fast function for the current context, usually ``ContextVar.get``, which is implemented in C."""
    variable = getattr(getattr(context_api, "_RUNTIME_CONTEXT", None), "_current_context", None)
    return variable.get if isinstance(variable, ContextVar) else get_current


def is_suppressed(context: Context) -> bool:
    """Return True if the application suppresses tracing in this context, as exporters do for their requests."""
    return bool(context.get(_SUPPRESSED) or context.get("suppress_instrumentation"))


def with_origin(context: Context, header: bytes | None) -> Context:
    """Return the context with the trace header of the record that is being processed."""
    return context if header is None else set_value(_ORIGIN, header, context)


def origin_of(context: Context) -> bytes | None:
    """Return the trace header of the record being processed in this context."""
    return cast("bytes | None", context.get(_ORIGIN))


def is_valid(span: Span) -> bool:
    """Return True if this span has a valid context, recorded or not."""
    return span.get_span_context().is_valid


def end(span: Span) -> None:
    """End a span. If a span processor of the application raises an error, it is logged."""
    try:
        span.end()
    except Exception:
        log.exception("a span could not be ended: a span processor raised an error")


class Kit:
    """Bundles what all spans need: the tracer, its sampling rules, the metrics, and the names of attributes."""

    def __init__(self, tracer: Tracer, words: Vocabulary, instruments: Instruments | None) -> None:
        self._tracer = tracer
        self.words = words
        self.rules = SamplingRules(tracer)
        self.instruments = instruments
        """None if no metrics are collected."""
        self.on = True
        """True until the instrumentation is undone."""

    def start(
        self,
        operation: str,
        kind_of_operation: str,
        kind: SpanKind,
        client: TracedClient | None,
        topic: str | None,
        pairs: Iterable[tuple[Attribute, Value | None]],
        context: Context,
        links: Sequence[Link] = (),
        began: int | None = None,
    ) -> Span:
        """Start a span of an operation on a topic.

        ``began`` is in nanoseconds since 1970, or None for now. If the application's sampler or span processors raise
        an error, it is logged, and the operation is not recorded.
        """
        attributes = self.words(
            (Attribute.SYSTEM, "kafka"),
            (Attribute.OPERATION_NAME, operation),
            (Attribute.OPERATION_TYPE, kind_of_operation),
            (Attribute.DESTINATION, topic),
            *pairs,
        )
        if client is not None:
            attributes |= self.words(
                (Attribute.CLIENT_ID, client.client_id),
                (Attribute.GROUP, client.group_id),
                (Attribute.CLUSTER_ID, client.cluster_id()),
                (Attribute.SERVER_ADDRESS, client.host),
                (Attribute.SERVER_PORT, client.port),
            )
        name = operation if topic is None else f"{operation} {topic}"
        try:
            return self._tracer.start_span(
                name, context=context, kind=kind, attributes=attributes, links=links, start_time=began
            )
        except Exception:
            log.exception("a span could not be started")
            return NonRecordingSpan(get_current_span(context).get_span_context())
