"""Errors of transactions that end other than as requested (KIP-98, KIP-890, KIP-1050).

The third such error, `ProducerFencedError`, comes from brokers: another producer has taken over the transactional id,
and this one must stop.
"""

from __future__ import annotations

from .base import KafkaError
from .log import RequestTimedOutError

__all__ = ["CommitOutcomeUnknownError", "TransactionAbortedError", "TransactionTimedOutError"]


class TransactionAbortedError(KafkaError):
    """The transaction was aborted, or can only be aborted: it had no effect and may be repeated.

    The error behind it is the cause.
    """

    retriable = True


class TransactionTimedOutError(TransactionAbortedError, RequestTimedOutError):
    """``max_block_ms`` passed before the transaction could begin, accept a record, or be aborted.

    The transaction has no effect, as with `TransactionAbortedError`: repeat it. The pending operation continues in the
    background, and the next transaction waits for it. The cause, if any, is the call's own error.
    """


class CommitOutcomeUnknownError(KafkaError):
    """The outcome of the transaction is unknown: ``max_block_ms`` passed without an answer from the coordinator.

    The client keeps asking: ``commit_transaction()`` waits for the answer again, and then returns or raises
    `TransactionAbortedError`; ``begin_transaction()`` waits for it, too. If the answer was lost and the coordinator has
    forgotten the transaction, the outcome stays "unknown", and ``commit_transaction()`` raises `IllegalStateError`.
    """

    retriable = True
