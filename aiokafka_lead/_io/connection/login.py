"""SASL authentication (KIP-43, KIP-152). Each client has a `Login`, and each of its connections has an `Exchange`.

Mechanisms that only compute are in `_core.connection.sasl` and run in a `ComputedExchange`. A mechanism that waits for
a token, a ticket or a thread implements `Exchange` itself. `_LOGINS` lists all mechanisms.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from ssl import CERT_REQUIRED, SSLContext
from typing import Protocol

from ... import errors
from ..._core.connection.sasl import Credentials, SaslMechanism
from ..._core.connection.sasl.plain import Plain
from ..._options.addresses import without_root
from ..._options.logs import ClientLog
from ..._wire import ApiVersions
from ..._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ..._wire.messages.sasl_handshake import SaslHandshakeRequest
from ...config import ClientConfig
from ...errors.shown import shown
from ..loop import Spawner
from .connection import Connection


class Exchange(Protocol):
    """The authentication of one connection. Call `start` once, and then `respond` for each challenge until ``done``.

    Both may wait within the time limit of the connection's setup. Their errors end the connection.
    """

    @property
    def done(self) -> bool:
        """True if the client has nothing more to send, and any proof of the broker's identity has been verified."""
        ...

    async def start(self) -> bytes:
        """Return the first message."""
        ...

    async def respond(self, challenge: bytes) -> bytes:
        """Return the response to the broker's message. It must not be called once ``done`` is True."""
        ...

    def refused(self, reason: str) -> None:
        """Record that the broker has refused the login, which ends the exchange."""
        ...


class Login(Protocol):
    """A client's credentials, with an `Exchange` for each of its connections."""

    @property
    def mechanism(self) -> str:
        """Kafka's name of the mechanism."""
        ...

    @property
    def readable(self) -> bool:
        """True if an eavesdropper on the exchange could log in with the messages."""
        ...

    def exchange(self, host: str) -> Exchange:
        """Return an exchange with the broker at this host."""
        ...


class ComputedExchange:
    """The exchange of a mechanism that only computes and takes little time."""

    def __init__(self, mechanism: SaslMechanism) -> None:
        self._mechanism = mechanism

    @property
    def done(self) -> bool:
        return self._mechanism.done

    async def start(self) -> bytes:
        return self._mechanism.start()

    async def respond(self, challenge: bytes) -> bytes:
        return self._mechanism.respond(challenge)

    def refused(self, reason: str) -> None:
        pass


class _PlainLogin:
    """The mechanism PLAIN, which sends the name and the password."""

    mechanism = "PLAIN"
    readable = True

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def exchange(self, host: str) -> Exchange:
        return ComputedExchange(Plain(self._credentials))


def _credentials(config: ClientConfig) -> Credentials:
    name, password = config.sasl_plain_username or "", config.sasl_plain_password or ""
    return Credentials(name, password, config.sasl_delegation_token)


def _plain_login(config: ClientConfig, tasks: Spawner) -> Login:
    return _PlainLogin(_credentials(config))


def _scram_login(config: ClientConfig, tasks: Spawner) -> Login:
    from .scram import ScramLogin

    return ScramLogin(config.sasl_mechanism or "", _credentials(config))


def _oauth_login(config: ClientConfig, tasks: Spawner) -> Login:
    from .oauth import OAuthLogin

    return OAuthLogin(config, tasks)


def _gssapi_login(config: ClientConfig, tasks: Spawner) -> Login:
    from .gssapi_login import GssapiLogin

    return GssapiLogin(config)


_LOGINS: dict[str, Callable[[ClientConfig, Spawner], Login]] = {
    "PLAIN": _plain_login,
    "SCRAM-SHA-256": _scram_login,
    "SCRAM-SHA-512": _scram_login,
    "OAUTHBEARER": _oauth_login,
    "GSSAPI": _gssapi_login,
}
"""Functions that create logins, by Kafka's name of the mechanism."""


def new_login(config: ClientConfig, tasks: Spawner) -> Login:
    """Return the login for the ``sasl_*`` options. Its background work runs in ``tasks``."""
    return _LOGINS[config.sasl_mechanism or ""](config, tasks)


MAX_SASL_ROUNDS = 16
"""Maximum number of messages from the client. All mechanisms need fewer."""

_SASL_VERSION = 1
"""SaslHandshake 1 sends the mechanism's messages in SaslAuthenticate requests (KIP-152).

Version 0 sends them without.
"""


def warn_of_exposure(log: ClientLog, login: Login, context: SSLContext | None) -> None:
    """Log a warning if others could read the credentials, without TLS or with TLS that does not verify the broker."""
    if not login.readable:
        return
    if context is None:
        log.warn_once(f"{login.mechanism} sends readable credentials over a connection without TLS: use SASL_SSL")
    elif context.verify_mode is not CERT_REQUIRED or not context.check_hostname:
        log.warn_once(f"{login.mechanism} sends readable credentials, but TLS does not verify the broker")


async def authenticate(connection: Connection, versions: ApiVersions, login: Login) -> tuple[int, float]:
    """Authenticate. Return the session's lifetime in milliseconds, and the time of the last request.

    The session begins after that request, so its end is computed from that time. The lifetime is 0 if it is unlimited
    (KIP-368).
    """
    handshake = await connection.exchange(SaslHandshakeRequest(mechanism=login.mechanism), _SASL_VERSION)
    if handshake.error_code == errors.UnsupportedSaslMechanismError.code:
        offered = shown(", ".join(sorted(handshake.mechanisms)) or "none")
        text = f"the broker does not offer sasl_mechanism {login.mechanism}; it offers {offered}"
        raise errors.UnsupportedSaslMechanismError(text, broker=connection.label)
    if handshake.error_code == errors.IllegalSaslStateError.code:
        text = 'this listener does not use SASL: set security_protocol to "PLAINTEXT" or "SSL"'
        raise errors.IllegalSaslStateError(text, broker=connection.label)
    errors.raise_for_code(handshake.error_code, "the broker refused SaslHandshake", connection.label)

    exchange = login.exchange(without_root(connection.endpoint[0]))
    version = versions.version_for(SaslAuthenticateRequest)
    # Keep the raw messages out of variables, because tools that show tracebacks may show variables.
    request = SaslAuthenticateRequest(auth_bytes=await exchange.start())
    for _ in range(MAX_SASL_ROUNDS):
        asked_at = time.monotonic()
        response = await connection.exchange(request, version)
        if response.error_code:
            reason = shown(response.error_message or "")
            if response.error_code == errors.SaslAuthenticationFailedError.code:
                exchange.refused(reason)
            text = f"the broker refused the login with {login.mechanism}{f': {reason}' if reason else ''}"
            errors.raise_for_code(response.error_code, text, connection.label)
        request = SaslAuthenticateRequest(auth_bytes=await exchange.respond(response.auth_bytes))
        if exchange.done:
            return response.session_lifetime_ms, asked_at
    text = f"the SASL exchange was not complete after {MAX_SASL_ROUNDS} messages"
    raise errors.SaslAuthenticationFailedError(text, broker=connection.label)
