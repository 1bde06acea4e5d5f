"""Errors that brokers return about groups, transactions and producers.

The names are Kafka's; `aiokafka_lead.errors` exports them.
"""

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
    """The metadata of a committed offset is longer than ``offset.metadata.max.bytes``."""

    code = 12


class CoordinatorLoadInProgressError(RetriableBrokerError):
    """The coordinator is still loading its state."""

    code = 14


class CoordinatorNotAvailableError(RetriableBrokerError):
    """The coordinator of the group or transaction is not available."""

    code = 15


class NotCoordinatorError(RetriableBrokerError):
    """The broker is not the coordinator of this group or transactional id."""

    code = 16


class IllegalGenerationError(BrokerError):
    """The request names an old generation of the group."""

    code = 22


class InconsistentGroupProtocolError(BrokerError):
    """The member and its group share no assignment protocol."""

    code = 23


class InvalidGroupIdError(BrokerError):
    """The group id is invalid, for example because it is empty."""

    code = 24


class UnknownMemberIdError(BrokerError):
    """The group has no member with this id."""

    code = 25


class InvalidSessionTimeoutError(BrokerError):
    """The session timeout is outside the range that the broker allows."""

    code = 26


class RebalanceInProgressError(BrokerError):
    """The group is rebalancing: the member must join again."""

    code = 27


class InvalidCommitOffsetSizeError(BrokerError):
    """The offsets to commit are larger than the broker allows."""

    code = 28


class OutOfOrderSequenceNumberError(BrokerError):
    """The broker expected another sequence number from this producer."""

    code = 45


class DuplicateSequenceNumberError(BrokerError):
    """The broker already has a batch with this sequence number."""

    code = 46


class InvalidProducerEpochError(BrokerError):
    """The producer's epoch is old: a newer instance has taken over."""

    code = 47


class InvalidTxnStateError(BrokerError):
    """The coordinator rejected the request because of the transaction's state."""

    code = 48


class InvalidProducerIdMappingError(BrokerError):
    """The producer id no longer belongs to this transactional id."""

    code = 49


class InvalidTransactionTimeoutError(BrokerError):
    """The transaction timeout is larger than ``transaction.max.timeout.ms``."""

    code = 50


class ConcurrentTransactionsError(RetriableBrokerError):
    """Another operation of the same transaction is still in progress."""

    code = 51


class TransactionCoordinatorFencedError(BrokerError):
    """The transaction coordinator has been replaced."""

    code = 52


class UnknownProducerIdError(BrokerError):
    """The broker has no state for this producer id, for example because its records were deleted."""

    code = 59


class NonEmptyGroupError(BrokerError):
    """The group still has members."""

    code = 68


class GroupIdNotFoundError(BrokerError):
    """The group does not exist."""

    code = 69


class MemberIdRequiredError(BrokerError):
    """The member must join again, with the member id from this response."""

    code = 79


class GroupMaxSizeReachedError(BrokerError):
    """The group is full (``group.max.size``)."""

    code = 81


class FencedInstanceIdError(BrokerError):
    """Another member has taken over this ``group_instance_id``."""

    code = 82


class GroupSubscribedToTopicError(BrokerError):
    """The offsets cannot be deleted, because the group is subscribed to the topic."""

    code = 86


class UnstableOffsetCommitError(RetriableBrokerError):
    """An open transaction has pending offsets: try again."""

    code = 88


class ProducerFencedError(BrokerError):
    """Another producer with the same transactional id has taken over."""

    code = 90


class TransactionalIdNotFoundError(BrokerError):
    """The transactional id does not exist."""

    code = 105


class FencedMemberEpochError(BrokerError):
    """The coordinator has moved past this member epoch: give up all partitions and join again."""

    code = 110


class UnreleasedInstanceIdError(BrokerError):
    """The ``group_instance_id`` is still in use by another member."""

    code = 111


class UnsupportedAssignorError(BrokerError):
    """The group's coordinator does not support this assignor."""

    code = 112


class StaleMemberEpochError(BrokerError):
    """The member epoch is outdated: try again with the new epoch from a heartbeat."""

    code = 113


class TransactionAbortableError(BrokerError):
    """The transaction failed. Abort it; then the producer can continue."""

    code = 120


class InvalidRecordStateError(BrokerError):
    """The record of a share group cannot be acknowledged in its current state."""

    code = 121


class ShareSessionNotFoundError(RetriableBrokerError):
    """The broker no longer has the share session."""

    code = 122


class InvalidShareSessionEpochError(RetriableBrokerError):
    """The share session has moved on to another epoch."""

    code = 123


class FencedStateEpochError(BrokerError):
    """The share group's state has a newer epoch than the request."""

    code = 124


class InvalidRegularExpressionError(BrokerError):
    """The regular expression of the subscription is invalid."""

    code = 128


class StreamsInvalidTopologyError(BrokerError):
    """The topology of the streams group is invalid."""

    code = 130


class StreamsInvalidTopologyEpochError(BrokerError):
    """The topology epoch of the streams group is invalid."""

    code = 131


class StreamsTopologyFencedError(BrokerError):
    """The topology epoch of the streams group is outdated."""

    code = 132


class ShareSessionLimitReachedError(RetriableBrokerError):
    """The broker has reached its limit of share sessions."""

    code = 133


class GroupDeletionFailedError(BrokerError):
    """The group could not be deleted; the message gives the reason."""

    code = 134


class StreamsTopologyDescriptionUpdateFailedError(BrokerError):
    """The description of a streams group's topology could not be stored."""

    code = 135
