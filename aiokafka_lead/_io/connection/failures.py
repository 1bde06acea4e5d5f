"""The errors that users of a connection get after it has ended."""

from __future__ import annotations

from collections.abc import Mapping

from ..._core.connection.in_flight import InFlight
from ...errors import KafkaConnectionError, KafkaError, MalformedMessageError, UnresolvedHostError
from ...errors.base import own_copy
from ...errors.shown import some_of

RESOLVING = "the look-up of the host's name"
"""Stage of a connection whose address is not resolved yet."""


def timeout_kind(stage: str | None) -> type[KafkaConnectionError]:
    """Return the error class for a setup that timed out: `UnresolvedHostError` if it was waiting for a DNS server."""
    return UnresolvedHostError if stage == RESOLVING else KafkaConnectionError


def end_error(error: KafkaError, label: str) -> KafkaError:
    """Return the error of a ready connection that has ended.

    Invalid bytes end only this connection. The next one may work, so a retry may help.
    """
    if isinstance(error, MalformedMessageError):
        return _caused_by(error, KafkaConnectionError(error.message, broker=label))
    return error


def in_flight_error(entry: InFlight, error: KafkaError, label: str, *, ready: bool) -> KafkaError:
    """Return the error for a request whose connection has ended. The request may have been executed.

    ``ready`` is True if the connection was set up.
    """
    if not isinstance(error, KafkaConnectionError):
        return own_copy(error)
    failure = type(error)(f"{entry.request_class.NAME} was in flight: {error.message}", broker=label)
    if ready:
        failure.api = entry.request_class.NAME
    return _caused_by(error, failure)


def with_broker(error: KafkaError, label: str) -> KafkaError:
    """Return a copy of the error that contains the broker's name."""
    return _caused_by(error, type(error)(error.message, broker=label))


def of_addresses(errors: Mapping[str, KafkaError], latest: KafkaError) -> KafkaError:
    """Return an error that contains the failure of each address of a host, or ``latest`` without failures.

    The class of the error is the class of the failure that is least likely to go away.
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
