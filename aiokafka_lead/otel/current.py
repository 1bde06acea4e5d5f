"""The current context, and this package's values in it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import cast

from opentelemetry import context as context_api
from opentelemetry.context import Context, create_key, get_current, set_value
from opentelemetry.trace import Span

__all__ = ["current_getter", "is_suppressed", "is_valid", "origin_of", "with_origin"]

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
