"""Errors with aiokafka's names.

Most are aliases of the errors of `aiokafka_lead`, so either name catches the error. Errors without an equivalent are
subclasses of `KafkaError`, except `ConsumerStoppedError` and `IllegalOperation`. This module also adds aiokafka's
attributes to the classes of `aiokafka_lead`: ``errno``, ``invalid_metadata``, ``description`` and, on the classes,
``message``.
"""

from __future__ import annotations

import re
from typing import Any

from .. import errors as native

# --- errors of the client ---------------------------------------------------------------------------------------------

KafkaError = native.KafkaError
IllegalStateError = native.IllegalStateError
IllegalArgumentError = native.ConfigError
KafkaConfigurationError = native.ConfigError
KafkaConnectionError = native.KafkaConnectionError
NoBrokersAvailable = native.KafkaConnectionError
KafkaProtocolError = native.MalformedMessageError
KafkaTimeoutError = native.KafkaTimeoutError
CommitFailedError = native.CommitFailedError
NoOffsetForPartitionError = native.NoOffsetForPartitionError
RecordTooLargeError = native.BatchTooLargeError
ProducerClosed = native.ClientClosedError
QuotaViolationError = native.ThrottlingQuotaExceededError


class ConsumerStoppedError(Exception):
    """The consumer was stopped before or during a wait for records."""


class IllegalOperation(Exception):
    """The options do not allow the operation, such as a commit without ``group_id``."""


class NodeNotReadyError(KafkaError):
    """The broker is not ready for requests."""

    retriable = True


class CorrelationIdError(KafkaProtocolError):
    """A response does not belong to the pending request."""

    retriable = True


class Cancelled(KafkaError):
    """A request was cancelled."""

    retriable = True


class TooManyInFlightRequests(KafkaError):
    """A connection has its maximum number of pending requests."""

    retriable = True


class StaleMetadata(KafkaError):
    """The client's metadata is stale."""

    retriable = True
    refreshes_metadata = True


class MetadataEmptyBrokerList(KafkaError):
    """The metadata in a broker's response contains no brokers."""

    retriable = True


class UnrecognizedBrokerVersion(KafkaError):
    """The broker's version is unknown."""


class IncompatibleBrokerVersion(KafkaError):
    """The broker is too old for the request."""


class AuthenticationMethodNotSupported(KafkaError):
    """The broker does not support this authentication mechanism."""


class KafkaUnavailableError(KafkaError):
    """The cluster cannot be reached."""


class UnsupportedCodecError(KafkaError):
    """A batch is compressed with an unsupported codec."""


# --- errors of brokers ------------------------------------------------------------------------------------------------

BrokerResponseError = native.BrokerError


class NoError(BrokerResponseError):
    """No error."""


NoError.code = 0

