"""The errors that a connection's end leaves to those who use it."""

from __future__ import annotations

from collections.abc import Mapping

from ..._core.connection.in_flight import InFlight
from ...errors import KafkaConnectionError, KafkaError, MalformedMessageError
from ...errors.base import own_copy
from ...errors.shown import some_of

__all__ = ["in_flight_error", "of_addresses", "with_broker"]


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


def of_addresses(errors: Mapping[str, KafkaError], latest: KafkaError) -> KafkaError:
    """One error for the addresses of a name, which says what each has done, the ``latest`` if none is to blame.

    Its class is that of the error which waiting helps least against.
    """
    if not errors:
        return latest
    by_text: dict[str, list[str]] = {}
    for address, error in errors.items():
        by_text.setdefault(error.message, []).append(f"[{address}]" if ":" in address else address)
    worst = min(errors.values(), key=lambda error: (error.retriable, type(error) is KafkaConnectionError))
    text = "; ".join(f"{some_of(addresses)}: {text}" for text, addresses in by_text.items())
    return _caused_by(worst, type(worst)(text))


def _caused_by(cause: KafkaError, error: KafkaError) -> KafkaError:
    error.__cause__ = cause.__cause__ or cause
    return error
