"""The reaction to each error of each call of a transaction, as a table.

It differs from Java's (``TransactionManager``, 4.3), where PRODUCER_FENCED and similar errors always end the producer.
Here they fail the transaction, and the coordinator's answer to the abort decides. If the coordinator has aborted a
transaction that took too long, the producer continues with a new epoch; if it has another producer, this one ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ...errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
    UnknownMemberIdError,
    UnknownProducerIdError,
    UnknownServerError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)


class Call(Enum):
    """Requests to a coordinator."""

    START = "InitProducerId"
    """Get a producer id, whichever producer used the transactional id before."""
    RENEW = "InitProducerId with an epoch"
    """Get the epoch after the producer's present epoch (KIP-360)."""
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    """Sent to the group's coordinator."""
    COMMIT = "EndTxn to commit"
    ABORT = "EndTxn to abort"
    ASK = "DescribeTransactions"
    """Get the coordinator's state of the transactional id, after it refused this producer."""


class Verdict(Enum):
    """Reactions to an error."""

    RETRY = "retry"
    """Repeat the request after a delay, to the then current coordinator."""
    FAIL = "fail"
    """The transaction can only be aborted."""
    ABORT = "abort"
    """The transaction is not committed, and never will be: abort it."""
    RENEW = "renew"
    """There is no transaction to end any more: continue with a new epoch."""
    START = "start"
    """The coordinator no longer has the transactional id: continue as a new producer."""
    ASK = "ask"
    """There is a rival, or the transaction took too long: ask the coordinator which."""
    FENCED = "fenced"
    """There is a rival: stop."""
    REFUSE = "refuse"
    """Raise the error to the caller, which may try again when the cause is gone."""


Verdicts = Mapping[type[KafkaError], Verdict]

FENCED: tuple[type[KafkaError], ...] = (ProducerFencedError, InvalidProducerEpochError)
"""The same error under two names: older versions of the protocol have only the second."""

_NOT_MINE: Verdicts = dict.fromkeys((*FENCED, InvalidProducerIdMappingError), Verdict.ASK)
_UNEXPLAINED: Verdicts = {UnknownServerError: Verdict.RETRY}
_ABORTABLE: Verdicts = dict.fromkeys(
    (
        *FENCED,
        InvalidProducerIdMappingError,
        InvalidTxnStateError,
        TransactionAbortableError,
        TransactionalIdAuthorizationFailedError,
        UnknownProducerIdError,
    ),
    Verdict.FAIL,
)
_REFUSED: Verdicts = {
    InvalidTransactionTimeoutError: Verdict.REFUSE,
    TransactionalIdAuthorizationFailedError: Verdict.REFUSE,
    UnsupportedVersionError: Verdict.REFUSE,
}

VERDICTS: Mapping[Call, Verdicts] = {
    Call.START: {**_REFUSED, **dict.fromkeys(FENCED, Verdict.FENCED)},
    Call.RENEW: {
        **_UNEXPLAINED,
        **_REFUSED,
        **_NOT_MINE,
        TransactionAbortableError: Verdict.ASK,
        UnknownProducerIdError: Verdict.ASK,
    },
    Call.ADD_PARTITIONS: {**_UNEXPLAINED, **_ABORTABLE, TopicAuthorizationFailedError: Verdict.FAIL},
    Call.ADD_OFFSETS: {**_UNEXPLAINED, **_ABORTABLE, GroupAuthorizationFailedError: Verdict.FAIL},
    Call.COMMIT_OFFSETS: {
        **_UNEXPLAINED,
        **_ABORTABLE,
        FencedInstanceIdError: Verdict.FAIL,
        GroupAuthorizationFailedError: Verdict.FAIL,
        GroupIdNotFoundError: Verdict.FAIL,
        IllegalGenerationError: Verdict.FAIL,
        StaleMemberEpochError: Verdict.FAIL,
        TopicAuthorizationFailedError: Verdict.FAIL,
        UnknownMemberIdError: Verdict.FAIL,
        UnsupportedForMessageFormatError: Verdict.FAIL,
    },
    Call.COMMIT: {
        **_UNEXPLAINED,
        **_NOT_MINE,
        InvalidTxnStateError: Verdict.ABORT,
        TransactionAbortableError: Verdict.ABORT,
        UnknownProducerIdError: Verdict.ABORT,
        TransactionalIdAuthorizationFailedError: Verdict.REFUSE,
    },
    Call.ABORT: {
        **_UNEXPLAINED,
        **_NOT_MINE,
        InvalidTxnStateError: Verdict.RENEW,
        TransactionAbortableError: Verdict.RENEW,
        UnknownProducerIdError: Verdict.RENEW,
        TransactionalIdAuthorizationFailedError: Verdict.REFUSE,
    },
    Call.ASK: {
        **_UNEXPLAINED,
        TransactionalIdNotFoundError: Verdict.START,
        TransactionalIdAuthorizationFailedError: Verdict.FENCED,
        UnsupportedVersionError: Verdict.FENCED,
    },
}
"""Verdicts by call and error. CONCURRENT_TRANSACTIONS and all other retriable errors are RETRY (see `verdict_of`)."""

_OTHERWISE = {
    Call.ADD_PARTITIONS: Verdict.FAIL,
    Call.ADD_OFFSETS: Verdict.FAIL,
    Call.COMMIT_OFFSETS: Verdict.FAIL,
    Call.ASK: Verdict.FENCED,
}
"""Verdicts on errors that a call does not expect."""


def verdict_of(call: Call, kind: type[KafkaError]) -> Verdict:
    """Return the reaction to an error of a call."""
    table = VERDICTS[call]
    for known in kind.__mro__:
        if known in table:
            return table[known]
    return Verdict.RETRY if kind.retriable else _OTHERWISE.get(call, Verdict.REFUSE)
