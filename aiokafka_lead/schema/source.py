"""Interface of `SchemaRegistry` for serializers and deserializers."""

from __future__ import annotations

from typing import Literal, Protocol

from ..errors import SchemaRulesError
from ..errors.shown import shown
from .resolved import ResolvedSchema
from .types import RegisteredSchema, Schema


class SchemaSource(Protocol):
    """Part of `SchemaRegistry` that serializers and deserializers use. See there for the methods."""

    @property
    def absent_s(self) -> float:
        """Seconds until a missing schema is requested again."""
        ...

    @property
    def registrations(self) -> int:
        """Number of registrations so far. After a registration, missing schemas are requested again."""
        ...

    @property
    def ignore_rules(self) -> bool:
        """True if values are written and read without applying the rules of their schemas."""
        ...

    async def schema(self, name: int | str) -> RegisteredSchema: ...

    async def resolved(self, schema: Schema) -> ResolvedSchema: ...

    async def latest_known(self, subject: str) -> tuple[RegisteredSchema, float]: ...

    def is_latest(self, subject: str, registered: RegisteredSchema) -> bool: ...

    async def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema: ...

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema: ...


async def usable(
    registry: SchemaSource, registered: RegisteredSchema, mode: Literal["READ", "WRITE"]
) -> ResolvedSchema:
    """Return a schema with its references, which may be used to read or write records.

    ``mode`` is "READ" or "WRITE". Raises `SchemaRulesError` if the schema has rules for this mode, unless
    ``ignore_rules`` is set, and the errors of the registry.
    """
    rules = [rule for rule in registered.rules if mode in rule.mode]
    if rules and not registry.ignore_rules:
        names = ", ".join(f"{rule.name} ({rule.type}, {rule.mode})" for rule in rules)
        which = registered.subject or (registered.guid if registered.id is None else registered.id)
        raise SchemaRulesError(
            f"schema {which} has rules, which this client cannot apply: {shown(names)}. They may encrypt or check "
            "values; ignore_rules=True writes and reads values without the rules"
        )
    return await registry.resolved(registered.schema)
