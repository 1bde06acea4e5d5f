"""SASL mechanisms without I/O (KIP-43, KIP-84): challenges in, responses out.

A mechanism is one class in one module; one that needs name and password is one line in `MECHANISMS`. A credential that
must be fetched first, like OAUTHBEARER's token, is fetched by the login of `_io.connection.login`, which then creates
the mechanism.
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import ConfigError
from .mechanism import Credentials, SaslMechanism

__all__ = ["MECHANISMS", "Credentials", "SaslMechanism", "new_mechanism"]


def _plain(credentials: Credentials) -> SaslMechanism:
    from .plain import Plain

    return Plain(credentials)


def _scram(hash_name: str) -> Callable[[Credentials], SaslMechanism]:
    def make(credentials: Credentials) -> SaslMechanism:
        from .scram import Scram

        return Scram(credentials, hash_name)

    return make


MECHANISMS: dict[str, Callable[[Credentials], SaslMechanism]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram("sha256"),
    "SCRAM-SHA-512": _scram("sha512"),
}
"""Factories of mechanisms by Kafka's names."""


def new_mechanism(name: str, credentials: Credentials) -> SaslMechanism:
    """Begin one authentication; raise `ConfigError` for a mechanism that this client lacks."""
    make = MECHANISMS.get(name)
    if make is None:
        raise ConfigError(f"sasl_mechanism must be one of {', '.join(MECHANISMS)}, not {name}")
    return make(credentials)
