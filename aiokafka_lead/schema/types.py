"""Schemas as `SchemaRegistry` takes and returns them, their references, and its interface for readers and writers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from ..errors import ConfigError, ConfigTypeError, InvalidSchemaError, SchemaRulesError
from ..errors.shown import shown

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]

SCHEMA_TYPES: tuple[str, ...] = get_args(SchemaType)

COMPATIBILITY_LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A reference from a schema to another registered schema."""

    name: str
    """The name of a type in Avro, a ``$ref`` in JSON Schema, or an import in Protobuf."""
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """Schema with its text, its type, and its references to registered schemas.

    Raises `ConfigError` or `ConfigTypeError` for an unknown type of schema or a field of the wrong type.
    """

    text: str
    type: SchemaType = "AVRO"
    references: tuple[SchemaReference, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ConfigTypeError(f"the text of a schema must be a str, not {type(self.text).__name__}")
        if self.type not in SCHEMA_TYPES:
            raise ConfigError(f"the type of a schema must be one of {', '.join(SCHEMA_TYPES)}, not {self.type!r}")
        object.__setattr__(self, "references", tuple(self.references))


@dataclass(frozen=True, slots=True)
class SchemaRule:
    """A rule of a schema (Confluent's data contracts). This client cannot apply rules.

    `SchemaRegistry` raises `SchemaRulesError` for schemas with rules, unless ``ignore_rules`` is set.
    """

    name: str
    type: str
    """For example ``"ENCRYPT"`` (field encryption) or ``"CEL"`` (a condition)."""
    mode: str
    """``"WRITE"``, ``"READ"`` or ``"WRITEREAD"``."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """Schema as a registry returns it. Fields that are missing from its response are None."""

    schema: Schema
    id: int | None = None
    guid: str | None = None
    """Id that is the same in all registries. Confluent's registry has returned it since version 8.0."""
    subject: str | None = None
    version: int | None = None
    rules: tuple[SchemaRule, ...] = ()
    """Enabled rules for values and their bytes. Rules for migrations between versions are not included."""


MAX_REFERENCES = 1000


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """Schema with its direct and indirect references by name. A reference follows the schemas to which it refers."""

    schema: Schema
    references: tuple[tuple[str, Schema], ...] = ()


async def resolve(schema: Schema, version: Callable[[str, int], Awaitable[RegisteredSchema]]) -> ResolvedSchema:
    """Return a schema with its references, which are requested with ``version``.

    Raises `InvalidSchemaError` for a cycle or too many references, and the errors of ``version``.
    """
    found: dict[str, Schema] = {}

    async def add(references: tuple[SchemaReference, ...], above: tuple[SchemaReference, ...]) -> None:
        for each in references:
            if each in above:
                raise InvalidSchemaError(f"schema {each.subject}, version {each.version}, refers to itself")
            if each.name in found:
                continue
            if len(found) + len(above) > MAX_REFERENCES:
                raise InvalidSchemaError(f"the schema refers to more than {MAX_REFERENCES} other schemas")
            registered = await version(each.subject, each.version)
            await add(registered.schema.references, (*above, each))
            found[each.name] = registered.schema

    await add(schema.references, ())
    return ResolvedSchema(schema, tuple(found.items()))


def rewritten(resolved: ResolvedSchema, change: Callable[[Any], Any]) -> ResolvedSchema:
    """Apply ``change`` to the parsed JSON of a schema and of its references, and return the changed copies.

    Raises `InvalidSchemaError` if a schema is not JSON.
    """

    def copy(schema: Schema) -> Schema:
        try:
            return Schema(json.dumps(change(json.loads(schema.text))), schema.type, schema.references)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InvalidSchemaError(f"invalid {schema.type} schema: {error}") from None

    references = tuple((name, copy(each)) for name, each in resolved.references)
    return ResolvedSchema(copy(resolved.schema), references)


class SchemaSource(Protocol):
    """The part of `SchemaRegistry` that serializers and deserializers use. That class documents the methods."""

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
