"""Errors that this client detects, in connections, groups, transactions and handlers.

KIP-98, KIP-890 and KIP-1050 describe the transaction errors. One of them comes from brokers and is defined in
`aiokafka_lead.errors.group`: `ProducerFencedError` means that another producer has taken over the transactional id, so
this producer must stop.
"""

from __future__ import annotations

from typing import Any

from .base import KafkaError, KafkaTimeoutError
from .log import RequestTimedOutError

__all__ = [
    "AssignorError",
    "BackgroundTaskError",
    "BootstrapResolutionError",
    "BufferFull",
    "ClientClosedError",
    "ClusterIdMismatchError",
    "CommitFailedError",
    "CommitOutcomeUnknownError",
    "ConfigError",
    "ConfigTypeError",
    "DeliveryTimeoutError",
    "DropRecordError",
    "EncodeError",
    "FrameTooLargeError",
    "HandlerError",
    "IllegalStateError",
    "KafkaConnectionError",
    "MalformedMessageError",
    "MisroutedConnectionError",
    "NoOffsetForPartitionError",
    "NotKafkaError",
    "NotStartedError",
    "PermanentError",
    "RebalanceListenerError",
    "RebootstrapError",
    "RecordSerializationError",
    "SslAuthenticationError",
    "TokenProviderError",
    "TransactionAbortedError",
    "TransactionTimedOutError",
    "UnresolvedHostError",
    "WrongEventLoopError",
]


# --- the caller's mistakes -------------------------------------------------------------------------------------------


class ConfigError(KafkaError, ValueError):
    """An option or an argument has an invalid value; the message names it.

    Raised when a client is created or a method is called, before any request is sent.
    """


class ConfigTypeError(KafkaError, TypeError):
    """An option or an argument has a value of the wrong type, or is unknown; the message names it.

    Raised when a client is created or a method is called, before any request is sent.
    """


class IllegalStateError(KafkaError, RuntimeError):
    """The call is not allowed in the client's current state."""


class NotStartedError(IllegalStateError):
    """The client has not been started: use ``async with``, or await ``start()`` first."""


class ClientClosedError(IllegalStateError):
    """The client has been stopped, or failed to start. A client starts only once: create a new one."""


class WrongEventLoopError(IllegalStateError):
    """The client belongs to another event loop: create one client per event loop."""


class BackgroundTaskError(KafkaError):
    """A background task of this client failed with an unexpected error, which is the cause."""


class BufferFull(KafkaTimeoutError):
    """The producer's ``buffer_memory`` is exhausted.

    The record was not accepted and may be sent again. `Producer.send` raises this error after ``max_block_ms`` or its
    ``timeout_ms``, and `Producer.send_nowait` immediately.
    """

    retriable = True


class NoOffsetForPartitionError(KafkaError):
    """A partition has no committed offset, and ``auto_offset_reset`` is "none".

    ``topic`` and ``partition`` name the partition. Call `Consumer.seek`, `Consumer.seek_to_beginning` or
    `Consumer.seek_to_end` to choose a position, and read again.
    """

    def __init__(self, message: str = "", *, topic: str = "", partition: int = -1, broker: str | None = None) -> None:
        super().__init__(message, broker=broker)
        self.topic = topic
        self.partition = partition


# --- connections -----------------------------------------------------------------------------------------------------


class KafkaConnectionError(KafkaError):
    """A broker could not be reached, or its connection was lost.

    The client reconnects in the background, so the same call may succeed later. `start` raises this error if no
    bootstrap server can be used; the client is then stopped, so create a new one.
    """

    retriable = True
    refreshes_metadata = True


class NotKafkaError(KafkaConnectionError):
    """The server at this address does not speak Kafka.

    The message says which protocol it seems to speak, for example HTTP, or TLS where plaintext was expected.
    """


class UnresolvedHostError(KafkaConnectionError):
    """A host name does not resolve to any address on this machine."""


class BootstrapResolutionError(KafkaConnectionError):
    """No bootstrap server's name resolved within ``bootstrap_resolve_timeout_ms`` (KIP-909)."""


class MisroutedConnectionError(KafkaConnectionError):
    """A broker's address leads to another broker or cluster, so no request was sent to it (KIP-1242).

    The client bootstraps again and retries the address after a backoff.
    """


