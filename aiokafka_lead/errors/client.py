"""What goes wrong on this side of the connection, or in it."""

from __future__ import annotations

from .base import KafkaError, KafkaTimeoutError

__all__ = [
    "BackgroundTaskError",
    "BootstrapResolutionError",
    "BufferFull",
    "ClientClosedError",
    "ClusterIdMismatchError",
    "ConfigError",
    "ConfigTypeError",
    "DeliveryTimeoutError",
    "EncodeError",
    "FrameTooLargeError",
    "IllegalStateError",
    "KafkaConnectionError",
    "MalformedMessageError",
    "MisroutedConnectionError",
    "NoOffsetForPartitionError",
    "NotKafkaError",
    "NotStartedError",
    "RebootstrapError",
    "RecordSerializationError",
    "SslAuthenticationError",
    "TokenProviderError",
    "UnresolvedHostError",
    "WrongEventLoopError",
]

# --- the caller's mistakes -------------------------------------------------------------------------------------------


class ConfigError(KafkaError, ValueError):
    """An option has a value that cannot be used; the message names the option."""


class ConfigTypeError(KafkaError, TypeError):
    """An option has a value of the wrong type, or is unknown; the message names the option."""


class IllegalStateError(KafkaError, RuntimeError):
    """The call does not fit the client's state."""


class NotStartedError(IllegalStateError):
    """The client has not been started: use ``async with``, or await ``start()`` first."""


class ClientClosedError(IllegalStateError):
    """The client has been stopped, or could not start: make a new one, as none starts a second time."""


class WrongEventLoopError(IllegalStateError):
    """The client belongs to another event loop: make one client per event loop."""


class BackgroundTaskError(KafkaError):
    """A background task of this client has ended with an unexpected error, which is the cause of this one."""


class BufferFull(KafkaTimeoutError):
    """The producer's buffer_memory is used up."""

    retriable = True


class NoOffsetForPartitionError(KafkaError):
    """A partition has no position and auto_offset_reset is "none"."""


# --- connections -----------------------------------------------------------------------------------------------------


class KafkaConnectionError(KafkaError):
    """A broker could not be reached, or its connection was lost."""

    retriable = True
    refreshes_metadata = True


class NotKafkaError(KafkaConnectionError):
    """What answered at this address does not speak Kafka; the message says what it looks like."""


class UnresolvedHostError(KafkaConnectionError):
    """A host name has no address, seen from here."""


class BootstrapResolutionError(KafkaConnectionError):
    """No bootstrap server's name has resolved within ``bootstrap_resolve_timeout_ms`` (KIP-909)."""


class MisroutedConnectionError(KafkaConnectionError):
    """A broker's address leads to another broker, or to another cluster; nothing was sent to it (KIP-1242).

    The client bootstraps anew, and tries the address again with a backoff.
    """


class SslAuthenticationError(KafkaError):
    """TLS was refused: a certificate is not accepted, or both sides share no version or cipher."""


class TokenProviderError(KafkaError):
    """There is no token: the provider failed, took too long, or gave what is none. The next connection asks again."""

    retriable = True


class MalformedMessageError(KafkaError):
    """Bytes that are not a message of the Kafka protocol."""


class FrameTooLargeError(MalformedMessageError):
    """A frame announces more bytes than this client accepts."""


class ClusterIdMismatchError(KafkaError):
    """The bootstrap servers lead to another cluster than before (KIP-899)."""


class RebootstrapError(KafkaConnectionError):
    """The connection was closed because the client bootstraps anew (KIP-899, KIP-1102)."""


class DeliveryTimeoutError(KafkaTimeoutError):
    """delivery_timeout_ms passed before the record was acknowledged."""

    retriable = True


class RecordSerializationError(KafkaError):
    """The application's serializer raised; its error is the cause. The record was not taken.

    ``topic`` is where it was to go, and ``part`` says what of it failed: "key" or "value".
    """

    def __init__(self, message: str = "", *, topic: str, part: str) -> None:
        super().__init__(message)
        self.topic = topic
        self.part = part


class EncodeError(KafkaError, ValueError):
    """A value does not fit its field of the Kafka protocol."""
