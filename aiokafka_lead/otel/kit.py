"""Common tools for all spans of an instrumentation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, cast

from opentelemetry import context as context_api
from opentelemetry.context import Context, create_key, get_current, set_value
from opentelemetry.trace import Link, Span, SpanKind, Tracer

from .._core.tracing import TracedClient
from .instruments import Instruments
from .names import Attribute, Value, Vocabulary

_OFF = "AlwaysOffSampler"
_PARTS = re.compile(r"(root|remoteParentNotSampled|localParentNotSampled):(\w+)")


class SamplingRules:
    """Interprets the description of the tracer's sampler (OpenTelemetry fixes the words), again if it changes."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer: Any = tracer
        self._sampler: Any = None
        self._drops_roots = False
        self._drops_local = False
        self._drops_remote = False

    def drops(self, parent: Span) -> bool:
        """Return True if no span below this one is recorded. Returns False also if that is unknown."""
        self._look()
        context = parent.get_span_context()
        if not context.is_valid:
            return self._drops_roots
        if context.trace_flags.sampled:
            return False
        return self._drops_remote if context.is_remote else self._drops_local

    def _look(self) -> None:
        # A tracer created before its provider was set delegates to another one.
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
    """Return a cheap function for the current context: usually a method of a `ContextVar`, without any Python code."""
    variable = getattr(getattr(context_api, "_RUNTIME_CONTEXT", None), "_current_context", None)
    return variable.get if isinstance(variable, ContextVar) else get_current


def is_suppressed(context: Context) -> bool:
    """Return True if the application suppresses tracing here, as exporters do for their own requests."""
    return bool(context.get(_SUPPRESSED) or context.get("suppress_instrumentation"))


def with_origin(context: Context, header: bytes | None) -> Context:
    """Return the same context, with the trace header of the record being processed."""
    return context if header is None else set_value(_ORIGIN, header, context)


def origin_of(context: Context) -> bytes | None:
    """Return the trace header of the record being processed in this context."""
    return cast("bytes | None", context.get(_ORIGIN))


def is_valid(span: Span) -> bool:
    """Return True if this is a valid span, recorded or not."""
    return span.get_span_context().is_valid


class Kit:
    """The tracer, its sampling rules, the metrics, and the names."""

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
        """Start a span of an operation on a topic; ``began`` is in nanoseconds since 1970, or None for now."""
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
        return self._tracer.start_span(
            name, context=context, kind=kind, attributes=attributes, links=links, start_time=began
        )