class SslAuthenticationError(KafkaError):
    """The TLS handshake failed: a certificate was rejected, or both sides share no version or cipher."""


class TokenProviderError(KafkaError):
    """The provider returned no usable token: it failed, timed out, or returned another type.

    The cause, if any, is the provider's error. The client calls the provider again for the next connection.
    """

    retriable = True


class MalformedMessageError(KafkaError):
    """The bytes are not a valid message of the Kafka protocol."""


class FrameTooLargeError(MalformedMessageError):
    """A response is larger than ``receive_max_bytes``."""


class ClusterIdMismatchError(KafkaError):
    """The bootstrap servers now belong to a different cluster (KIP-899)."""


class RebootstrapError(KafkaConnectionError):
    """The connection was closed because the client bootstraps again (KIP-899, KIP-1102)."""


class DeliveryTimeoutError(KafkaTimeoutError):
    """``delivery_timeout_ms`` passed before the record was acknowledged. The record may still be written."""

    retriable = True


class RecordSerializationError(KafkaError):
    """The application's serializer raised an error, which is the cause. The record was not accepted.

    ``topic`` is the record's topic. ``part`` is the part that failed: "key" or "value".
    """

    def __init__(self, message: str = "", *, topic: str, part: str) -> None:
        super().__init__(message)
        self.topic = topic
        self.part = part


class EncodeError(KafkaError, ValueError):
    """A value does not fit its field of the Kafka protocol."""


class CommitFailedError(KafkaError):
    """The consumer does not own these partitions, or has lost them.

    The offsets were not committed, and repeating the commit cannot help. The new owner of the partitions gets the
    records again. Continue to read: the consumer returns records of the partitions that it currently owns.
    """


class AssignorError(KafkaError):
    """An assignor of ``partition_assignment_strategy`` raised an error, which is the cause."""


class RebalanceListenerError(KafkaError):
    """A method of the `RebalanceListener` raised an error, which is the cause. The rebalance continued."""


class TransactionAbortedError(KafkaError):
    """The transaction was aborted, or can only be aborted. It has no effect and may be repeated.

    The cause is the error that led to the abort. The producer stays usable.
    """

    retriable = True


class TransactionTimedOutError(TransactionAbortedError, RequestTimedOutError):
    """The transaction could not begin, accept a record or offsets, or be aborted within the time limit.

    The limit is ``max_block_ms`` or the ``timeout_ms`` of the call. As with `TransactionAbortedError`, the transaction
    has no effect and may be repeated. The pending operation continues in the background, and the next transaction waits
    for it. The cause, if any, is the error that ended the waiting.
    """


class CommitOutcomeUnknownError(KafkaError):
    """The outcome of the transaction is unknown, because the coordinator has not answered in time.

    The limit is ``max_block_ms`` or the ``timeout_ms`` of the call. The client continues to ask the coordinator. To
    wait for the answer, call ``commit_transaction()`` again: it returns if the transaction was committed, and raises
    `TransactionAbortedError` if it was aborted. ``begin_transaction()`` also waits for the answer. If the coordinator
    has forgotten the transaction, the outcome stays "unknown", and ``commit_transaction()`` raises `IllegalStateError`.
    Do not repeat the transaction before the outcome is known.
    """

    retriable = True


class HandlerError(KafkaError):
    """A record could be neither handled nor written to a dead-letter topic, so `run` has ended.

    ``record`` is the record before deserialization, with its key and value as bytes. ``attempts`` is the number of
    times that its handler raised an error; the last error is the cause. The record is not finished, so the next `run`
    gets it again. To skip it, commit the offset after it, or set ``dead_letter_topic``.
    """

    def __init__(self, message: str = "", *, record: Any, attempts: int) -> None:
        super().__init__(message)
        self.record = record
        self.attempts = attempts


class PermanentError(Exception):
    """Raised by a handler if no retry can help.

    `run` sends the record to the dead-letter topic immediately, and without such a topic raises a `HandlerError`. If
    this error has a cause, the dead letter names the cause::

        raise PermanentError("no such customer") from error
    """


class DropRecordError(Exception):
    """Raised by a handler to drop its record. The record is finished without a retry or a dead letter.

    `ShareConsumer.run` rejects the record, so the group does not deliver it again.
    """
