"""Schemas together with their direct and indirect references."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidSchemaError
from .types import RegisteredSchema, Schema, SchemaReference

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
    """Return a copy of a schema, with ``change`` applied to its JSON and to the JSON of its references.

    Raises `InvalidSchemaError` if a schema is not JSON.
    """

    def copy(schema: Schema) -> Schema:
        try:
            return Schema(json.dumps(change(json.loads(schema.text))), schema.type, schema.references)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InvalidSchemaError(f"invalid {schema.type} schema: {error}") from None

    references = tuple((name, copy(each)) for name, each in resolved.references)
    return ResolvedSchema(copy(resolved.schema), references)
