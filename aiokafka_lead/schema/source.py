"""The registry as seen by serializers and deserializers."""

from __future__ import annotations

from typing import Protocol

from .resolved import ResolvedSchema
from .types import RegisteredSchema, Schema

__all__ = ["SchemaSource"]


class SchemaSource(Protocol):
    """A part of `SchemaRegistry`."""

    @property
    def absent_s(self) -> float:
        """Time in seconds before an item missing in the registry is requested again."""
        ...

    async def schema(self, name: int | str) -> RegisteredSchema: ...

    async def resolved(self, schema: Schema) -> ResolvedSchema: ...

    async def latest_known(self, subject: str) -> tuple[RegisteredSchema, float]: ...

    def is_latest(self, subject: str, registered: RegisteredSchema) -> bool: ...

    async def lookup(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema: ...

    async def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> RegisteredSchema: ...
