"""Authentication of a client: one `Login` for all its connections, one `Exchange` for each of them.

A mechanism that only computes is part of `_core.connection.sasl`, wrapped by `ComputedExchange`. One that waits, for a
token, a ticket or a thread, has an exchange of its own. Either is one line in `_LOGINS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..._core.connection.sasl import Credentials, SaslMechanism
from ..._core.connection.sasl.plain import Plain
from ...config import ClientConfig
from ..loop import Spawner


class Exchange(Protocol):
    """One authentication on one connection: `start` once, then `respond` to each challenge until ``done``.

    Each of them may wait; the connection's set-up timeout bounds and cancels it. Their errors end the connection.
    """

    @property
    def done(self) -> bool:
        """True if the client has no more to send and the broker has proved all that the mechanism lets it prove."""
        ...

    async def start(self) -> bytes:
        """Return the first message."""
        ...

    async def respond(self, challenge: bytes) -> bytes:
        """Return the answer to the broker's message; undefined once ``done``."""
        ...


class Login(Protocol):
    """The credentials of all connections of a client."""

    @property
    def mechanism(self) -> str:
        """Kafka's name of the mechanism."""
        ...

    @property
    def readable(self) -> bool:
        """True if the exchange holds all that is needed to log in."""
        ...

    def exchange(self, host: str) -> Exchange:
        """Begin one authentication with the broker at this host."""
        ...


class ComputedExchange:
    """One authentication with a mechanism that only needs a little CPU time."""

    def __init__(self, mechanism: SaslMechanism) -> None:
        self._mechanism = mechanism

    @property
    def done(self) -> bool:
        return self._mechanism.done

    async def start(self) -> bytes:
        return self._mechanism.start()

    async def respond(self, challenge: bytes) -> bytes:
        return self._mechanism.respond(challenge)


class _PlainLogin:
    """PLAIN: a name and a password, without computation."""

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
"""Factories of logins by Kafka's name of the mechanism."""


def new_login(config: ClientConfig, tasks: Spawner) -> Login:
    """Return the login for the ``sasl_*`` options; its background work runs in ``tasks``."""
    return _LOGINS[config.sasl_mechanism or ""](config, tasks)
