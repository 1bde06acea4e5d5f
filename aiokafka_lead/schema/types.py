"""Frozen values passed to and returned by the registry."""

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
    """A reference to a registered schema: a type name in Avro, a ``$ref`` in JSON Schema, an import in Protobuf."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text, its kind, and its references to registered schemas."""

    text: str
    type: SchemaType = "AVRO"
    references: tuple[SchemaReference, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ConfigTypeError(f"a schema's text must be a str, not {type(self.text).__name__}")
        if self.type not in SCHEMA_TYPES:
            raise ConfigError(f"a schema's type must be one of {', '.join(SCHEMA_TYPES)}, not {self.type!r}")
        object.__setattr__(self, "references", tuple(self.references))


@dataclass(frozen=True, slots=True)
class SchemaRule:
    """A rule of a schema for written or read values, for example field encryption (``"ENCRYPT"``) or ``"CEL"``.

    This client cannot apply rules. It refuses schemas that have rules, unless ``ignore_rules`` is set.
    """

    name: str
    type: str
    mode: str
    """"WRITE", "READ" or "WRITEREAD"."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its identification in the registry. Fields missing from the registry's answer are None."""

    schema: Schema
    id: int | None = None
    guid: str | None = None
    """The schema's id in all registries (Confluent's registry from 8.0 on)."""
    subject: str | None = None
    version: int | None = None
    rules: tuple[SchemaRule, ...] = ()
    """The enabled rules for values and their bytes, without rules for migrations between versions."""
