"""Common tools for all spans of an instrumentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Tracer

from .._core.tracing import TracedClient
from .instruments import Instruments
from .names import Attribute, Value, Vocabulary
from .sampling import SamplingRules

__all__ = ["Kit"]


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
