"""What calls about security are given, checked before anything is sent."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from .._options.arguments import INT64_MAX, byte_string, list_of, map_of, string
from .._options.checks import boolean, instance, integer, optional, short_text, text
from ..errors import ConfigError, ConfigTypeError
from .acl_types import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPatternType,
    AclPermissionType,
    AclResourceType,
)
from .security_types import ClientQuotaFilter, QuotaEntity, ScramDeletion, ScramMechanism, ScramUpsertion

__all__ = [
    "ACL_FILTERS",
    "ALTERATIONS",
    "BINDINGS",
    "PRINCIPALS",
    "QUOTAS",
    "USERS",
    "acl_filter",
    "boolean",
    "hmac",
    "lifetime",
    "principal",
    "quota_filter",
]

_KINDS = {
    "resource_type": AclResourceType,
    "operation": AclOperation,
    "permission_type": AclPermissionType,
    "pattern_type": AclPatternType,
}
_ONLY_IN_FILTERS = ("UNKNOWN", "ANY", "MATCH")
_MIN_ITERATIONS, _MAX_ITERATIONS = 4096, 16_384
_ENTITY_TYPES = ("user", "client-id", "ip")


def _kinds(name: str, given: AclBinding | AclBindingFilter) -> None:
    for part, kind in _KINDS.items():
        instance(kind, f"an {kind.__name__}")(f"{name}.{part}", getattr(given, part))


def acl_filter(name: str, value: Any) -> AclBindingFilter:
    """A filter of rules."""
    wanted: AclBindingFilter = instance(AclBindingFilter, "an AclBindingFilter")(name, value)
    _kinds(name, wanted)
    for part in ("resource_name", "principal", "host"):
        optional(short_text)(f"{name}.{part}", getattr(wanted, part))
    return wanted


def _binding(name: str, value: Any) -> AclBinding:
    rule: AclBinding = instance(AclBinding, "an AclBinding")(name, value)
    _kinds(name, rule)
    for part in _KINDS:
        if getattr(rule, part).name in _ONLY_IN_FILTERS:
            raise ConfigError(f"{name}.{part} must not be {getattr(rule, part).name}: that is for filters")
    for part in ("resource_name", "host"):
        short_text(f"{name}.{part}", getattr(rule, part))
    principal(f"{name}.principal", rule.principal)
    return rule


def principal(name: str, value: Any) -> tuple[str, str]:
    """A principal's type and name, of ``"User:alice"``."""
    kind, separator, who = short_text(name, value).partition(":")
    if not separator or not kind or not who:
        raise ConfigError(f"{name} must be a principal like 'User:alice', not {value!r}")
    return kind, who


def quota_filter(name: str, value: Any) -> ClientQuotaFilter:
    """A filter of quotas."""
    wanted: ClientQuotaFilter = instance(ClientQuotaFilter, "a ClientQuotaFilter")(name, value)
    entity = map_of("type to name", _entity_type, optional(string))(f"{name}.entity", wanted.entity)
    others = frozenset(list_of("types", _entity_type)(f"{name}.any_name_of", wanted.any_name_of))
    if others & entity.keys():
        raise ConfigError(f"{name}.any_name_of must not repeat a type of {name}.entity")
    return ClientQuotaFilter(entity, others, boolean(f"{name}.strict", wanted.strict))


def _entity_type(name: str, value: Any) -> str:
    if value not in _ENTITY_TYPES:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, _ENTITY_TYPES))}, not {value!r}")
    return str(value)


def _entity(name: str, value: Any) -> QuotaEntity:
    parts: list[tuple[str, str | None]] = []
    if not isinstance(value, tuple) or not value:
        raise ConfigTypeError(f"{name} must be a tuple of pairs of a type and a name, not {value!r}")
    for part in value:
        if not isinstance(part, tuple) or len(part) != 2:
            raise ConfigTypeError(f"{name} must hold pairs of a type and a name, not {part!r}")
        parts.append((_entity_type(name, part[0]), optional(string)(name, part[1])))
    if len({kind for kind, _ in parts}) < len(parts):
        raise ConfigError(f"{name} must not have a type twice: {value!r}")
    return tuple(sorted(parts, key=lambda part: part[0]))


def _quota(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigTypeError(f"{name} must be a number or None, not {type(value).__name__}")
    if not 0 <= value <= sys.float_info.max:
        raise ConfigError(f"{name} must be a finite number, at least 0, not {value}")
    return float(value)


def _alteration(name: str, value: Any) -> ScramUpsertion | ScramDeletion:
    if not isinstance(value, (ScramUpsertion, ScramDeletion)):
        raise ConfigTypeError(f"{name} must be a ScramUpsertion or ScramDeletion, not {type(value).__name__}")
    short_text(f"{name}.user", value.user)
    mechanism = instance(ScramMechanism, "a ScramMechanism")(f"{name}.mechanism", value.mechanism)
    if mechanism is ScramMechanism.UNKNOWN:
        raise ConfigError(f"{name}.mechanism must not be UNKNOWN")
    if isinstance(value, ScramUpsertion):
        text(f"{name}.password", value.password)
        integer(_MIN_ITERATIONS, _MAX_ITERATIONS)(f"{name}.iterations", value.iterations)
        return dataclasses.replace(value)
    return value


def hmac(name: str, value: Any) -> bytes:
    """What a token is known by."""
    found = byte_string(name, value)
    if not found:
        raise ConfigError(f"{name} must be the HMAC of a token, and not empty")
    return found


def lifetime(name: str, value: Any) -> int:
    """A period in milliseconds; -1, which is the broker's own, for None."""
    return -1 if value is None else integer(0, INT64_MAX)(name, value)


ACL_FILTERS = list_of("AclBindingFilter", acl_filter)
BINDINGS = list_of("AclBinding", _binding)
PRINCIPALS = list_of("principals", principal)
QUOTAS = map_of("entity to quotas", _entity, map_of("name to number", short_text, optional(_quota)))
USERS = optional(list_of("users", short_text))
ALTERATIONS = list_of("alterations", _alteration)
