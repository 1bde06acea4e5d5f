"""Access control lists, as the admin client takes and returns them (KIP-11, KIP-290)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermissionType",
    "AclResourceType",
]


class _Known(IntEnum):
    """An enumeration whose 0 stands for what a newer broker may say."""

    @classmethod
    def _missing_(cls, value: object) -> _Known | None:
        return cls(0) if isinstance(value, int) else None


class AclOperation(_Known):
    """What is allowed or denied (Java: ``AclOperation``)."""

    UNKNOWN = 0
    ANY = 1
    """In a filter: every operation."""
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Known):
    """Whether the operation is allowed or denied; what is denied is denied, whatever else allows it."""

    UNKNOWN = 0
    ANY = 1
    """In a filter: both."""
    DENY = 2
    ALLOW = 3


class AclResourceType(_Known):
    """What kind of thing a rule protects (Java: ``ResourceType``)."""

    UNKNOWN = 0
    ANY = 1
    """In a filter: every kind."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    """Its name is always ``"kafka-cluster"``."""
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(_Known):
    """How a rule's resource name is meant (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    """In a filter: rules of every pattern type whose own name is this one."""
    MATCH = 2
    """In a filter: rules that protect the resource of this name, by whatever pattern."""
    LITERAL = 3
    """The one of this name, or all of them for ``"*"``."""
    PREFIXED = 4
    """All whose names begin so."""


@dataclass(frozen=True, slots=True)
class AclBinding:
    """A rule: who may, or may not, do what with which resource."""

    resource_type: AclResourceType
    resource_name: str
    principal: str
    """Like ``"User:alice"``, or ``"User:*"`` for everybody."""
    operation: AclOperation
    permission_type: AclPermissionType = AclPermissionType.ALLOW
    host: str = "*"
    """The address from which the user comes, or ``"*"`` for all of them."""
    pattern_type: AclPatternType = AclPatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Which rules are meant: those that agree with everything that is given. Without anything, all of them."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission_type: AclPermissionType = AclPermissionType.ANY
    host: str | None = None
    pattern_type: AclPatternType = AclPatternType.ANY
