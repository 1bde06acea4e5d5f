"""OpenTelemetry: spans and metrics of producers and consumers, and trace contexts in the headers of records.

    from aiokafka_lead.otel import instrument

    instrument()

Needs the ``otel`` extra. docs/observability.md lists every span and attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from opentelemetry import metrics, trace
from opentelemetry.context import get_current
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, TracerProvider

from .._core.tracing import ReadTracing, SendTracing, TracedClient, installed
from .._options.version import __version__
from .._records import ConsumerRecord
from ..types import Headers
from .instruments import Instruments, Kit, is_suppressed, origin_of
from .names import SCHEMA_URL, Vocabulary, Wording, injected
from .reading import Processes, Reads
from .sending import Carried, Sends

__all__ = ["instrument", "processing", "uninstrument"]

_NAME = "aiokafka_lead"


def instrument(*, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None) -> None:
    """Trace and measure every producer and consumer that is started after this call.

    Without arguments, the call uses the global providers, so set them first. It also reads the variable
    ``OTEL_SEMCONV_STABILITY_OPT_IN``, which selects the names of attributes. A second call replaces the first.
    """
    uninstrument()
    words = Vocabulary(Wording.from_environment())
    tracer = trace.get_tracer(_NAME, __version__, tracer_provider, SCHEMA_URL)
    meters = meter_provider or metrics.get_meter_provider()
    # A provider without an SDK drops all data, so measurements would be wasted.
    measured = not type(meters).__module__.startswith(metrics.__name__)
    instruments = Instruments(meters.get_meter(_NAME, __version__, SCHEMA_URL), words) if measured else None
    installed.tracer = Tracing(Kit(tracer, words, instruments))


def uninstrument() -> None:
    """Undo `instrument`. Running clients also stop recording."""
    tracing = installed.tracer
    installed.tracer = None
    if isinstance(tracing, Tracing):
        tracing.turn_off()


@contextmanager
def processing(records: ConsumerRecord[Any, Any] | Sequence[ConsumerRecord[Any, Any]]) -> Iterator[Span]:
    """Trace the processing of records in a ``with`` block.

        for records in (await consumer.getmany(timeout_ms=1000)).values():
            with processing(records):
                ...

    Within the block, the span of the records is the current span. The span of a single record is a child of the span
    that sent the record. The span of several records links to the spans that sent them. Use this only for results of
    `Consumer.getmany`, because ``async for``, `Consumer.batches` and `Consumer.run` create the same spans
    automatically. Without `instrument`, no span is recorded.
    """
    tracing = installed.tracer
    if not isinstance(tracing, Tracing):
        yield trace.INVALID_SPAN
        return
    processes = Processes(tracing.kit, None)
    process = processes.process_all(records) if isinstance(records, Sequence) else processes.process(records)
    with processes.during(process):
        yield trace.INVALID_SPAN if process is None else trace.get_current_span(get_current())


class Tracing:
    """Creates the tracing of producers and consumers as they start, until it is turned off."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self._sends: WeakSet[Sends] = WeakSet()

    def producer(self, client: TracedClient) -> SendTracing:
        """Return the object that traces the sends of a starting producer."""
        sends = Sends(self.kit, client)
        self._sends.add(sends)
        return sends

    def consumer(self, client: TracedClient) -> ReadTracing:
        """Return the object that traces the reads of a starting consumer."""
        if self.kit.instruments is not None:
            self.kit.instruments.reading(client)
        return Reads(self.kit, client)

    def carry(self, headers: Headers) -> Headers:
        """Return a record's headers with the current context, unless they already have a context."""
        context = get_current()
        return headers if is_suppressed(context) else Carried(injected(context), origin_of(context)).carry(headers)

    def turn_off(self) -> None:
        """Stop recording, even for clients that are running."""
        self.kit.on = False
        if self.kit.instruments is not None:
            self.kit.instruments.turn_off()
        for sends in self._sends:
            sends.unsampled.turn_off()
