"""Quotas, SCRAM credentials and delegation tokens, as the admin client takes and returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "ClientQuotaFilter",
    "DelegationToken",
    "QuotaEntity",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
]

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whom a quota bounds: pairs of a type (``"user"``, ``"client-id"``, ``"ip"``) and a name, None for the default one,
in the order of their types."""


@dataclass(frozen=True, slots=True)
class ClientQuotaFilter:
    """Which quotas are meant: those of entities with all of these parts. Without any, all quotas."""

    entity: Mapping[str, str | None] = field(default_factory=dict)
    """By type the name, None for the default entity."""
    any_name_of: frozenset[str] = frozenset()
    """Types of which the entity must have a part, whatever its name is."""
    strict: bool = False
    """Whether entities with further parts are left out."""


class ScramMechanism(IntEnum):
    """A mechanism that a credential is for."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def _missing_(cls, value: object) -> ScramMechanism:
        return cls.UNKNOWN


class ScramCredential(NamedTuple):
    """A credential that a user has; brokers tell no more of it."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """Give a user a password; the broker is sent what SCRAM keeps of it, never the password itself (KIP-554)."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = 8192
    """From 4096 to 16384: brokers take no others."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """Take a credential from a user."""

    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token with which a client can log in on behalf of its owner (KIP-48): ``sasl_delegation_token``."""

    token_id: str
    """The user name for SCRAM."""
    hmac: bytes = field(repr=False)
    """In base64 the password for SCRAM; also what renews and expires the token."""
    owner: str
    """Like ``"User:alice"``."""
    requester: str | None
    """Who had it made; None below Kafka 3.3."""
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    """Unless it is renewed."""
    max_ms: int
    """When it ends at the latest. All times are in milliseconds since 1970."""
