"""Every error that this client raises.

`KafkaError` is the root. Errors that a broker answered with derive from `BrokerError` and carry the protocol's error
code; `error_for_code` maps a code to its class. ``retriable`` tells whether the same call may succeed later,
``refreshes_metadata`` whether the client's view of the cluster is stale (Java: ``RetriableException``,
``InvalidMetadataException``).
"""

from __future__ import annotations

from typing import ClassVar


class KafkaError(Exception):
    """The root of this client's errors.

    ``code`` is the protocol's error code, or -1 where no broker was asked. ``broker`` names the broker that was tried
    as ``"1 (host:9092)"``, or is None.
    """

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    refreshes_metadata: ClassVar[bool] = False

    def __init__(self, message: str = "", *, broker: str | None = None) -> None:
        text = message or (type(self).__doc__ or type(self).__name__).partition("\n")[0]
        super().__init__(text if broker is None else f"{text} [broker {broker}]")
        self.message = text
        self.broker = broker


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
    """The client has been stopped."""


class WrongEventLoopError(IllegalStateError):
    """The client belongs to another event loop: make one client per event loop."""


class BackgroundTaskError(KafkaError):
    """A background task of this client has ended with an unexpected error, which is the cause of this one."""


class BufferFull(KafkaError):
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


class SslAuthenticationError(KafkaError):
    """TLS was refused: a certificate is not accepted, or both sides share no version or cipher."""


class MalformedMessageError(KafkaError):
    """Bytes that are not a message of the Kafka protocol."""


class FrameTooLargeError(MalformedMessageError):
    """A frame announces more bytes than this client accepts."""


class ClusterIdMismatchError(KafkaError):
    """The bootstrap servers lead to another cluster than before (KIP-899)."""


class RebootstrapError(KafkaConnectionError):
    """The connection was closed because the client bootstraps anew (KIP-899, KIP-1102)."""


class DeliveryTimeoutError(KafkaError):
    """delivery_timeout_ms passed before the record was acknowledged."""

    retriable = True


class EncodeError(KafkaError, ValueError):
    """A value does not fit its field of the Kafka protocol."""


# --- what a broker answered ------------------------------------------------------------------------------------------


class BrokerError(KafkaError):
    """A broker answered with an error code; ``code`` is its number."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith(f"{__package__}._broker_errors"):
            cls.__module__ = __name__
        if "code" in cls.__dict__:
            _BY_CODE.setdefault(cls.code, cls)


_BY_CODE: dict[int, type[BrokerError]] = {}


class RetriableBrokerError(BrokerError):
    """A broker's answer after which the same request may succeed (Java: ``RetriableException``)."""

    retriable = True


class InvalidMetadataError(RetriableBrokerError):
    """A broker's answer which shows that the client's metadata is stale (Java: ``InvalidMetadataException``)."""

    refreshes_metadata = True


class UnknownServerError(BrokerError):
    """The broker failed in a way that it does not explain."""

    code = -1


def error_for_code(code: int) -> type[BrokerError]:
    """The class for a broker's error code.

    A code that this client does not know gets a class of its own below `UnknownServerError`, which keeps the number.
    """
    known = _BY_CODE.get(code)
    if known is None:
        text = f"The broker answered with error code {code}, which this client does not know."
        known = type(f"UnknownError{code}", (UnknownServerError,), {"code": code, "__doc__": text})
    return known


def raise_for_code(code: int, message: str = "", broker: str | None = None) -> None:
    """Raises the error for ``code``, unless that is 0: no error. ``message`` is the broker's own, where it sent one."""
    if code != 0:
        raise error_for_code(code)(message, broker=broker)


# The classes derive from those above, and this module is where they are imported from.
from ._broker_errors.cluster import *  # noqa: E402, F403
from ._broker_errors.group import *  # noqa: E402, F403
from ._broker_errors.log import *  # noqa: E402, F403
from ._read_errors import *  # noqa: E402, F403
