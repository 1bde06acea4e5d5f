"""A schema together with the schemas that it refers to, and those that these refer to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..errors import InvalidSchemaError
from .types import RegisteredSchema, Schema, SchemaReference

__all__ = ["ResolvedSchema", "resolve"]

MAX_REFERENCES = 1000


@dataclass(frozen=True, slots=True)
class ResolvedSchema:
    """A schema, and by name what it refers to: each after what it refers to itself."""

    schema: Schema
    references: tuple[tuple[str, Schema], ...] = ()


async def resolve(schema: Schema, version: Callable[[str, int], Awaitable[RegisteredSchema]]) -> ResolvedSchema:
    """Ask for what the schema refers to; raises `InvalidSchemaError` for a circle, and what asking raises."""
    found: dict[str, Schema] = {}

    async def add(references: tuple[SchemaReference, ...], above: tuple[SchemaReference, ...]) -> None:
        for each in references:
            if each in above:
                raise InvalidSchemaError(f"the schema {each.subject}, version {each.version}, refers to itself")
            if each.name in found:
                continue
            if len(found) + len(above) > MAX_REFERENCES:
                raise InvalidSchemaError(f"a schema refers to more than {MAX_REFERENCES} others")
            registered = await version(each.subject, each.version)
            await add(registered.schema.references, (*above, each))
            found[each.name] = registered.schema

    await add(schema.references, ())
    return ResolvedSchema(schema, tuple(found.items()))
