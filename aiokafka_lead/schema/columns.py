"""`AvroColumns`: batches for Apache Arrow with typed keys or values (the extras ``avro`` and ``arrow``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .._options.checks import boolean
from ..errors import ConfigError, InvalidSchemaError, SchemaContentError
from ..types import Headers
from .avro import AvroReader, avro_schema
from .framing import id_of, key_of
from .source import SchemaSource

try:
    from .arrow import ArrowReader
except ImportError:
    raise ConfigError("columns for Arrow need pyarrow: pip install aiokafka-lead[arrow]") from None

__all__ = ["AvroColumns"]


class Batch(Protocol):
    """What is needed of a `RecordBatch`."""

    @property
    def headers(self) -> list[Headers]: ...

    def raw_column(self, *, is_key: bool) -> list[bytes | None]: ...

    def to_arrow(self) -> Any: ...


class AvroColumns:
    """All batches have the columns of `RecordBatch.to_arrow`, with the same types for all: see there.

    A record becomes a struct, which ``pyarrow.Table.flatten`` turns into columns; times and decimals become Arrow's.
    """

    def __init__(self, registry: SchemaSource, schema: Any, *, values: bool, keys: bool) -> None:
        self._registry = registry
        self._values = _Column(registry, schema, is_key=False) if boolean("values", values) else None
        self._keys = _Column(registry, schema if not values else None, is_key=True) if boolean("keys", keys) else None

    async def to_arrow(self, batch: Batch) -> Any:
        """The batch, a ``pyarrow.RecordBatch``.

        Raises `SchemaContentError` with the row that cannot be read, and what the registry raises.
        """
        made = batch.to_arrow()
        for name, array in (await self.arrays(batch)).items():
            made = made.set_column(made.schema.get_field_index(name), name, array)
        return made

    async def arrays(self, batch: Batch) -> dict[str, Any]:
        """The typed columns alone, by name: "key", "value" or both."""
        made: dict[str, Any] = {}
        for name, column in (("key", self._keys), ("value", self._values)):
            if column is not None:
                made[name] = await column.array(batch.raw_column(is_key=column.is_key), batch.headers)
        return made


class _Column:
    """Keys or values."""

    def __init__(self, registry: SchemaSource, schema: Any, *, is_key: bool) -> None:
        self.is_key = is_key
        self._registry = registry
        self._schema = schema
        self._arrow: ArrowReader | None = None
        self._readers: dict[bytes, AvroReader] = {}

    async def array(self, contents: Sequence[bytes | None], headers: Sequence[Headers]) -> Any:
        places = [
            None if content is None else self._place(row, content, some)
            for row, (content, some) in enumerate(zip(contents, headers, strict=True))
        ]
        names = dict.fromkeys(place[0] for place in places if place is not None)
        arrow = await self._reading(list(names))
        for name in names:
            if name not in self._readers:
                self._readers[name] = arrow.reader(await self._resolved(name))
        readers = self._readers
        values: list[Any] = []
        try:
            for content, place in zip(contents, places, strict=True):
                if content is None or place is None:
                    values.append(None)
                else:
                    values.append(readers[place[0]].read(content, place[1], None))
        except SchemaContentError as error:
            raise SchemaContentError(f"row {len(values)}: {error.message}") from error
        return arrow.array(values)

    def _place(self, row: int, content: bytes, headers: Headers) -> tuple[bytes, int]:
        """The name of its schema, and where it begins."""
        try:
            name, behind = key_of(content, headers, self.is_key)
        except SchemaContentError as error:
            raise SchemaContentError(f"row {row}: {error.message}") from None
        return name, len(name) if behind is None else 0

    async def _reading(self, names: list[bytes]) -> ArrowReader:
        if self._arrow is None:
            if self._schema is not None:
                resolved = await self._registry.resolved(avro_schema(self._schema))
            elif not names:
                raise SchemaContentError("no row has a schema that its column could have: give one as schema=")
            else:
                resolved = await self._resolved(max(names))
            self._arrow = ArrowReader(resolved)
        return self._arrow

    async def _resolved(self, name: bytes) -> Any:
        registered = await self._registry.schema(id_of(name))
        if registered.schema.type != "AVRO":
            raise InvalidSchemaError(f"the schema {id_of(name)} is of type {registered.schema.type}, and not of Avro")
        return await self._registry.resolved(registered.schema)
