"""Errors that brokers return about records, partitions, offsets and topics.

The names are Kafka's; `aiokafka_lead.errors` exports them.
"""

from .base import BrokerError, InvalidMetadataError, KafkaTimeoutError, RetriableBrokerError

__all__ = [
    "BrokerNotAvailableError",
    "CorruptRecordError",
    "ElectionNotNeededError",
    "EligibleLeadersNotAvailableError",
    "FencedLeaderEpochError",
    "FetchSessionIdNotFoundError",
    "FetchSessionTopicIdError",
    "InconsistentTopicIdError",
    "InvalidFetchSessionEpochError",
    "InvalidFetchSizeError",
    "InvalidPartitionsError",
    "InvalidRecordError",
    "InvalidReplicaAssignmentError",
    "InvalidReplicationFactorError",
    "InvalidRequiredAcksError",
    "InvalidTimestampError",
    "InvalidTopicError",
    "KafkaStorageError",
    "LeaderNotAvailableError",
    "ListenerNotFoundError",
    "LogDirNotFoundError",
    "MessageTooLargeError",
    "NoReassignmentInProgressError",
    "NotEnoughReplicasAfterAppendError",
    "NotEnoughReplicasError",
    "NotLeaderOrFollowerError",
    "OffsetMovedToTieredStorageError",
    "OffsetNotAvailableError",
    "OffsetOutOfRangeError",
    "PolicyViolationError",
    "PositionOutOfRangeError",
    "PreferredLeaderNotAvailableError",
    "ReassignmentInProgressError",
    "RecordListTooLargeError",
    "ReplicaNotAvailableError",
    "RequestTimedOutError",
    "SnapshotNotFoundError",
    "TopicAlreadyExistsError",
    "TopicDeletionDisabledError",
    "UnknownLeaderEpochError",
    "UnknownTopicIdError",
    "UnknownTopicOrPartitionError",
    "UnsupportedCompressionTypeError",
    "UnsupportedForMessageFormatError",
]


class OffsetOutOfRangeError(BrokerError):
    """The offset is before the log's start or after its end."""

    code = 1


class CorruptRecordError(RetriableBrokerError):
    """The record data failed its checksum, or is invalid for the topic."""

    code = 2


class UnknownTopicOrPartitionError(InvalidMetadataError):
    """The broker does not know this topic or partition."""

    code = 3


class InvalidFetchSizeError(BrokerError):
    """The fetch size is invalid."""

    code = 4


class LeaderNotAvailableError(InvalidMetadataError):
    """The partition currently has no leader."""

    code = 5


class NotLeaderOrFollowerError(InvalidMetadataError):
    """The broker is not the leader of this partition, or not a replica if any replica may serve the request."""

    code = 6


class RequestTimedOutError(RetriableBrokerError, KafkaTimeoutError):
    """The broker did not finish the request in time."""

    code = 7


class BrokerNotAvailableError(BrokerError):
    """The broker is not available."""

    code = 8


class ReplicaNotAvailableError(InvalidMetadataError):
    """The requested replica is not available."""

    code = 9


class MessageTooLargeError(BrokerError):
    """A record or batch is larger than the topic or broker allows (``max.message.bytes``)."""

    code = 10


class InvalidTopicError(BrokerError):
    """The topic's name is invalid, or the topic may not be used this way."""

    code = 17


class RecordListTooLargeError(BrokerError):
    """The batch is larger than a log segment."""

    code = 18


class NotEnoughReplicasError(RetriableBrokerError):
    """Fewer replicas are in sync than ``min.insync.replicas`` requires; no record was written."""

    code = 19


class NotEnoughReplicasAfterAppendError(RetriableBrokerError):
    """The leader wrote the records, but fewer replicas than required have them."""

    code = 20


class InvalidRequiredAcksError(BrokerError):
    """``acks`` must be 0, 1 or -1 (all)."""

    code = 21


class InvalidTimestampError(BrokerError):
    """A record's timestamp is outside the range that the topic allows."""

    code = 32


class TopicAlreadyExistsError(BrokerError):
    """A topic with this name already exists."""

    code = 36


class InvalidPartitionsError(BrokerError):
    """The number of partitions is below one, or not above the current number."""

    code = 37


class InvalidReplicationFactorError(BrokerError):
    """The replication factor is below one, or above the number of brokers."""

    code = 38


class InvalidReplicaAssignmentError(BrokerError):
    """The assignment of replicas to brokers is invalid."""

    code = 39


class UnsupportedForMessageFormatError(BrokerError):
    """The log's message format is too old for this request."""

    code = 43


class PolicyViolationError(BrokerError):
    """The request violates a policy of the cluster."""

    code = 44


class KafkaStorageError(InvalidMetadataError):
    """The partition's disk failed."""

    code = 56


class LogDirNotFoundError(BrokerError):
    """The broker does not have the log directory that the request names."""

    code = 57


class ReassignmentInProgressError(BrokerError):
    """A reassignment of this partition is in progress."""

    code = 60


class FetchSessionIdNotFoundError(RetriableBrokerError):
    """The broker no longer has the fetch session."""

    code = 70


class InvalidFetchSessionEpochError(RetriableBrokerError):
    """The fetch session has moved on to another epoch."""

    code = 71


class ListenerNotFoundError(InvalidMetadataError):
    """The leader has no listener with the name of the listener that this client uses."""

    code = 72


class TopicDeletionDisabledError(BrokerError):
    """Topic deletion is disabled in the cluster."""

    code = 73


class FencedLeaderEpochError(InvalidMetadataError):
    """The request names an older leader epoch than the broker's: the client's metadata is stale."""

    code = 74


class UnknownLeaderEpochError(RetriableBrokerError):
    """The request names a newer leader epoch than the broker's: the broker lags behind the client."""

    code = 75


class UnsupportedCompressionTypeError(BrokerError):
    """This version of the request does not allow this compression type."""

    code = 76


class OffsetNotAvailableError(RetriableBrokerError):
    """The new leader does not know its high watermark yet, so it cannot return an offset."""

    code = 78


class PreferredLeaderNotAvailableError(InvalidMetadataError):
    """The preferred leader is not available."""

    code = 80


class EligibleLeadersNotAvailableError(InvalidMetadataError):
    """No replica is eligible to lead."""

    code = 83


class ElectionNotNeededError(InvalidMetadataError):
    """The partition already has the leader that an election would choose."""

    code = 84


class NoReassignmentInProgressError(BrokerError):
    """No reassignment of this partition is in progress."""

    code = 85


class InvalidRecordError(BrokerError):
    """The broker rejected a record as invalid, for example one without a key for a compacted topic."""

    code = 87


class SnapshotNotFoundError(BrokerError):
    """The broker has no such snapshot."""

    code = 98


class PositionOutOfRangeError(BrokerError):
    """The position is outside the snapshot."""

    code = 99


class UnknownTopicIdError(InvalidMetadataError):
    """The broker does not know this topic id."""

    code = 100


class InconsistentTopicIdError(InvalidMetadataError):
    """The topic's id in the request differs from the log's: the topic was deleted and created again."""

    code = 103


class FetchSessionTopicIdError(RetriableBrokerError):
    """A fetch session must not mix topic names and topic ids."""

    code = 106


class OffsetMovedToTieredStorageError(BrokerError):
    """The offset is now in tiered storage only."""

    code = 109
