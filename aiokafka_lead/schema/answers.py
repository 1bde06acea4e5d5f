"""Checks the answers of registries, and builds the bodies of requests."""

from __future__ import annotations

from typing import Any, cast

from ..errors import InvalidSchemaError, SchemaRegistryError
from .types import SCHEMA_TYPES, RegisteredSchema, Schema, SchemaReference, SchemaRule, SchemaType

__all__ = ["integers_of", "registered_of", "schema_body", "texts_of"]

_PHASES = ("domainRules", "encodingRules")


def schema_body(schema: Schema) -> dict[str, Any]:
    """Return a schema in the form for registries, which omits the type for Avro."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != "AVRO":
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in schema.references
        ]
    return body


def registered_of(
    content: Any,
    sent: Schema | None = None,
    *,
    schema_id: int | None = None,
    guid: str | None = None,
    subject: str | None = None,
) -> RegisteredSchema:
    """Return the schema in an answer, completed by the other arguments.

    Raises `InvalidSchemaError` for one of an unknown type, and `SchemaRegistryError` if it is no schema.
    """
    if not isinstance(content, dict):
        raise SchemaRegistryError(f"the registry's answer is no schema: {content!r:.200}")
    try:
        schema = sent if sent is not None else _schema(content)
        return RegisteredSchema(
            schema,
            schema_id if schema_id is not None else _optional(content, "id", int),
            guid if guid is not None else _optional(content, "guid", str),
            subject if subject is not None else _optional(content, "subject", str),
            _optional(content, "version", int),
            _rules(_optional(content, "ruleSet", dict) or {}),
        )
    except InvalidSchemaError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SchemaRegistryError(f"the registry's answer is no schema ({error}): {content!r:.200}") from None


def _schema(content: dict[str, Any]) -> Schema:
    kind = content.get("schemaType") or "AVRO"
    if kind not in SCHEMA_TYPES:
        raise InvalidSchemaError(f"a schema of type {kind!r:.50}, which this client cannot use")
    references = tuple(
        SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in content.get("references") or ()
    )
    return Schema(content["schema"], cast(SchemaType, kind), references)


def _rules(given: dict[str, Any]) -> tuple[SchemaRule, ...]:
    every = [rule for phase in _PHASES for rule in _optional(given, phase, list) or ()]
    enabled = [rule for rule in every if not rule.get("disabled")]
    return tuple(SchemaRule(str(each["name"]), str(each.get("type")), str(each["mode"]).upper()) for each in enabled)


def _optional(content: dict[str, Any], name: str, kind: type) -> Any:
    value = content.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{name} is {value!r:.50}")


def texts_of(content: Any) -> list[str]:
    """Return an answer that is a list of texts."""
    return _list_of(content, str)


def integers_of(content: Any) -> list[int]:
    """Return an answer that is a list of numbers."""
    return _list_of(content, int)


def _list_of(content: Any, kind: type) -> list[Any]:
    if not isinstance(content, list) or not all(isinstance(each, kind) for each in content):
        raise SchemaRegistryError(f"the registry's answer is no list of {kind.__name__}: {content!r:.200}")
    return content
