"""What each error of each call means for a transaction: the table, as data.

It departs from Java's (``TransactionManager``, 4.3) where that gives up for good. There PRODUCER_FENCED and its like
end the producer wherever they come. Here they fail the transaction, and the coordinator's answer to the abort decides:
it may have aborted a transaction that took too long, which a new epoch mends, or have another producer under the id.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ...errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
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

__all__ = ["FENCED", "VERDICTS", "Call", "Verdict", "verdict_of"]


class Call(Enum):
    """What is asked of a coordinator."""

    START = "InitProducerId"
    """For a producer id, whatever producer had one before."""
    RENEW = "InitProducerId with an epoch"
    """For the next epoch after one's own (KIP-360)."""
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    """Of the group's coordinator."""
    COMMIT = "EndTxn to commit"
    ABORT = "EndTxn to abort"
    ASK = "DescribeTransactions"
    """Whom the coordinator knows under the transactional id, after it refused this producer."""


class Verdict(Enum):
    """What to do after an error."""

    RETRY = "retry"
    """Ask the same again after a wait: whoever is the coordinator then."""
    FAIL = "fail"
    """The transaction can only be aborted."""
    ABORT = "abort"
    """The transaction is not committed, and never will be: abort it."""
    RENEW = "renew"
    """There is nothing to end any more: go on with a new epoch."""
    START = "start"
    """The coordinator has forgotten the transactional id: go on as a new producer."""
    ASK = "ask"
    """A rival, or a transaction that took too long? Ask the coordinator."""
    FENCED = "fenced"
    """A rival: stop."""
    REFUSE = "refuse"
    """The caller has to know: it may ask again when the reason is gone."""


Verdicts = Mapping[type[KafkaError], Verdict]

FENCED: tuple[type[KafkaError], ...] = (ProducerFencedError, InvalidProducerEpochError)
"""One error under two names: older versions of the protocol have the second only."""

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
"""By call and error. CONCURRENT_TRANSACTIONS and all other retriable errors are RETRY (see `verdict_of`)."""

_OTHERWISE = {
    Call.ADD_PARTITIONS: Verdict.FAIL,
    Call.ADD_OFFSETS: Verdict.FAIL,
    Call.COMMIT_OFFSETS: Verdict.FAIL,
    Call.ASK: Verdict.FENCED,
}
"""Errors that a call does not expect."""


def verdict_of(call: Call, kind: type[KafkaError]) -> Verdict:
    """What an error of a call means."""
    table = VERDICTS[call]
    for known in kind.__mro__:
        if known in table:
            return table[known]
    return Verdict.RETRY if kind.retriable else _OTHERWISE.get(call, Verdict.REFUSE)
