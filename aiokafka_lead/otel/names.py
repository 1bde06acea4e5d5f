"""Names of attributes and metrics, from OpenTelemetry's semantic conventions for messaging.

The names follow version 1.44 of the conventions. The variable ``OTEL_SEMCONV_STABILITY_OPT_IN`` selects version 1.45
with "messaging", and both versions with "messaging/dup".
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from enum import Enum

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator
from opentelemetry.trace import Span, StatusCode

from .._core.run.failures import described, quotes_input, reason_of
from .._values import NamedTuple
from ..errors import BrokerError, KafkaError
from ..types import Header, Headers

log = logging.getLogger("aiokafka_lead.otel")
"""Log of errors in the application's tracing. These errors must not prevent the handling of records."""

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"

Value = str | bool | int | float


class Attribute(Enum):
    """Attributes, with their names in versions 1.44 and 1.45 of the conventions."""

    SYSTEM = ("messaging.system", "messaging.system.name")
    OPERATION_NAME = ("messaging.operation.name",) * 2
    OPERATION_TYPE = ("messaging.operation.type",) * 2
    DESTINATION = ("messaging.destination.name",) * 2
    PARTITION = ("messaging.destination.partition.id",) * 2
    CLIENT_ID = ("messaging.client.id",) * 2
    GROUP = ("messaging.consumer.group.name",) * 2
    MESSAGE_COUNT = ("messaging.batch.message_count",) * 2
    CLUSTER_ID = ("messaging.kafka.cluster.id", "kafka.cluster.id")
    KEY = ("messaging.kafka.message.key", "kafka.message.key")
    OFFSET = ("messaging.kafka.offset", "kafka.offset")
    TOMBSTONE = ("messaging.kafka.message.tombstone", "kafka.message.tombstone")
    ERROR_TYPE = ("error.type",) * 2
    SERVER_ADDRESS = ("server.address",) * 2
    SERVER_PORT = ("server.port",) * 2

    # A member is hashed for each attribute of each span. Enum's own hash runs in Python, this one in C.
    __hash__ = object.__hash__


class Wording(NamedTuple):
    """The semantic conventions in use, which determine the names of attributes: the old ones, the new ones, or both."""

    old: bool
    new: bool

    @classmethod
    def from_environment(cls) -> Wording:
        """Return the names selected by ``OTEL_SEMCONV_STABILITY_OPT_IN``."""
        asked = {part.strip() for part in os.environ.get(OPT_IN, "").split(",")}
        if "messaging/dup" in asked:
            return cls(old=True, new=True)
        return cls(old=False, new=True) if "messaging" in asked else cls(old=True, new=False)


class Vocabulary:
    """Maps attributes to their names in the selected version of the conventions."""

    def __init__(self, wording: Wording) -> None:
        self._names = {each: tuple(dict.fromkeys(_chosen(each.value, wording))) for each in Attribute}

    def __call__(self, *pairs: tuple[Attribute, Value | None]) -> dict[str, Value]:
        """Return the attributes that have a value, by their OpenTelemetry names."""
        return {name: value for attribute, value in pairs if value is not None for name in self._names[attribute]}


def _chosen(names: tuple[str, ...], wording: Wording) -> Iterable[str]:
    old, new = names
    if wording.old:
        yield old
    if wording.new:
        yield new


_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def error_type(error: BaseException) -> str:
    """Return the value of ``error.type``: Kafka's name of a broker's error, otherwise the class of the exception."""
    kind = type(error)
    if isinstance(error, BrokerError) and error.code > 0:
        return _WORD.sub("_", kind.__name__.removesuffix("Error")).upper()
    if isinstance(error, KafkaError):
        return f"aiokafka_lead.errors.{kind.__name__}"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def mark(span: Span, error: BaseException, words: Vocabulary) -> None:
    """Mark a span as failed, with the error's type and reason."""
    span.set_attributes(words((Attribute.ERROR_TYPE, error_type(error))))
    span.set_status(StatusCode.ERROR, reason_of(error))


def record_exception(span: Span, error: BaseException) -> None:
    """Add an exception event to a span. It omits the content of records that the error's message may quote."""
    if quotes_input(error):
        span.add_event("exception", {"exception.type": error_type(error), "exception.message": described(error)})
    else:
        span.record_exception(error)


_W3C = b"00-"
_BESIDE = {"tracestate", "baggage"}
"""Headers that do not identify a trace."""


class _Setter(Setter[list[Header]]):
    def set(self, carrier: list[Header], key: str, value: str) -> None:
        carrier.append((key, value.encode()))


class _Getter(Getter[Sequence[Header]]):
    def get(self, carrier: Sequence[Header], key: str) -> list[str] | None:
        # If a record was forwarded with its original headers, the last header of a name is the latest.
        found = [value.decode(errors="replace") for name, value in carrier if name == key and value is not None]
        return found[-1:] or None

    def keys(self, carrier: Sequence[Header]) -> list[str]:
        return [name for name, _ in carrier]


_SETTER = _Setter()
_GETTER = _Getter()


class _Names(NamedTuple):
    """A propagator, and the names of the headers that it writes, in order."""

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
    """Return the headers that carry a context."""
    carrier: list[Header] = []
    try:
        propagate.get_global_textmap().inject(carrier, context, _SETTER)
    except Exception:
        log.exception("the trace context could not be written into the headers of a record")
    return tuple(carrier)


def extracted(headers: Sequence[Header], context: Context) -> Context:
    """Return ``context`` together with the trace context in the headers of a record."""
    try:
        return propagate.get_global_textmap().extract(headers, context, _GETTER)
    except Exception:
        log.exception("the trace context could not be read from the headers of a record")
        return context


def read(headers: Sequence[Header]) -> Context:
    """Return the context in the headers of a record."""
    return extracted(headers, Context())


def trace_header(headers: Sequence[Header]) -> bytes | None:
    """Return the value of the trace header, or the joined values in formats with several headers, such as B3."""
    names = _names().trace
    found = {name: value for name, value in headers if name in names and value is not None}
    return b",".join([found[name] for name in names if name in found]) if found else None


def may_be_sampled(header: bytes) -> bool:
    """Return False if this is the W3C trace header of an unsampled trace, which need not be parsed."""
    if not header.startswith(_W3C):
        return True
    try:
        return bool(int(header[-2:], 16) & 1)
    except ValueError:
        return False


def with_carried(headers: Headers, carried: Headers) -> Headers:
    """Return the headers with a context's headers added. These replace headers with the same names."""
    if not headers:
        return carried
    names = {name for name, _ in carried}
    return (*[header for header in headers if header[0] not in names], *carried)


def passed_on(headers: Headers, carried: Headers) -> Headers:
    """Return the headers of a received record, with another trace context in place of the original one."""
    fields = _names().fields
    return with_carried(tuple(header for header in headers if header[0] not in fields), carried)
