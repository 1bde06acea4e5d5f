"""SASL GSSAPI (RFC 4752) without calling the GSS-API: the order of messages, and the negotiation of security layers.

`_io.connection.gssapi_login` calls the GSS-API, which connects to a KDC and blocks.
"""

from __future__ import annotations

from enum import Enum, auto

from ....errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailedError
from ...transitions import Transitions

NO_LAYER = 1
"""The bit for "no security layer" (QOP auth). Kafka protects no data after authentication."""

_OFFER_BYTES = 4


class Phase(Enum):
    """Phases of the exchange, named after the message that is expected next."""

    CONTEXT = auto()
    """The broker's part of the security context."""
    LAYER = auto()
    """The broker's offer of security layers."""
    OUTCOME = auto()
    """The broker's confirmation of the client's identity."""
    DONE = auto()


class Event(Enum):
    """Events that move the exchange to another phase."""

    CONTINUED = auto()
    """The security context needs another message."""
    ESTABLISHED = auto()
    """The security context is complete, and the broker has proved its identity."""
    CHOSEN = auto()
    """Client and broker have agreed on the security layer."""
    ACCEPTED = auto()


phases: Transitions[Phase, Event] = Transitions(
    "a GSSAPI exchange",
    Phase.CONTEXT,
    {
        Phase.CONTEXT: {Event.CONTINUED: Phase.CONTEXT, Event.ESTABLISHED: Phase.LAYER},
        Phase.LAYER: {Event.CHOSEN: Phase.OUTCOME},
        Phase.OUTCOME: {Event.ACCEPTED: Phase.DONE},
        Phase.DONE: {},
    },
)


def layer_answer(offer: bytes, principal: str) -> bytes:
    """Return the response to the broker's unwrapped offer: no security layer, and the client's principal.

    Like Java, it also sends the principal as the authorization identity. Raises `SaslAuthenticationFailedError` if the
    broker requires a layer or sends an invalid offer.
    """
    if len(offer) != _OFFER_BYTES:
        raise SaslAuthenticationFailedError(f"the broker's offer of security layers is {len(offer)} bytes long, not 4")
    if not offer[0] & NO_LAYER:
        raise SaslAuthenticationFailedError(
            f"the broker requires a security layer (QOP bits {offer[0]}), which Kafka does not support"
        )
    return bytes([NO_LAYER, 0, 0, 0]) + principal.encode()


# From krb5.h. The minor codes of the GSS-API are the same numbers.
_BASE = -1765328384
_CURES = {
    _BASE + 6: "the KDC does not know sasl_kerberos_principal",
    _BASE + 7: "the KDC does not know the broker's principal: check sasl_kerberos_service_name, and the host name that "
    "the broker advertises (or sasl_kerberos_domain_name)",
    _BASE + 18: "the principal is locked or has expired",
    _BASE + 23: "the password has expired: renew the principal's key and the keytab",
    _BASE + 24: "the key in sasl_kerberos_keytab is outdated, or the password is wrong",
    _BASE + 31: "the broker's key has changed, or its host name leads to another host",
    _BASE + 32: "the ticket has expired: run kinit, or set sasl_kerberos_keytab",
    _BASE + 141: "there is no ticket: run kinit, or set sasl_kerberos_keytab",
    _BASE + 195: "there is no ticket: run kinit, or set sasl_kerberos_keytab",
}
_PASSING = {
    _BASE + 29: "a service of the KDC is not available",
    _BASE + 37: "the clocks of this machine, the KDC and the broker differ too much",
    _BASE + 52: "the KDC's response was truncated",
    _BASE + 154: "the KDC's realm or address cannot be found",
    _BASE + 156: "no KDC can be reached",
}
"""Kerberos errors that may be temporary."""


def kerberos_error(doing: str, minor: int, text: str) -> KafkaError:
    """Return the error for a failed GSS-API call with this minor code.

    If the KDC is unreachable or the clocks differ, the error is a `KafkaConnectionError`, which is retriable.
    Otherwise, it is a `SaslAuthenticationFailedError`.
    """
    code = minor - 2**32 if minor >= 2**31 else minor
    passing = _PASSING.get(code)
    meaning = passing or _CURES.get(code)
    said = f"Kerberos, {doing}: {meaning} ({text})" if meaning else f"Kerberos, {doing}: {text}"
    return KafkaConnectionError(said) if passing else SaslAuthenticationFailedError(said)
