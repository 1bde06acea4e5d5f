"""What the mechanisms have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Credentials", "SaslMechanism"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who authenticates; one object serves every connection of a client. The password never shows in ``repr``."""

    username: str
    password: str = field(repr=False)
    is_delegation_token: bool = False
    """Whether name and password are a delegation token's id and HMAC (KIP-48), which SCRAM says."""
    derived_keys: dict[object, bytes] = field(default_factory=dict, repr=False, compare=False)
    """Room for what a mechanism derives from the password at some cost, so that a reconnect need not again."""


class SaslMechanism(Protocol):
    """One authentication: `start` once, then `respond` to each challenge until ``done``.

    `SaslAuthenticationFailedError` from either says that the server cannot be trusted or the mechanism cannot go on.
    """

    @property
    def done(self) -> bool:
        """Whether the client has nothing more to send and the server has proved what the mechanism lets it prove."""
        ...

    def start(self) -> bytes:
        """The first message."""
        ...

    def respond(self, challenge: bytes) -> bytes:
        """The answer to the server's message; meaningless once ``done``."""
        ...
