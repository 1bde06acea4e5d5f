"""Client quotas (KIP-546)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._core.admin import outcome
from .._io.admin_requests import Route
from .._options.arguments import list_of, map_of, string
from .._options.checks import boolean, instance, optional, short_text
from .._wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from .._wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ..errors import ConfigError, ConfigTypeError, KafkaError
from .base import AdminArea

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Entity that a quota limits: pairs of a type (``"user"``, ``"client-id"``, ``"ip"``) and a name, sorted by type. A
name of None means the default entity."""


@dataclass(frozen=True, slots=True)
class ClientQuotaFilter:
    """Filter that selects the quotas of the entities with all given attributes.

        ClientQuotaFilter({"user": "alice"})

    The types of an entity are "user", "client-id" and "ip". A filter without attributes matches all quotas.
    """

    entity: Mapping[str, str | None] = field(default_factory=dict)
    """Names that the entity must have, by type. A name of None means the default entity."""
    any_name_of: frozenset[str] = frozenset()
    """Types that the entity must have, with any name."""
    strict: bool = False
    """True to exclude entities that also have other types."""


_ALL_QUOTAS = ClientQuotaFilter()
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_ENTITY_TYPES = ("user", "client-id", "ip")


def _quota_filter(name: str, value: Any) -> ClientQuotaFilter:
    """Check the argument ``name``, which must be a filter of quotas, and return it."""
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
        raise ConfigTypeError(f"{name} must be a tuple of (type, name) pairs, not {value!r}")
    for part in value:
        if not isinstance(part, tuple) or len(part) != 2:
            raise ConfigTypeError(f"{name} must contain (type, name) pairs, not {part!r}")
        parts.append((_entity_type(name, part[0]), optional(string)(name, part[1])))
    if len({kind for kind, _ in parts}) < len(parts):
        raise ConfigError(f"{name} must not contain a type twice: {value!r}")
    return tuple(sorted(parts, key=lambda part: part[0]))


def _quota(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigTypeError(f"{name} must be a number or None, not {type(value).__name__}")
    if not 0 <= value <= sys.float_info.max:
        raise ConfigError(f"{name} must be a finite number, at least 0, not {value}")
    return float(value)


_QUOTAS = map_of("entity to quotas", _entity, map_of("name to number", short_text, optional(_quota)))


class QuotaCalls(AdminArea):
    """Admin calls for client quotas."""

    async def describe_client_quotas(
        self, quota_filter: ClientQuotaFilter = _ALL_QUOTAS, *, timeout_ms: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas that a filter selects, by entity (default: all quotas; KIP-546).

            {(("client-id", "app"), ("user", "alice")): {"producer_byte_rate": 1000000.0}}

        An entity is a tuple of pairs of type and name, sorted by type. A name of None means the default entity. The
        result has the same form as the argument of `alter_client_quotas`, and is empty if no quota matches.
        """
        wanted = _quota_filter("quota_filter", quota_filter)
        deadline = self._calls.deadline(timeout_ms)
        components = [
            ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
            for kind, name in wanted.entity.items()
        ]
        components += [
            ComponentData(entity_type=kind, match_type=_SPECIFIED, match=None) for kind in sorted(wanted.any_name_of)
        ]
        request = DescribeClientQuotasRequest(components=components, strict=wanted.strict)
        response = await self._calls.call(Route.ANY, request, deadline)
        return {
            tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Set the quotas of entities (KIP-546).

            await admin.alter_client_quotas({(("client-id", "app"), ("user", "alice")): {"producer_byte_rate": 1e6}})

        Each entity is a tuple of pairs of type and name, in any order. Its value maps the names of quotas to numbers;
        None removes a quota. Other quotas stay unchanged. With ``validate_only``, the controller checks the changes
        without making them.

        Raises `InvalidRequestError` if an entity or the name of a quota is invalid. The other entities are still
        changed.
        """
        wanted = _QUOTAS("quotas", quotas)
        boolean("validate_only", validate_only)
        deadline = self._calls.deadline(timeout_ms)

        def build(pending: Mapping[QuotaEntity, Mapping[str, float | None]]) -> AlterClientQuotasRequest:
            entries = [
                RequestEntryData(
                    entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
                )
                for entity, quotas in pending.items()
            ]
            return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)

        def read(response: AlterClientQuotasResponse) -> Iterator[tuple[QuotaEntity, KafkaError | None]]:
            for entry in response.entries:
                entity = tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))
                yield entity, outcome(None, entry.error_code, _called(entity), entry.error_message)

        await self._calls.batch(wanted, Route.CONTROLLER, build, read, deadline)


def _called(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else repr(name)}" for kind, name in entity)
