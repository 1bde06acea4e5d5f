"""SASL mechanisms without I/O (KIP-43, KIP-84): challenges in, responses out.

A mechanism is one class in one module and one line in `MECHANISMS`. What has to be fetched first (OAUTHBEARER's token,
GSSAPI's ticket) is fetched by the connection's set-up, which gives it to the mechanism within its `Credentials`.
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import ConfigError
from .mechanism import Credentials, SaslMechanism
from .plain import Plain
from .scram import Scram

__all__ = ["MECHANISMS", "Credentials", "SaslMechanism", "new_mechanism"]

MECHANISMS: dict[str, Callable[[Credentials], SaslMechanism]] = {
    "PLAIN": Plain,
    "SCRAM-SHA-256": lambda credentials: Scram(credentials, "sha256"),
    "SCRAM-SHA-512": lambda credentials: Scram(credentials, "sha512"),
}
"""Kafka's name of a mechanism, and what makes one authentication with it."""


def new_mechanism(name: str, credentials: Credentials) -> SaslMechanism:
    """One authentication, about to begin; `ConfigError` for a mechanism that this client lacks."""
    make = MECHANISMS.get(name)
    if make is None:
        raise ConfigError(f"sasl_mechanism must be one of {', '.join(MECHANISMS)}, not {name}")
    return make(credentials)
