"""The errors that a connection's end leaves to those who use it."""

from __future__ import annotations

from ..._core.connection.in_flight import InFlight
from ...errors import KafkaConnectionError, KafkaError, MalformedMessageError
from ...errors.base import own_copy

__all__ = ["in_flight_error", "with_broker"]


def in_flight_error(entry: InFlight, error: KafkaError, label: str, *, ready: bool) -> KafkaError:
    """What a request gets whose connection has ended with this error: that does not say whether it was carried out.

    ``ready``: the connection was set up.
    """
    text = f"{entry.request_class.NAME} was in flight: {error.message}"
    if isinstance(error, MalformedMessageError) and ready:
        return _caused_by(error, KafkaConnectionError(text, broker=label))
    if isinstance(error, KafkaConnectionError):
        return _caused_by(error, type(error)(text, broker=label))
    return own_copy(error)


def with_broker(error: KafkaError, label: str) -> KafkaError:
    """The same error, which names the broker."""
    return _caused_by(error, type(error)(error.message, broker=label))


def _caused_by(cause: KafkaError, error: KafkaError) -> KafkaError:
    error.__cause__ = cause.__cause__ or cause
    return error
