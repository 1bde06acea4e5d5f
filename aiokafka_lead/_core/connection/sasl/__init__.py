"""SASL mechanisms without I/O (KIP-43, KIP-84): challenges in, responses out.

Each mechanism is a class in a separate module. `_io.connection.login` chooses it, after fetching its input, like
OAUTHBEARER's token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user's name and password, shared by all connections of a client. ``repr`` never shows the password."""

    username: str
    password: str = field(repr=False)
    is_delegation_token: bool = False
    """True if name and password are a delegation token's id and HMAC (KIP-48), which SCRAM declares."""
    derived_keys: dict[object, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Cache of keys that a mechanism derives from the password, because deriving takes time."""


class SaslMechanism(Protocol):
    """One authentication: `start` once, then `respond` to each challenge until ``done``.

    Both raise `SaslAuthenticationFailedError` if the server cannot be trusted or the mechanism cannot continue.
    """

    @property
    def done(self) -> bool:
        """True if the client has no more to send, and the server has proved its identity as far as possible."""
        ...

    def start(self) -> bytes:
        """Return the first message."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """Return the answer to the server's message. Do not call it once ``done``."""
        ...


__all__ = ["Credentials", "SaslMechanism"]
