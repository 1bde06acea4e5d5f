"""What both sides say before a connection is ready: versions first, then who the client is."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any

from ... import __version__
from ..._core.connection.sasl import Credentials, new_mechanism
from ..._wire import ApiVersions, Request, make_codecs
from ..._wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ..._wire.messages.sasl_handshake import SaslHandshakeRequest
from ...config import ClientConfig
from ...errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
    raise_for_code,
)
from ..loop import in_slices
from .connection import Connection

__all__ = ["Security", "shake_hands"]

SOFTWARE_NAME = "aiokafka-lead"

MAX_SASL_ROUNDS = 16
"""More exchanges than any mechanism has."""

_SASL_VERSION = 1
"""SaslHandshake 1 puts the mechanism's messages into SaslAuthenticate requests (KIP-152); 0 sent them bare."""


@dataclass(frozen=True, slots=True)
class Security:
    """The options that say how to trust a broker and be trusted; one object serves all connections of a client."""

    ssl_context: SSLContext | None
    mechanism: str | None
    credentials: Credentials | None

    @classmethod
    def from_config(cls, config: ClientConfig) -> Security:
        """From the ``security_protocol``, ``ssl_*`` and ``sasl_*`` options."""
        uses_tls = config.security_protocol.endswith("SSL")
        uses_sasl = config.security_protocol.startswith("SASL_")
        credentials = Credentials(config.sasl_plain_username or "", config.sasl_plain_password or "")
        return cls(
            ssl_context=config.ssl_context if uses_tls else None,
            mechanism=config.sasl_mechanism if uses_sasl else None,
            credentials=credentials if uses_sasl else None,
        )


async def shake_hands(connection: Connection, security: Security, hot: Iterable[type[Request[Any]]] = ()) -> None:
    """Makes an open connection ready, and codecs of ``hot`` requests, or raises `KafkaError`."""
    connection.stage = "ApiVersions"
    versions = await _negotiate(connection, security)
    retire_at = math.inf
    if security.mechanism is not None and security.credentials is not None:
        connection.stage = f"SASL {security.mechanism}"
        retire_at = await _authenticate(connection, versions, security.mechanism, security.credentials)
    offered = (request for request in hot if versions.supports(request))
    await in_slices(make_codecs((request, versions.version_for(request)) for request in offered))
    connection.become_ready(versions, authenticated=security.mechanism is not None, retire_at=retire_at)


async def _negotiate(connection: Connection, security: Security) -> ApiVersions:
    """Asks with the latest version; a broker that does not know it answers in version 0 which it knows (KIP-511)."""
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
    version = ApiVersionsRequest.MAX_VERSION
    try:
        response = await connection.exchange(request, version)
        if response.error_code == UnsupportedVersionError.code:
            response = await connection.exchange(request, _lower_version(response, version))
    except KafkaConnectionError as error:
        if type(error) is not KafkaConnectionError or security.ssl_context is not None:
            raise
        hint = 'if this listener uses TLS, set security_protocol to "SSL" or "SASL_SSL"'
        raise KafkaConnectionError(f"{error.message}; {hint}", broker=connection.label) from error
    raise_for_code(response.error_code, "the broker refused ApiVersions", connection.label)
    return ApiVersions.from_response(response)


def _lower_version(response: ApiVersionsResponse, asked: int) -> int:
    """The version to ask with next: the broker's highest, or 0 where it did not tell (before 2.4)."""
    for api in response.api_keys:
        if api.api_key == ApiVersionsRequest.API_KEY and 0 <= api.max_version < asked:
            return api.max_version
    return 0


async def _authenticate(
    connection: Connection, versions: ApiVersions, mechanism_name: str, credentials: Credentials
) -> float:
    """Returns when the broker's session ends for good, less a margin; infinity where it does not (KIP-368)."""
    handshake = await connection.exchange(SaslHandshakeRequest(mechanism=mechanism_name), _SASL_VERSION)
    if handshake.error_code == UnsupportedSaslMechanismError.code:
        offered = ", ".join(sorted(handshake.mechanisms)) or "none"
        text = f"the broker does not offer sasl_mechanism {mechanism_name}; it offers {offered}"
        raise UnsupportedSaslMechanismError(text, broker=connection.label)
    if handshake.error_code == IllegalSaslStateError.code:
        text = 'this listener does not use SASL: set security_protocol to "PLAINTEXT" or "SSL"'
        raise IllegalSaslStateError(text, broker=connection.label)
    raise_for_code(handshake.error_code, "the broker refused SaslHandshake", connection.label)

    mechanism = new_mechanism(mechanism_name, credentials)
    version = versions.version_for(SaslAuthenticateRequest)
    message = mechanism.start()
    lifetime_ms = 0
    for _ in range(MAX_SASL_ROUNDS):
        response = await connection.exchange(SaslAuthenticateRequest(auth_bytes=message), version)
        reason = response.error_message or "the broker refused the credentials"
        raise_for_code(response.error_code, reason, connection.label)
        lifetime_ms = response.session_lifetime_ms
        message = mechanism.respond(response.auth_bytes)
        if mechanism.done:
            return _retire_at(lifetime_ms)
    raise SaslAuthenticationFailedError("the broker does not come to an end", broker=connection.label)


def _retire_at(lifetime_ms: int) -> float:
    """Java re-authenticates after 85 to 95 % of the session; this client makes a new connection then."""
    if lifetime_ms <= 0:
        return math.inf
    return time.monotonic() + lifetime_ms / 1000 * random.uniform(0.85, 0.95)
