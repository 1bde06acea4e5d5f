"""Contexts in the headers of records, by the propagators that the application has set (mostly W3C Trace Context)."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter

from ..types import Header, Headers

__all__ = ["extracted", "fields", "injected", "read", "sampled_in", "trace_header", "without"]

TRACE_PARENT = "traceparent"


class _Setter(Setter[list[Header]]):
    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _Getter(Getter[Sequence[Header]]):
    def get(self, carrier: Sequence[Header], key: str) -> list[str] | None:
        # Where a record was passed on with the headers that it had, the last one is the latest.
        found = [value.decode(errors="replace") for name, value in carrier if name == key and value is not None]
        return found[-1:] or None

    def keys(self, carrier: Sequence[Header]) -> list[str]:
        return [name for name, _ in carrier]


_SETTER = _Setter()
_GETTER = _Getter()


def injected(context: Context) -> Headers:
    """What a record carries of the context."""
    carrier: list[Header] = []
    propagate.get_global_textmap().inject(carrier, context, _SETTER)
    return tuple(carrier)


def extracted(headers: Sequence[Header], context: Context) -> Context:
    """The context, and in it what a record carries."""
    return propagate.get_global_textmap().extract(headers, context, _GETTER)


def read(headers: Sequence[Header]) -> Context:
    """What a record carries, and nothing else."""
    return extracted(headers, Context())


def fields() -> frozenset[str]:
    """The names of the headers that carry contexts."""
    return frozenset(propagate.get_global_textmap().fields)


def trace_header(headers: Sequence[Header]) -> bytes | None:
    """The W3C trace header, if there is one: it stands for the context where contexts are compared."""
    found = None
    for name, value in headers:
        if name == TRACE_PARENT:
            found = value
    return found


def sampled_in(header: bytes) -> bool:
    """Whether a W3C trace header says that its trace is recorded."""
    try:
        return bool(int(header[-2:], 16) & 1)
    except ValueError:
        return False


def without(headers: Headers, names: frozenset[str]) -> Headers:
    """The headers but for these."""
    return tuple(header for header in headers if header[0] not in names)
