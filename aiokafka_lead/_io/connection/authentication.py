"""Authenticates the client by SASL on an open connection (KIP-43, KIP-152)."""

from __future__ import annotations

import time
from ssl import CERT_REQUIRED, SSLContext

from ..._options.logs import ClientLog
from ..._wire import ApiVersions
from ..._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ..._wire.messages.sasl_handshake import SaslHandshakeRequest
from ...errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    raise_for_code,
)
from ...errors.shown import shown
from .connection import Connection
from .login import Login

MAX_SASL_ROUNDS = 16
"""More exchanges than any mechanism needs."""

_SASL_VERSION = 1
"""SaslHandshake 1 puts the mechanism's messages into SaslAuthenticate requests (KIP-152); 0 sent them bare."""


def warn_of_exposure(log: ClientLog, login: Login, context: SSLContext | None) -> None:
    """Warn if a third party could read the credentials, because the host is not proved to be the broker."""
    if not login.readable:
        return
    if context is None:
        log.warn_once(f"{login.mechanism} without TLS shows the credentials to every host in between: use SASL_SSL")
    elif context.verify_mode is not CERT_REQUIRED or not context.check_hostname:
        log.warn_once(f"{login.mechanism} over a TLS that does not verify the broker gives any host the credentials")


async def authenticate(connection: Connection, versions: ApiVersions, login: Login) -> tuple[int, float]:
    """Authenticate; return the session's lifetime in ms, and the time of the request, before the session began.

    The lifetime is 0 for an unlimited session (KIP-368).
    """
    handshake = await connection.exchange(SaslHandshakeRequest(mechanism=login.mechanism), _SASL_VERSION)
    if handshake.error_code == UnsupportedSaslMechanismError.code:
        offered = shown(", ".join(sorted(handshake.mechanisms)) or "none")
        text = f"the broker does not offer sasl_mechanism {login.mechanism}; it offers {offered}"
        raise UnsupportedSaslMechanismError(text, broker=connection.label)
    if handshake.error_code == IllegalSaslStateError.code:
        text = 'this listener does not use SASL: set security_protocol to "PLAINTEXT" or "SSL"'
        raise IllegalSaslStateError(text, broker=connection.label)
    raise_for_code(handshake.error_code, "the broker refused SaslHandshake", connection.label)

    exchange = login.exchange(connection.endpoint[0])
    version = versions.version_for(SaslAuthenticateRequest)
    # No variable holds the raw messages, because tracebacks of errors show variables.
    request = SaslAuthenticateRequest(auth_bytes=await exchange.start())
    for _ in range(MAX_SASL_ROUNDS):
        asked_at = time.monotonic()
        response = await connection.exchange(request, version)
        if response.error_code:
            reason = f": {shown(response.error_message)}" if response.error_message else ""
            text = f"the broker refused the login with {login.mechanism}{reason}"
            raise_for_code(response.error_code, text, connection.label)
        request = SaslAuthenticateRequest(auth_bytes=await exchange.respond(response.auth_bytes))
        if exchange.done:
            return response.session_lifetime_ms, asked_at
    raise SaslAuthenticationFailedError("the broker does not come to an end", broker=connection.label)
