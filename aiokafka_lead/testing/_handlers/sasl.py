"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152)."""

from __future__ import annotations

from ..._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ..._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...errors import IllegalSaslStateError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from .._server.context import RequestContext


def handshake(context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    mechanisms = list(context.engine.options.sasl.mechanisms)
    try:
        context.connection.authentication.begin(request.mechanism)
    except (IllegalSaslStateError, UnsupportedSaslMechanismError) as error:
        return SaslHandshakeResponse(error_code=error.code, mechanisms=mechanisms)
    return SaslHandshakeResponse(mechanisms=mechanisms)


def authenticate(context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    authentication = context.connection.authentication
    try:
        answer = authentication.step(request.auth_bytes)
    except SaslAuthenticationFailedError as error:
        # As a broker does: the answer is sent, then the connection ends.
        context.engine.defer(context.connection.close)
        return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
    return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=authentication.lifetime_ms)


HANDLERS = {SaslHandshakeRequest: handshake, SaslAuthenticateRequest: authenticate}
