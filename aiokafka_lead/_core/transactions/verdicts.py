"""The table of reactions to errors, by the request that failed.

It differs from Java's ``TransactionManager`` (4.3), in which PRODUCER_FENCED and similar errors always end the
producer. Here they fail the transaction, and the coordinator's response to the abort decides. If the coordinator has
aborted the transaction because of its timeout, the producer continues with a new epoch. If another producer has taken
over the transactional id, this producer ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ... import errors


class Call(Enum):
    """Requests of a transactional producer to a coordinator."""

    START = "InitProducerId"
    """Get a producer id. This fences any earlier producer with the same transactional id."""
    RENEW = "InitProducerId with an epoch"
    """Get the next epoch of the producer's id (KIP-360)."""
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    """Add offsets to the transaction. Sent to the group's coordinator."""
    COMMIT = "EndTxn to commit"
    ABORT = "EndTxn to abort"
    ASK = "DescribeTransactions"
    """Get the coordinator's state of the transactional id, after the coordinator has refused this producer."""


class Verdict(Enum):
    """Possible reactions to an error."""

    RETRY = "retry"
    """Repeat the request after a delay. It goes to the broker that is then the coordinator."""
    FAIL = "fail"
    """Fail the transaction: the application can only abort it."""
    ABORT = "abort"
    """Abort the transaction, because it was certainly not committed."""
    RENEW = "renew"
    """Continue with a new epoch, because there is no transaction to end."""
    START = "start"
    """Continue as a new producer, because the coordinator no longer knows the transactional id."""
    ASK = "ask"
    """Ask the coordinator whether another producer has taken over or the transaction has timed out."""
    FENCED = "fenced"
    """Stop, because another producer has taken over."""
    REFUSE = "refuse"
    """Raise the error in the caller, which may try again once the cause is gone."""


Verdicts = Mapping[type[errors.KafkaError], Verdict]

FENCED: tuple[type[errors.KafkaError], ...] = (errors.ProducerFencedError, errors.InvalidProducerEpochError)
"""Two codes of the same error. Older versions of the protocol have only the second."""

_NOT_MINE: Verdicts = dict.fromkeys((*FENCED, errors.InvalidProducerIdMappingError), Verdict.ASK)
_UNEXPLAINED: Verdicts = {errors.UnknownServerError: Verdict.RETRY}
_ABORTABLE: Verdicts = dict.fromkeys(
    (
        *FENCED,
        errors.InvalidProducerIdMappingError,
        errors.InvalidTxnStateError,
        errors.TransactionAbortableError,
        errors.TransactionalIdAuthorizationFailedError,
        errors.UnknownProducerIdError,
    ),
    Verdict.FAIL,
)
_REFUSED: Verdicts = {
    errors.InvalidTransactionTimeoutError: Verdict.REFUSE,
    errors.TransactionalIdAuthorizationFailedError: Verdict.REFUSE,
    errors.UnsupportedVersionError: Verdict.REFUSE,
}

VERDICTS: Mapping[Call, Verdicts] = {
    Call.START: {**_REFUSED, **dict.fromkeys(FENCED, Verdict.FENCED)},
    Call.RENEW: {
        **_UNEXPLAINED,
        **_REFUSED,
        **_NOT_MINE,
        errors.TransactionAbortableError: Verdict.ASK,
        errors.UnknownProducerIdError: Verdict.ASK,
    },
    Call.ADD_PARTITIONS: {**_UNEXPLAINED, **_ABORTABLE, errors.TopicAuthorizationFailedError: Verdict.FAIL},
    Call.ADD_OFFSETS: {**_UNEXPLAINED, **_ABORTABLE, errors.GroupAuthorizationFailedError: Verdict.FAIL},
    Call.COMMIT_OFFSETS: {
        **_UNEXPLAINED,
        **_ABORTABLE,
        errors.FencedInstanceIdError: Verdict.FAIL,
        errors.GroupAuthorizationFailedError: Verdict.FAIL,
        errors.GroupIdNotFoundError: Verdict.FAIL,
        errors.IllegalGenerationError: Verdict.FAIL,
        errors.StaleMemberEpochError: Verdict.FAIL,
        errors.TopicAuthorizationFailedError: Verdict.FAIL,
        errors.UnknownMemberIdError: Verdict.FAIL,
        errors.UnsupportedForMessageFormatError: Verdict.FAIL,
    },
    Call.COMMIT: {
        **_UNEXPLAINED,
        **_NOT_MINE,
        errors.InvalidTxnStateError: Verdict.ABORT,
        errors.TransactionAbortableError: Verdict.ABORT,
        errors.UnknownProducerIdError: Verdict.ABORT,
        errors.TransactionalIdAuthorizationFailedError: Verdict.REFUSE,
    },
    Call.ABORT: {
        **_UNEXPLAINED,
        **_NOT_MINE,
        errors.InvalidTxnStateError: Verdict.RENEW,
        errors.TransactionAbortableError: Verdict.RENEW,
        errors.UnknownProducerIdError: Verdict.RENEW,
        errors.TransactionalIdAuthorizationFailedError: Verdict.REFUSE,
    },
    Call.ASK: {
        **_UNEXPLAINED,
        errors.TransactionalIdNotFoundError: Verdict.START,
        errors.TransactionalIdAuthorizationFailedError: Verdict.FENCED,
        errors.UnsupportedVersionError: Verdict.FENCED,
    },
}
"""Reactions by request and error. For CONCURRENT_TRANSACTIONS and other retriable errors, see `verdict_of`."""

_OTHERWISE = {
    Call.ADD_PARTITIONS: Verdict.FAIL,
    Call.ADD_OFFSETS: Verdict.FAIL,
    Call.COMMIT_OFFSETS: Verdict.FAIL,
    Call.ASK: Verdict.FENCED,
}
"""Reactions to errors that are not in the table. The default is REFUSE."""


def verdict_of(call: Call, kind: type[errors.KafkaError]) -> Verdict:
    """Return the reaction if a request of this type fails with an error of this class."""
    table = VERDICTS[call]
    for known in kind.__mro__:
        if known in table:
            return table[known]
    return Verdict.RETRY if kind.retriable else _OTHERWISE.get(call, Verdict.REFUSE)
