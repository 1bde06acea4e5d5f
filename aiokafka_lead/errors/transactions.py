"""How a transaction may end other than as asked (KIP-98, KIP-890, KIP-1050).

`ProducerFencedError`, the third of them, is an answer of brokers: another producer has taken over the transactional id,
and this one must stop.
"""

from __future__ import annotations

from .base import KafkaError
from .log import RequestTimedOutError

__all__ = ["CommitOutcomeUnknownError", "TransactionAbortedError", "TransactionTimedOutError"]


class TransactionAbortedError(KafkaError):
    """The transaction was aborted, or can only be aborted: nothing of it counts, and it may be done again.

    The cause is the error that made it so.
    """

    retriable = True


class TransactionTimedOutError(TransactionAbortedError, RequestTimedOutError):
    """``max_block_ms`` passed before the transaction could begin, take something, or be aborted; as in an outage.

    Nothing of it counts, as `TransactionAbortedError` says: do it again. What it waited for goes on in the background,
    and the next transaction waits for that. The cause, if any, is the call's own error.
    """


class CommitOutcomeUnknownError(KafkaError):
    """It is not known whether the transaction is committed: ``max_block_ms`` passed without the coordinator's answer.

    The question goes on being asked: ``commit_transaction()`` waits for the answer again, and then returns or raises
    `TransactionAbortedError`; ``begin_transaction()`` waits for it, too. When the answer was lost and the coordinator
    has forgotten the transaction, the outcome stays "unknown", and ``commit_transaction()`` raises `IllegalStateError`.
    """

    retriable = True
