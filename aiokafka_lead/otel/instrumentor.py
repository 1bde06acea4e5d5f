"""Class that ``opentelemetry-instrument`` loads, through the entry point ``opentelemetry_instrumentor``.

Needs the package ``opentelemetry-instrumentation``, which has that command.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from . import instrument, uninstrument


class AIOKafkaLeadInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Instrumentor of OpenTelemetry that calls `instrument` and `uninstrument`."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return no dependencies, because the instrumented package is this package."""
        return ()

    def _instrument(self, **kwargs: Any) -> None:
        instrument(tracer_provider=kwargs.get("tracer_provider"), meter_provider=kwargs.get("meter_provider"))

    def _uninstrument(self, **kwargs: Any) -> None:
        uninstrument()
