"""What a broker answers about groups, transactions and producers.

The names are those of Kafka's error codes; `aiokafka_lead.errors` exports them.
"""

from __future__ import annotations

from .base import BrokerError, RetriableBrokerError

__all__ = [
    "ConcurrentTransactionsError",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "DuplicateSequenceNumberError",
    "FencedInstanceIdError",
    "FencedMemberEpochError",
    "FencedStateEpochError",
    "GroupDeletionFailedError",
    "GroupIdNotFoundError",
    "GroupMaxSizeReachedError",
    "GroupSubscribedToTopicError",
    "IllegalGenerationError",
    "InconsistentGroupProtocolError",
    "InvalidCommitOffsetSizeError",
    "InvalidGroupIdError",
    "InvalidProducerEpochError",
    "InvalidProducerIdMappingError",
    "InvalidRecordStateError",
    "InvalidRegularExpressionError",
    "InvalidSessionTimeoutError",
    "InvalidShareSessionEpochError",
    "InvalidTransactionTimeoutError",
    "InvalidTxnStateError",
    "MemberIdRequiredError",
    "NonEmptyGroupError",
    "NotCoordinatorError",
    "OffsetMetadataTooLargeError",
    "OutOfOrderSequenceNumberError",
    "ProducerFencedError",
    "RebalanceInProgressError",
    "ShareSessionLimitReachedError",
    "ShareSessionNotFoundError",
    "StaleMemberEpochError",
    "StreamsInvalidTopologyEpochError",
    "StreamsInvalidTopologyError",
    "StreamsTopologyDescriptionUpdateFailedError",
    "StreamsTopologyFencedError",
    "TransactionAbortableError",
    "TransactionCoordinatorFencedError",
    "TransactionalIdNotFoundError",
    "UnknownMemberIdError",
    "UnknownProducerIdError",
    "UnreleasedInstanceIdError",
    "UnstableOffsetCommitError",
    "UnsupportedAssignorError",
]


class OffsetMetadataTooLargeError(BrokerError):
    """The metadata beside a committed offset is longer than ``offset.metadata.max.bytes``."""

    code = 12


class CoordinatorLoadInProgressError(RetriableBrokerError):
    """The coordinator is still loading its state."""

    code = 14


class CoordinatorNotAvailableError(RetriableBrokerError):
    """The group's or transaction's coordinator is not available."""

    code = 15


class NotCoordinatorError(RetriableBrokerError):
    """The broker is not the coordinator of this group or transactional id."""

    code = 16


class IllegalGenerationError(BrokerError):
    """The member speaks of a generation that is over."""

    code = 22


class InconsistentGroupProtocolError(BrokerError):
    """The member shares no assignment protocol with its group."""

    code = 23


class InvalidGroupIdError(BrokerError):
    """The group id is not valid."""

    code = 24


class UnknownMemberIdError(BrokerError):
    """The coordinator knows no member of this id in the group."""

    code = 25


class InvalidSessionTimeoutError(BrokerError):
    """The session timeout is outside the range that the broker allows."""

    code = 26


class RebalanceInProgressError(BrokerError):
    """The group rebalances: the member must join again."""

    code = 27


class InvalidCommitOffsetSizeError(BrokerError):
    """The offsets to commit take more space than the broker allows."""

    code = 28


class OutOfOrderSequenceNumberError(BrokerError):
    """The producer's sequence number leaves a gap after the last one."""

    code = 45


class DuplicateSequenceNumberError(BrokerError):
    """The broker has this producer's sequence number already."""

    code = 46


class InvalidProducerEpochError(BrokerError):
    """The producer's epoch is old: a newer instance took over."""

    code = 47


class InvalidTxnStateError(BrokerError):
    """The transaction's state does not allow this call."""

    code = 48


class InvalidProducerIdMappingError(BrokerError):
    """The producer id does not belong to this transactional id any more."""

    code = 49


class InvalidTransactionTimeoutError(BrokerError):
    """The transaction timeout is larger than ``transaction.max.timeout.ms``."""

    code = 50


class ConcurrentTransactionsError(RetriableBrokerError):
    """Another operation of the same transaction is still under way."""

    code = 51


class TransactionCoordinatorFencedError(BrokerError):
    """The transaction coordinator has been replaced."""

    code = 52


class UnknownProducerIdError(BrokerError):
    """The broker has no state of this producer id, for example since its records were deleted."""

    code = 59


class NonEmptyGroupError(BrokerError):
    """The group still has members."""

    code = 68


class GroupIdNotFoundError(BrokerError):
    """There is no such group."""

    code = 69


class MemberIdRequiredError(BrokerError):
    """The member must join again, with the member id that the answer gave it."""

    code = 79


class GroupMaxSizeReachedError(BrokerError):
    """The group is full (``group.max.size``)."""

    code = 81


class FencedInstanceIdError(BrokerError):
    """Another member took over this ``group_instance_id``."""

    code = 82


class GroupSubscribedToTopicError(BrokerError):
    """The group is subscribed to the topic whose offsets were to be deleted."""

    code = 86


class UnstableOffsetCommitError(RetriableBrokerError):
    """Offsets of an open transaction are pending: ask again."""

    code = 88


class ProducerFencedError(BrokerError):
    """Another producer with the same transactional id took over."""

    code = 90


class TransactionalIdNotFoundError(BrokerError):
    """There is no such transactional id."""

    code = 105


class FencedMemberEpochError(BrokerError):
    """The coordinator moved on from this member epoch: give up all partitions and join again."""

    code = 110


class UnreleasedInstanceIdError(BrokerError):
    """The ``group_instance_id`` is still in use by another member."""

    code = 111


class UnsupportedAssignorError(BrokerError):
    """The group's coordinator has no such assignor."""

    code = 112


class StaleMemberEpochError(BrokerError):
    """The member epoch is behind: learn the new one by a heartbeat, then ask again."""

    code = 113


class TransactionAbortableError(BrokerError):
    """The transaction failed; abort it, and the producer can go on."""

    code = 120


class InvalidRecordStateError(BrokerError):
    """The record can't be acknowledged in its present state (share group)."""

    code = 121


class ShareSessionNotFoundError(RetriableBrokerError):
    """The broker has forgotten the share session."""

    code = 122


class InvalidShareSessionEpochError(RetriableBrokerError):
    """The share session has moved on to another epoch."""

    code = 123


class FencedStateEpochError(BrokerError):
    """The share group's state has a newer epoch."""

    code = 124


class InvalidRegularExpressionError(BrokerError):
    """The subscription's regular expression is not valid."""

    code = 128


class StreamsInvalidTopologyError(BrokerError):
    """The topology of the streams group is not valid."""

    code = 130


class StreamsInvalidTopologyEpochError(BrokerError):
    """The topology epoch of the streams group is not valid."""

    code = 131


class StreamsTopologyFencedError(BrokerError):
    """The topology epoch of the streams group is outdated."""

    code = 132


class ShareSessionLimitReachedError(RetriableBrokerError):
    """The broker has reached its limit of share sessions."""

    code = 133


class GroupDeletionFailedError(BrokerError):
    """The group could not be deleted; the message says why."""

    code = 134


class StreamsTopologyDescriptionUpdateFailedError(BrokerError):
    """The description of a streams group's topology could not be kept."""

    code = 135
