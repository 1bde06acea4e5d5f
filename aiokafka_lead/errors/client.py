"""Errors that this client detects itself, and errors of its connections."""

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
    """An option has an invalid value; the message names the option."""


class ConfigTypeError(KafkaError, TypeError):
    """An option has a value of the wrong type, or is unknown; the message names the option."""


class IllegalStateError(KafkaError, RuntimeError):
    """The call is not allowed in the client's current state."""


class NotStartedError(IllegalStateError):
    """The client has not been started: use ``async with``, or await ``start()`` first."""


class ClientClosedError(IllegalStateError):
    """The client has been stopped, or failed to start. A client starts only once: create a new one."""


class WrongEventLoopError(IllegalStateError):
    """The client belongs to another event loop: make one client per event loop."""


class BackgroundTaskError(KafkaError):
    """A background task of this client failed with an unexpected error, which is the cause of this one."""


class BufferFull(KafkaTimeoutError):
    """The producer's ``buffer_memory`` is exhausted."""

    retriable = True


class NoOffsetForPartitionError(KafkaError):
    """A partition, named by ``topic`` and ``partition``, has no position, and ``auto_offset_reset`` is "none"."""

    def __init__(self, message: str = "", *, topic: str = "", partition: int = -1, broker: str | None = None) -> None:
        super().__init__(message, broker=broker)
        self.topic = topic
        self.partition = partition


# --- connections -----------------------------------------------------------------------------------------------------


class KafkaConnectionError(KafkaError):
    """A broker could not be reached, or its connection was lost."""

    retriable = True
    refreshes_metadata = True


class NotKafkaError(KafkaConnectionError):
    """The peer at this address does not speak Kafka; the message says which protocol it seems to speak."""


class UnresolvedHostError(KafkaConnectionError):
    """A host name does not resolve to any address on this machine."""


class BootstrapResolutionError(KafkaConnectionError):
    """No bootstrap server's name resolved within ``bootstrap_resolve_timeout_ms`` (KIP-909)."""


class MisroutedConnectionError(KafkaConnectionError):
    """A broker's address leads to another broker, or to another cluster; nothing was sent to it (KIP-1242).

    The client bootstraps again, and retries the address after a backoff.
    """


class SslAuthenticationError(KafkaError):
    """The TLS handshake failed: a certificate was rejected, or the peers share no version or cipher."""


class TokenProviderError(KafkaError):
    """The provider returned no usable token: it failed, timed out, or returned another type. It will be asked again."""

    retriable = True


class MalformedMessageError(KafkaError):
    """The bytes are not a valid message of the Kafka protocol."""


class FrameTooLargeError(MalformedMessageError):
    """A frame announces more bytes than this client accepts."""


class ClusterIdMismatchError(KafkaError):
    """The bootstrap servers lead to another cluster than before (KIP-899)."""


class RebootstrapError(KafkaConnectionError):
    """The connection was closed because the client bootstraps again (KIP-899, KIP-1102)."""


class DeliveryTimeoutError(KafkaTimeoutError):
    """``delivery_timeout_ms`` passed before the record was acknowledged."""

    retriable = True


class RecordSerializationError(KafkaError):
    """The application's serializer raised; its error is the cause. The record was not accepted.

    ``topic`` is the record's topic, and ``part`` the part that failed: "key" or "value".
    """

    def __init__(self, message: str = "", *, topic: str, part: str) -> None:
        super().__init__(message)
        self.topic = topic
        self.part = part


class EncodeError(KafkaError, ValueError):
    """A value does not fit its field of the Kafka protocol."""
