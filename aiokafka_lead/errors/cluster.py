"""What a broker answers about the request itself, security, and the cluster.

The names are those of Kafka's error codes; `aiokafka_lead.errors` exports them.
"""

from __future__ import annotations

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
    """The broker lost its connection to another while it answered."""

    code = 13


class TopicAuthorizationFailedError(BrokerError):
    """The principal may not use this topic."""

    code = 29


class GroupAuthorizationFailedError(BrokerError):
    """The principal may not use this group."""

    code = 30


class ClusterAuthorizationFailedError(BrokerError):
    """The principal may not do this to the cluster."""

    code = 31


class UnsupportedSaslMechanismError(BrokerError):
    """The broker does not offer this SASL mechanism."""

    code = 33


class IllegalSaslStateError(BrokerError):
    """The SASL exchange does not allow this request now."""

    code = 34


class UnsupportedVersionError(BrokerError):
    """The broker, or the message, does not know this version of the API."""

    code = 35


class InvalidConfigError(BrokerError):
    """A configuration is not valid."""

    code = 40


class NotControllerError(RetriableBrokerError):
    """The broker is not the controller."""

    code = 41


class InvalidRequestError(BrokerError):
    """The broker finds the request malformed or contradictory."""

    code = 42


class TransactionalIdAuthorizationFailedError(BrokerError):
    """The principal may not use this transactional id."""

    code = 53


class SecurityDisabledError(BrokerError):
    """The broker has no security features enabled."""

    code = 54


class OperationNotAttemptedError(BrokerError):
    """The broker did not try this part of the request, since another part failed."""

    code = 55


class SaslAuthenticationFailedError(BrokerError):
    """The broker refused the credentials."""

    code = 58


class DelegationTokenAuthDisabledError(BrokerError):
    """The cluster has no delegation tokens."""

    code = 61


class DelegationTokenNotFoundError(BrokerError):
    """There is no such delegation token."""

    code = 62


class DelegationTokenOwnerMismatchError(BrokerError):
    """The principal neither owns the delegation token nor may renew it."""

    code = 63


class DelegationTokenRequestNotAllowedError(BrokerError):
    """Delegation tokens can't be managed over this kind of connection."""

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
    """The broker was registered anew meanwhile."""

    code = 77


class ThrottlingQuotaExceededError(RetriableBrokerError):
    """A quota on controller mutations is used up."""

    code = 89


class ResourceNotFoundError(BrokerError):
    """The request names something that does not exist."""

    code = 91


class DuplicateResourceError(BrokerError):
    """The request names something twice."""

    code = 92


class UnacceptableCredentialError(BrokerError):
    """The credentials do not meet the cluster's rules."""

    code = 93


class InconsistentVoterSetError(BrokerError):
    """The two sides disagree about the set of voters."""

    code = 94


class InvalidUpdateVersionError(BrokerError):
    """The version of the update is not valid."""

    code = 95


class FeatureUpdateFailedError(BrokerError):
    """The finalized features could not be updated."""

    code = 96


class PrincipalDeserializationFailureError(BrokerError):
    """The cluster could not read the forwarded principal."""

    code = 97


class DuplicateBrokerRegistrationError(BrokerError):
    """A broker of this id is already registered."""

    code = 101


class BrokerIdNotRegisteredError(BrokerError):
    """No broker of this id is registered."""

    code = 102


class InconsistentClusterIdError(BrokerError):
    """The request names another cluster."""

    code = 104


class IneligibleReplicaError(BrokerError):
    """A replica in the request may not be in sync."""

    code = 107


class NewLeaderElectedError(BrokerError):
    """The partition changed, but elected another leader."""

    code = 108


class MismatchedEndpointTypeError(BrokerError):
    """The request went to the wrong kind of endpoint, broker for controller or the reverse."""

    code = 114


class UnsupportedEndpointTypeError(BrokerError):
    """The kind of endpoint is not supported."""

    code = 115


class UnknownControllerIdError(BrokerError):
    """There is no controller of this id."""

    code = 116


class UnknownSubscriptionIdError(BrokerError):
    """The telemetry subscription is unknown or outdated."""

    code = 117


class TelemetryTooLargeError(BrokerError):
    """The telemetry is larger than the broker accepts."""

    code = 118


class InvalidRegistrationError(BrokerError):
    """The controller finds the broker's registration not valid."""

    code = 119


class InvalidVoterKeyError(BrokerError):
    """The voter's key is not the receiver's."""

    code = 125


class DuplicateVoterError(BrokerError):
    """The voter is already in the set."""

    code = 126


class VoterNotFoundError(BrokerError):
    """The voter is not in the set."""

    code = 127


class RebootstrapRequiredError(BrokerError):
    """The client's view of the cluster is too old: it must bootstrap anew (KIP-1102)."""

    code = 129


class ControllerIdNotRegisteredError(BrokerError):
    """The cluster has no controller of this id."""

    code = 136
