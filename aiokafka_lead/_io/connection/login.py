"""How a client proves who it is: one `Login` for all its connections, one `Exchange` for each of them.

A mechanism that only computes is one of `_core.connection.sasl`, and `ComputedExchange` makes an exchange of it. One
that waits, for a token, a ticket or a thread, has an exchange of its own. Either is one line in `_LOGINS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..._core.connection.sasl import Credentials, SaslMechanism
from ..._core.connection.sasl.plain import Plain
from ...config import ClientConfig
from ..loop import Spawner

__all__ = ["ComputedExchange", "Exchange", "Login", "new_login"]


class Exchange(Protocol):
    """One authentication on one connection: `start` once, then `respond` to each challenge until ``done``.

    Each of them may wait; the connection's set-up timeout bounds and cancels it. What they raise ends the connection.
    """

    @property
    def done(self) -> bool:
        """Whether the client has nothing more to send and the broker has proved what the mechanism lets it prove."""
        ...

    async def start(self) -> bytes:
        """The first message."""
        ...

    async def respond(self, challenge: bytes) -> bytes:
        """The answer to the broker's message; meaningless once ``done``."""
        ...


class Login(Protocol):
    """What all connections of a client authenticate with."""

    @property
    def mechanism(self) -> str:
        """Kafka's name of the mechanism."""
        ...

    @property
    def readable(self) -> bool:
        """True if the exchange holds all that is needed to log in."""
        ...

    def exchange(self, host: str) -> Exchange:
        """One authentication, about to begin, with the broker at this host."""
        ...


class ComputedExchange:
    """One authentication with a mechanism that needs nothing but the processor, and little of it."""

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
    """PLAIN: a name and a password, and nothing to compute."""

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
"""By Kafka's name of the mechanism, what makes the login of a client."""


def new_login(config: ClientConfig, tasks: Spawner) -> Login:
    """The login that the ``sasl_*`` options describe; what it does in the background is a task of ``tasks``."""
    return _LOGINS[config.sasl_mechanism or ""](config, tasks)
