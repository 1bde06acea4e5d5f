"""Immutable values that `SchemaRegistry` takes and returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import ConfigError, ConfigTypeError

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
    """Reference of a schema to another registered schema."""

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
    """Rule of a schema, from Confluent's data contracts, which this client cannot apply.

    `SchemaRegistry` raises `SchemaRulesError` for schemas with rules, unless ``ignore_rules`` is set.
    """

    name: str
    type: str
    """For example ``"ENCRYPT"`` (field encryption) or ``"CEL"`` (a condition)."""
    mode: str
    """``"WRITE"``, ``"READ"`` or ``"WRITEREAD"``."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """Schema as a registry returns it. Fields that the registry's answer lacks are None."""

    schema: Schema
    id: int | None = None
    guid: str | None = None
    """Identification that is the same in all registries (Confluent's registry from 8.0 on)."""
    subject: str | None = None
    version: int | None = None
    rules: tuple[SchemaRule, ...] = ()
    """Enabled rules for values and their bytes. Rules for migrations between versions are not included."""
