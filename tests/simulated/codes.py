"""The error codes that simulated brokers answer with."""

from aiokafka_lead.errors import (
    FencedLeaderEpochError,
    FetchSessionIdNotFoundError,
    InvalidFetchSessionEpochError,
    InvalidProducerEpochError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumberError,
    RebootstrapRequiredError,
    ReplicaNotAvailableError,
    RequestTimedOutError,
    UnknownLeaderEpochError,
    UnknownServerError,
    UnknownTopicOrPartitionError,
)

NONE = 0
FENCED_LEADER_EPOCH = FencedLeaderEpochError.code
FETCH_SESSION_ID_NOT_FOUND = FetchSessionIdNotFoundError.code
INVALID_FETCH_SESSION_EPOCH = InvalidFetchSessionEpochError.code
INVALID_PRODUCER_EPOCH = InvalidProducerEpochError.code
MESSAGE_TOO_LARGE = MessageTooLargeError.code
NOT_ENOUGH_REPLICAS = NotEnoughReplicasError.code
NOT_ENOUGH_REPLICAS_AFTER_APPEND = NotEnoughReplicasAfterAppendError.code
NOT_LEADER_OR_FOLLOWER = NotLeaderOrFollowerError.code
OFFSET_NOT_AVAILABLE = OffsetNotAvailableError.code
OFFSET_OUT_OF_RANGE = OffsetOutOfRangeError.code
OUT_OF_ORDER_SEQUENCE_NUMBER = OutOfOrderSequenceNumberError.code
REBOOTSTRAP_REQUIRED = RebootstrapRequiredError.code
REPLICA_NOT_AVAILABLE = ReplicaNotAvailableError.code
REQUEST_TIMED_OUT = RequestTimedOutError.code
UNKNOWN_LEADER_EPOCH = UnknownLeaderEpochError.code
UNKNOWN_SERVER_ERROR = UnknownServerError.code
UNKNOWN_TOPIC_OR_PARTITION = UnknownTopicOrPartitionError.code
