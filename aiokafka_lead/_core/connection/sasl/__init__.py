"""SASL mechanisms without I/O (KIP-43, KIP-84): challenges in, responses out.

Each mechanism is a class in its own module. `_io.connection.login` chooses the mechanism and fetches the input, such as
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
    """True if name and password are the id and HMAC of a delegation token (KIP-48), which SCRAM must declare."""
    derived_keys: dict[object, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Keys that a mechanism has derived from the password. They are cached because deriving them takes time."""


class SaslMechanism(Protocol):
    """One authentication. Call `start` once, and then `respond` for each challenge until ``done``.

    Both raise `SaslAuthenticationFailedError` if the server cannot be trusted or the mechanism cannot continue.
    """

    @property
    def done(self) -> bool:
        """True if the client has nothing more to send, and any proof of the server's identity has been verified."""
        ...

    def start(self) -> bytes:
        """Return the client's first message to the server."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to the server's message. Must not be called once ``done`` is True."""
        ...


__all__ = ["Credentials", "SaslMechanism"]
