"""The current context, and what this package keeps in it."""

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
    """What gives the current context cheaply: mostly a method of a `ContextVar`, without any Python code."""
    variable = getattr(getattr(context_api, "_RUNTIME_CONTEXT", None), "_current_context", None)
    return variable.get if isinstance(variable, ContextVar) else get_current


def is_suppressed(context: Context) -> bool:
    """Whether the application wants nothing traced here, as exporters do for what they send themselves."""
    return bool(context.get(_SUPPRESSED) or context.get("suppress_instrumentation"))


def with_origin(context: Context, header: bytes | None) -> Context:
    """The same context, in which a record with this trace header is worked on."""
    return context if header is None else set_value(_ORIGIN, header, context)


def origin_of(context: Context) -> bytes | None:
    """The trace header of the record that is worked on in this context."""
    return cast("bytes | None", context.get(_ORIGIN))


def is_valid(span: Span) -> bool:
    """Whether this is a span at all, recorded or not."""
    return span.get_span_context().is_valid
