"""Contexts in the headers of records, by the application's propagators (usually W3C Trace Context)."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator

from .._values import NamedTuple
from ..types import Header, Headers

_W3C = b"00-"
_BESIDE = {"tracestate", "baggage"}
"""Headers with additional data about a trace, or none, that do not identify one."""


class _Setter(Setter[list[Header]]):
    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _Getter(Getter[Sequence[Header]]):
    def get(self, carrier: Sequence[Header], key: str) -> list[str] | None:
        # If a record was forwarded with its original headers, the last one is the latest.
        found = [value.decode(errors="replace") for name, value in carrier if name == key and value is not None]
        return found[-1:] or None

    def keys(self, carrier: Sequence[Header]) -> list[str]:
        return [name for name, _ in carrier]


_SETTER = _Setter()
_GETTER = _Getter()


class _Names(NamedTuple):
    """The names of headers that a propagator writes, in order."""

    propagator: TextMapPropagator
    fields: frozenset[str]
    trace: tuple[str, ...]


def _names_of(propagator: TextMapPropagator) -> _Names:
    names = frozenset(propagator.fields)
    return _Names(propagator, names, tuple(sorted(names - _BESIDE)))


_latest = _names_of(propagate.get_global_textmap())


def _names() -> _Names:
    global _latest
    propagator = propagate.get_global_textmap()
    if propagator is not _latest.propagator:
        _latest = _names_of(propagator)
    return _latest


def injected(context: Context) -> Headers:
    """Return the headers for a context."""
    carrier: list[Header] = []
    propagate.get_global_textmap().inject(carrier, context, _SETTER)
    return tuple(carrier)


def extracted(headers: Sequence[Header], context: Context) -> Context:
    """Return the context, with the values from a record's headers."""
    return propagate.get_global_textmap().extract(headers, context, _GETTER)


def read(headers: Sequence[Header]) -> Context:
    """Return only the values from a record's headers."""
    return extracted(headers, Context())


def trace_header(headers: Sequence[Header]) -> bytes | None:
    """Return the trace header, or several joined for B3 and other formats, which identifies the context."""
    names = _names().trace
    found = {name: value for name, value in headers if name in names and value is not None}
    return b",".join([found[name] for name in names if name in found]) if found else None


def may_be_sampled(header: bytes) -> bool:
    """Return False if this is a W3C trace header of an unsampled trace: then it need not be parsed."""
    if not header.startswith(_W3C):
        return True
    try:
        return bool(int(header[-2:], 16) & 1)
    except ValueError:
        return False


def with_carried(headers: Headers, carried: Headers) -> Headers:
    """Return the headers combined with a context's, each name only once."""
    if not headers:
        return carried
    names = {name for name, _ in carried}
    return (*[header for header in headers if header[0] not in names], *carried)


def passed_on(headers: Headers, carried: Headers) -> Headers:
    """Do the same with a received record's headers: no part of its original context stays."""
    fields = _names().fields
    return with_carried(tuple(header for header in headers if header[0] not in fields), carried)
