"""Common parts of the transports of all event loops: their interface, and the conversion of errors."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Protocol

import anyio

from ...._wire import Buffer
from ....errors import KafkaConnectionError, KafkaError, NotKafkaError, SslAuthenticationError, UnresolvedHostError

JOINED_BYTES = 64 * 1024
"""Size in bytes up to which copying is faster than another system call or TLS record."""


class TransportHandler(Protocol):
    """Receives the events of a transport, synchronously on the event loop. The methods must not raise exceptions."""

    def on_frame(self, frame: Buffer, /) -> None:
        """Handle a complete frame, without its length. The handler may keep the memory."""

    def on_writable(self) -> None:
        """Handle the end of a congestion: after ``paused``, the operating system has accepted all data."""

    def on_closed(self, error: KafkaError, /) -> None:
        """Handle the end of the connection or an invalid stream.

        Called at most once, and not after `Transport.close`.
        """


class Transport(Protocol):
    """An open byte stream that is split into frames."""

    @property
    def paused(self) -> bool:
        """True if written data waits for the operating system, because the peer is slower than this client."""
        ...

    def limit_frames(self, max_bytes: int) -> None:
        """Set the longest frame to accept from now on. A longer frame is an invalid stream."""
        ...

    def write(self, chunks: Sequence[Buffer], /) -> None:
        """Send the buffers, which must not change until they are sent.

        Never blocks and never raises; see ``on_closed``.
        """
        ...

    def close(self) -> None:
        """Close the connection at once. The handler is not called any more."""
        ...

    async def run(self) -> None:
        """Run until the connection ends, and then release its resources.

        Must run in a task while the transport is used. Raises no errors. A cancellation closes the connection.
        """
        ...


def coalesce(chunks: Sequence[Buffer]) -> Sequence[Buffer]:
    """Return the same bytes in fewer buffers. Small adjacent buffers are joined, and large buffers are not copied."""
    if len(chunks) == 1:
        return chunks
    if sum(map(len, chunks)) <= JOINED_BYTES:
        return (b"".join(chunks),)
    buffers: list[Buffer] = []
    run: list[Buffer] = []
    run_bytes = 0
    for chunk in chunks:
        if run and run_bytes + len(chunk) > JOINED_BYTES:
            buffers.append(b"".join(run) if len(run) > 1 else run[0])
            run, run_bytes = [], 0
        run.append(chunk)
        run_bytes += len(chunk)
    buffers.append(b"".join(run) if len(run) > 1 else run[0])
    return buffers


_NOT_TLS = {
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
    "RECORD_LAYER_FAILURE",
    "UNEXPECTED_MESSAGE",
    "UNKNOWN_PROTOCOL",
    "WRONG_VERSION_NUMBER",
}
"""OpenSSL's reasons for data that is not TLS."""

_NO_COMMON_VERSION = {
    "NO_PROTOCOLS_AVAILABLE",
    "TLSV1_ALERT_PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "VERSION_TOO_LOW",
}
_NO_COMMON_CIPHER = {
    "NO_CIPHERS_AVAILABLE",
    "NO_SHARED_CIPHER",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "TLSV1_ALERT_INSUFFICIENT_SECURITY",
}
_CERTIFICATE_WANTED = {"SSLV3_ALERT_BAD_CERTIFICATE", "TLSV13_ALERT_CERTIFICATE_REQUIRED"}
"""Alerts that Java's brokers and OpenSSL's servers send if a client has no certificate."""
_CERTIFICATE_REFUSED = {
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it is revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "for a reason that it keeps to itself, see its log",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it is of a kind that the broker does not support",
    "TLSV1_ALERT_ACCESS_DENIED": "it may not connect",
    "TLSV1_ALERT_UNKNOWN_CA": "the broker does not know the authority that issued it",
}

_PLAINTEXT_HINT = 'if this listener does not use TLS, set security_protocol to "PLAINTEXT" or "SASL_PLAINTEXT"'

# X509_V_ERR_* from <openssl/x509_vfy.h>
_HAS_EXPIRED = 10
_UNKNOWN_ISSUERS = {2, 18, 19, 20, 21}
_OTHER_NAME = {62, 64}
_STRICT = range(80, 95)
"""Errors that occur only with ssl.VERIFY_X509_STRICT."""


def connect_error(error: BaseException | None) -> KafkaConnectionError:
    """Return the error of a failed attempt to connect. ``error`` is None if there is no address."""
    kind = UnresolvedHostError if error is None or isinstance(error, socket.gaierror) else KafkaConnectionError
    return kind(f"cannot connect: {'the name has no address' if error is None else _reason(error)}")


def tls_error(error: BaseException, context: ssl.SSLContext | None = None) -> KafkaError:
    """Return the error of a failed TLS handshake with this context. Its message suggests a remedy."""
    cause = _cause(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"the broker's certificate is not accepted: {cause.verify_message}{_cure(cause.verify_code)}"
        return SslAuthenticationError(text)
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        if cause.reason in _NOT_TLS:
            return NotKafkaError(f"the answer to the TLS handshake is not TLS: {_PLAINTEXT_HINT}")
        return SslAuthenticationError(f"the TLS handshake failed: {_alert(cause.reason)}")
    versions = ""
    if context is not None and context.minimum_version == ssl.TLSVersion.TLSv1_3:
        versions = "the broker may not know TLS 1.3, the least that ssl_context allows; "
    return KafkaConnectionError(f"the TLS handshake failed: {_reason(cause)}; {versions}{_PLAINTEXT_HINT}")


def lost_error(error: BaseException | None) -> KafkaError:
    """Return the error of a connection that has ended. ``error`` is None if the peer closed it properly."""
    cause = None if error is None else _cause(error)
    if isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or ""):
        # With TLS 1.3, a server refuses the client's certificate only after the handshake.
        return SslAuthenticationError(f"the broker ended TLS: {_alert(cause.reason)}")
    return KafkaConnectionError("the broker closed the connection" if cause is None else f"lost: {_reason(cause)}")


def _cure(verify_code: int) -> str:
    """Return a remedy for a problem with a broker's certificate, as part of an error message."""
    if verify_code in _UNKNOWN_ISSUERS:
        return "; set ssl_cafile to the certificate of the authority that issued it"
    if verify_code in _OTHER_NAME:
        return "; connect by a name that is in it (bootstrap_servers, and the broker's advertised.listeners)"
    if verify_code in _STRICT:
        return "; renew it, or clear ssl.VERIFY_X509_STRICT in the verify_flags of ssl_context"
    if verify_code == _HAS_EXPIRED:
        return "; renew it on the broker, if this machine's clock is right"
    return ""


def _alert(reason: str | None) -> str:
    """Return OpenSSL's name of an alert, and what the alert means for a Kafka client."""
    if reason in _CERTIFICATE_WANTED:
        meaning = "the listener wants a client certificate, and got none or one that it cannot use: set ssl_certfile"
    elif reason in _CERTIFICATE_REFUSED:
        meaning = f"the broker does not accept the client certificate of ssl_certfile: {_CERTIFICATE_REFUSED[reason]}"
    elif reason in _NO_COMMON_VERSION:
        meaning = "broker and client have no version of TLS in common: see the broker's ssl.enabled.protocols"
    elif reason in _NO_COMMON_CIPHER:
        meaning = (
            "broker and client have no cipher in common, or the listener wants a client certificate (ssl_certfile)"
        )
    else:
        return reason or "unknown reason"
    return f"{meaning} ({reason})"


def _cause(error: BaseException) -> BaseException:
    """Return the operating system's error behind one of anyio's errors, or the error itself if it has no cause."""
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
