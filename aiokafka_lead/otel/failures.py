"""Names of errors in spans and metrics."""

from __future__ import annotations

import re

from opentelemetry.trace import Span, StatusCode

from .._core.run.failures import described, quotes_input, reason_of
from ..errors import BrokerError, KafkaError
from .names import Attribute, Vocabulary

__all__ = ["error_type", "mark", "record_exception"]

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def error_type(error: BaseException) -> str:
    """Return the value of ``error.type``: Kafka's name of a broker's error, or else the class of the exception."""
    kind = type(error)
    if isinstance(error, BrokerError) and error.code > 0:
        return _WORD.sub("_", kind.__name__.removesuffix("Error")).upper()
    if isinstance(error, KafkaError):
        return f"aiokafka_lead.errors.{kind.__name__}"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def mark(span: Span, error: BaseException, words: Vocabulary) -> None:
    """Mark a span's operation as failed."""
    span.set_attributes(words((Attribute.ERROR_TYPE, error_type(error))))
    span.set_status(StatusCode.ERROR, reason_of(error))


def record_exception(span: Span, error: BaseException) -> None:
    """Add the event of an exception, without what was read where a message in its chain repeats that."""
    if quotes_input(error):
        span.add_event("exception", {"exception.type": error_type(error), "exception.message": described(error)})
    else:
        span.record_exception(error)
