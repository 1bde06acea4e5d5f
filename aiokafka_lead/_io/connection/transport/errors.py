"""Errors of sockets and of TLS, turned into this client's own: the only place that knows the foreign ones."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

import anyio

from ....errors import KafkaConnectionError, KafkaError, NotKafkaError, SslAuthenticationError

__all__ = ["connect_error", "lost_error", "tls_error"]

_NOT_TLS = {
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNEXPECTED_MESSAGE",
    "UNKNOWN_PROTOCOL",
    "WRONG_VERSION_NUMBER",
}
"""What OpenSSL calls bytes that are no TLS record."""


def connect_error(errors: Sequence[BaseException]) -> KafkaConnectionError:
    """No address of a name could be connected to; one error for each address tried."""
    reasons = dict.fromkeys(_reason(error) for error in errors)
    tried = f" ({len(errors)} addresses tried)" if len(errors) > 1 else ""
    return KafkaConnectionError(f"cannot connect: {', '.join(reasons) or 'the name has no address'}{tried}")


def tls_error(error: BaseException) -> KafkaError:
    """The TLS handshake failed."""
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return SslAuthenticationError(f"the broker's certificate is not accepted: {cause.verify_message}")
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        if cause.reason in _NOT_TLS:
            return NotKafkaError(
                "the answer to the TLS handshake is not TLS: if this listener does not use TLS, "
                'set security_protocol to "PLAINTEXT" or "SASL_PLAINTEXT"'
            )
        return SslAuthenticationError(f"the TLS handshake failed: {cause.reason or 'unknown reason'}")
    return KafkaConnectionError(
        f"the TLS handshake failed: {_reason(cause)}; if this listener does not use TLS, "
        'set security_protocol to "PLAINTEXT" or "SASL_PLAINTEXT"'
    )


def lost_error(error: BaseException | None) -> KafkaError:
    """An open connection ended; None where the peer closed it in good order."""
    cause = None if error is None else _cause(error)
    if isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or ""):
        # With TLS 1.3 a server tells only now that it does not accept the client's certificate.
        return SslAuthenticationError(f"the broker ended TLS: {cause.reason}")
    return KafkaConnectionError("the broker closed the connection" if cause is None else f"lost: {_reason(cause)}")


def _cause(error: BaseException) -> BaseException:
    """What stands behind anyio's own errors."""
    while isinstance(error, (anyio.BrokenResourceError, anyio.EndOfStream)) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _reason(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return f"the host name does not resolve ({error.strerror})"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "connection reset by the broker"
    if isinstance(error, (anyio.EndOfStream, anyio.BrokenResourceError, ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return "the broker closed the connection"
    if isinstance(error, ssl.SSLError):
        return f"TLS error {error.reason or ''}".rstrip()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
