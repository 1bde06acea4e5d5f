"""Typed columns of a sink: rows' values are encoded by a registry's schema."""

from __future__ import annotations

from typing import Any

from ...errors import KafkaError
from ...schema import SchemaSerializer
from ...types import SerializationContext
from ..schemas import LATEST, Typed, registry_of
from .bulks import Bulk, RowError

__all__ = ["Encoder"]


class Encoder:
    """Encodes typed keys and values. Used on the event loop."""

    def __init__(self, typed: Typed) -> None:
        registry = registry_of(typed)
        self._serializers: dict[str, SchemaSerializer[Any]] = {}
        for column, given in typed.schemas.items():

            def subject(topic: str, is_key: bool, record: str | None, column: str = column) -> str:
                return typed.subject(column, topic)

            schema = None if given == LATEST else given
            self._serializers[column] = registry.avro_serializer(schema, subject=subject)

    async def encoded(self, bulk: Bulk) -> Bulk:
        """Return the same records with bytes. Raises `RowError`."""
        made: dict[str, Any] = {}
        for column, serializer in self._serializers.items():
            contents = bulk.keys if column == "key" else bulk.values
            if contents is None:
                continue
            is_key = column == "key"
            context = SerializationContext(bulk.topic, (), is_key)
            encoded: list[Any] = []
            try:
                await serializer.ready(bulk.topic, is_key=is_key)
                for content in contents:
                    encoded.append(None if content is None else serializer(content, context))
            except KafkaError as error:
                why = f"its {column} is not written by its schema: {error}"
                raise RowError(bulk.indices[len(encoded)], why) from None
            made["keys" if is_key else "values"] = encoded
        return bulk._replace(**made)
