"""Errors that brokers return about requests, security and the cluster.

The names are Kafka's; `aiokafka_lead.errors` exports them.
"""

from .base import BrokerError, InvalidMetadataError, RetriableBrokerError

__all__ = [
    "BrokerIdNotRegisteredError",
    "ClusterAuthorizationFailedError",
    "ControllerIdNotRegisteredError",
    "DelegationTokenAuthDisabledError",
    "DelegationTokenAuthorizationFailedError",
    "DelegationTokenExpiredError",
    "DelegationTokenNotFoundError",
    "DelegationTokenOwnerMismatchError",
    "DelegationTokenRequestNotAllowedError",
    "DuplicateBrokerRegistrationError",
    "DuplicateResourceError",
    "DuplicateVoterError",
    "FeatureUpdateFailedError",
    "GroupAuthorizationFailedError",
    "IllegalSaslStateError",
    "InconsistentClusterIdError",
    "InconsistentVoterSetError",
    "IneligibleReplicaError",
    "InvalidConfigError",
    "InvalidPrincipalTypeError",
    "InvalidRegistrationError",
    "InvalidRequestError",
    "InvalidUpdateVersionError",
    "InvalidVoterKeyError",
    "MismatchedEndpointTypeError",
    "NetworkError",
    "NewLeaderElectedError",
    "NotControllerError",
    "OperationNotAttemptedError",
    "PrincipalDeserializationFailureError",
    "RebootstrapRequiredError",
    "ResourceNotFoundError",
    "SaslAuthenticationFailedError",
    "SecurityDisabledError",
    "StaleBrokerEpochError",
    "StaleControllerEpochError",
    "TelemetryTooLargeError",
    "ThrottlingQuotaExceededError",
    "TopicAuthorizationFailedError",
    "TransactionalIdAuthorizationFailedError",
    "UnacceptableCredentialError",
    "UnknownControllerIdError",
    "UnknownSubscriptionIdError",
    "UnsupportedEndpointTypeError",
    "UnsupportedSaslMechanismError",
    "UnsupportedVersionError",
    "VoterNotFoundError",
]


class StaleControllerEpochError(BrokerError):
    """The controller moved to another broker."""

    code = 11


class NetworkError(InvalidMetadataError):
    """The broker lost its connection to another broker while it processed the request."""

    code = 13


class TopicAuthorizationFailedError(BrokerError):
    """The principal may not use this topic."""

    code = 29


class GroupAuthorizationFailedError(BrokerError):
    """The principal may not use this group."""

    code = 30


class ClusterAuthorizationFailedError(BrokerError):
    """The principal may not perform this operation on the cluster."""

    code = 31


class UnsupportedSaslMechanismError(BrokerError):
    """The broker does not offer this SASL mechanism."""

    code = 33


class IllegalSaslStateError(BrokerError):
    """The SASL exchange does not allow this request in its current state."""

    code = 34


class UnsupportedVersionError(BrokerError):
    """The broker does not support this version of the API."""

    code = 35


class InvalidConfigError(BrokerError):
    """A configuration is invalid."""

    code = 40


class NotControllerError(RetriableBrokerError):
    """The broker is not the controller."""

    code = 41


class InvalidRequestError(BrokerError):
    """The broker considers the request malformed or contradictory."""

    code = 42


class TransactionalIdAuthorizationFailedError(BrokerError):
    """The principal may not use this transactional id."""

    code = 53


class SecurityDisabledError(BrokerError):
    """The broker has no security features enabled."""

    code = 54


class OperationNotAttemptedError(BrokerError):
    """The broker did not attempt this part of the request because another part failed."""

    code = 55


class SaslAuthenticationFailedError(BrokerError):
    """The broker rejected the credentials."""

    code = 58


class DelegationTokenAuthDisabledError(BrokerError):
    """Delegation tokens are disabled in the cluster."""

    code = 61


class DelegationTokenNotFoundError(BrokerError):
    """The delegation token does not exist."""

    code = 62


class DelegationTokenOwnerMismatchError(BrokerError):
    """The principal is neither the owner nor a renewer of the delegation token."""

    code = 63


class DelegationTokenRequestNotAllowedError(BrokerError):
    """Delegation tokens cannot be managed over this kind of connection."""

    code = 64


class DelegationTokenAuthorizationFailedError(BrokerError):
    """The principal may not use this delegation token."""

    code = 65


class DelegationTokenExpiredError(BrokerError):
    """The delegation token has expired."""

    code = 66


class InvalidPrincipalTypeError(BrokerError):
    """The type of the principal is not supported."""

    code = 67


class StaleBrokerEpochError(BrokerError):
    """The request has an old broker epoch, because the broker has registered again."""

    code = 77


class ThrottlingQuotaExceededError(RetriableBrokerError):
    """A quota on controller mutations is exceeded."""

    code = 89


class ResourceNotFoundError(BrokerError):
    """The resource named by the request does not exist."""

    code = 91


class DuplicateResourceError(BrokerError):
    """The request names a resource twice."""

    code = 92


class UnacceptableCredentialError(BrokerError):
    """The credentials violate the cluster's rules."""

    code = 93


class InconsistentVoterSetError(BrokerError):
    """The voter sets of the request and the broker differ."""

    code = 94


class InvalidUpdateVersionError(BrokerError):
    """The version of the update is invalid."""

    code = 95


class FeatureUpdateFailedError(BrokerError):
    """The finalized features could not be updated."""

    code = 96


class PrincipalDeserializationFailureError(BrokerError):
    """The controller could not deserialize the principal of a forwarded request."""

    code = 97


class DuplicateBrokerRegistrationError(BrokerError):
    """A broker with this id is already registered."""

    code = 101


class BrokerIdNotRegisteredError(BrokerError):
    """No broker with this id is registered."""

    code = 102


class InconsistentClusterIdError(BrokerError):
    """The request names another cluster."""

    code = 104


class IneligibleReplicaError(BrokerError):
    """The new ISR in the request contains an ineligible replica."""

    code = 107


class NewLeaderElectedError(BrokerError):
    """The partition was updated, but its leader has changed."""

    code = 108


class MismatchedEndpointTypeError(BrokerError):
    """The request went to a broker's endpoint instead of a controller's, or the reverse."""

    code = 114


class UnsupportedEndpointTypeError(BrokerError):
    """The type of endpoint is not supported."""

    code = 115


class UnknownControllerIdError(BrokerError):
    """No controller has this id."""

    code = 116


class UnknownSubscriptionIdError(BrokerError):
    """The telemetry subscription is unknown or outdated."""

    code = 117


class TelemetryTooLargeError(BrokerError):
    """The telemetry is larger than the broker accepts."""

    code = 118


class InvalidRegistrationError(BrokerError):
    """The broker's registration is invalid."""

    code = 119


class InvalidVoterKeyError(BrokerError):
    """The voter key in the request differs from the key of the replica that received it."""

    code = 125


class DuplicateVoterError(BrokerError):
    """The voter is already in the set."""

    code = 126


class VoterNotFoundError(BrokerError):
    """The voter is not in the set."""

    code = 127


class RebootstrapRequiredError(BrokerError):
    """The client's metadata is too old, and the client must bootstrap again (KIP-1102)."""

    code = 129


class ControllerIdNotRegisteredError(BrokerError):
    """No controller with this id is registered."""

    code = 136