UnknownError = native.UnknownServerError
OffsetOutOfRangeError = native.OffsetOutOfRangeError
CorruptRecordException = native.CorruptRecordError
InvalidMessageError = CorruptRecordException
UnknownTopicOrPartitionError = native.UnknownTopicOrPartitionError
InvalidFetchRequestError = native.InvalidFetchSizeError
LeaderNotAvailableError = native.LeaderNotAvailableError
NotLeaderForPartitionError = native.NotLeaderOrFollowerError
RequestTimedOutError = native.RequestTimedOutError
BrokerNotAvailableError = native.BrokerNotAvailableError
ReplicaNotAvailableError = native.ReplicaNotAvailableError
MessageSizeTooLargeError = native.MessageTooLargeError
StaleControllerEpochError = native.StaleControllerEpochError
OffsetMetadataTooLargeError = native.OffsetMetadataTooLargeError
StaleLeaderEpochCodeError = native.NetworkError
GroupLoadInProgressError = native.CoordinatorLoadInProgressError
CoordinatorLoadInProgressError = GroupLoadInProgressError
GroupCoordinatorNotAvailableError = native.CoordinatorNotAvailableError
CoordinatorNotAvailableError = GroupCoordinatorNotAvailableError
NotCoordinatorForGroupError = native.NotCoordinatorError
NotCoordinatorError = NotCoordinatorForGroupError
InvalidTopicError = native.InvalidTopicError
RecordListTooLargeError = native.RecordListTooLargeError
NotEnoughReplicasError = native.NotEnoughReplicasError
NotEnoughReplicasAfterAppendError = native.NotEnoughReplicasAfterAppendError
InvalidRequiredAcksError = native.InvalidRequiredAcksError
IllegalGenerationError = native.IllegalGenerationError
InconsistentGroupProtocolError = native.InconsistentGroupProtocolError
InvalidGroupIdError = native.InvalidGroupIdError
UnknownMemberIdError = native.UnknownMemberIdError
InvalidSessionTimeoutError = native.InvalidSessionTimeoutError
RebalanceInProgressError = native.RebalanceInProgressError
InvalidCommitOffsetSizeError = native.InvalidCommitOffsetSizeError
TopicAuthorizationFailedError = native.TopicAuthorizationFailedError
GroupAuthorizationFailedError = native.GroupAuthorizationFailedError
ClusterAuthorizationFailedError = native.ClusterAuthorizationFailedError
InvalidTimestampError = native.InvalidTimestampError
UnsupportedSaslMechanismError = native.UnsupportedSaslMechanismError
IllegalSaslStateError = native.IllegalSaslStateError
UnsupportedVersionError = native.UnsupportedVersionError
TopicAlreadyExistsError = native.TopicAlreadyExistsError
InvalidPartitionsError = native.InvalidPartitionsError
InvalidReplicationFactorError = native.InvalidReplicationFactorError
InvalidReplicationAssignmentError = native.InvalidReplicaAssignmentError
InvalidConfigurationError = native.InvalidConfigError
NotControllerError = native.NotControllerError
InvalidRequestError = native.InvalidRequestError
UnsupportedForMessageFormatError = native.UnsupportedForMessageFormatError
PolicyViolationError = native.PolicyViolationError
OutOfOrderSequenceNumber = native.OutOfOrderSequenceNumberError
DuplicateSequenceNumber = native.DuplicateSequenceNumberError
InvalidProducerEpoch = native.InvalidProducerEpochError
InvalidTxnState = native.InvalidTxnStateError
InvalidProducerIdMapping = native.InvalidProducerIdMappingError
InvalidTransactionTimeout = native.InvalidTransactionTimeoutError
ConcurrentTransactions = native.ConcurrentTransactionsError
TransactionCoordinatorFenced = native.TransactionCoordinatorFencedError
TransactionalIdAuthorizationFailed = native.TransactionalIdAuthorizationFailedError
SecurityDisabled = native.SecurityDisabledError
OperationNotAttempted = native.OperationNotAttemptedError
KafkaStorageError = native.KafkaStorageError
LogDirNotFound = native.LogDirNotFoundError
SaslAuthenticationFailed = native.SaslAuthenticationFailedError
AuthenticationFailedError = SaslAuthenticationFailed
UnknownProducerId = native.UnknownProducerIdError
ReassignmentInProgress = native.ReassignmentInProgressError
DelegationTokenAuthDisabled = native.DelegationTokenAuthDisabledError
DelegationTokenNotFound = native.DelegationTokenNotFoundError
DelegationTokenOwnerMismatch = native.DelegationTokenOwnerMismatchError
DelegationTokenRequestNotAllowed = native.DelegationTokenRequestNotAllowedError
DelegationTokenAuthorizationFailed = native.DelegationTokenAuthorizationFailedError
DelegationTokenExpired = native.DelegationTokenExpiredError
InvalidPrincipalType = native.InvalidPrincipalTypeError
NonEmptyGroup = native.NonEmptyGroupError
GroupIdNotFound = native.GroupIdNotFoundError
FetchSessionIdNotFound = native.FetchSessionIdNotFoundError
InvalidFetchSessionEpoch = native.InvalidFetchSessionEpochError
ListenerNotFound = native.ListenerNotFoundError
MemberIdRequired = native.MemberIdRequiredError
ProducerFenced = native.ProducerFencedError


def for_code(error_code: int) -> type[BrokerResponseError]:
    """Return the class for a broker's error code.

    The class is `NoError` for 0, and `UnknownError` or a subclass for an unknown code.
    """
    return NoError if error_code == 0 else native.error_for_code(error_code)


kafka_errors: dict[int, type[BrokerResponseError]] = {
    found.code: found
    for found in vars().copy().values()
    if isinstance(found, type) and issubclass(found, BrokerResponseError) and "code" in vars(found)
}
"""Error classes by code."""


# --- additional attributes of aiokafka's classes ----------------------------------------------------------------------


class _OfClass:
    """Descriptor of an attribute that is computed from the class, also on instances."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __get__(self, error: object, kind: type) -> Any:
        return self._of(kind)


def _protocol_name(kind: type) -> str:
    """Return the name of an error in Kafka's protocol, such as ``UNKNOWN_TOPIC_OR_PARTITION``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__.removesuffix("Error")).upper()


def _lend(kind: type, **attributes: Any) -> None:
    for name, of in attributes.items():
        setattr(kind, name, _OfClass(of))


_lend(KafkaError, invalid_metadata=lambda kind: kind.refreshes_metadata)
_lend(
    BrokerResponseError,
    errno=lambda kind: kind.code,
    message=_protocol_name,
    description=lambda kind: (kind.__doc__ or "").partition("\n")[0],
)
