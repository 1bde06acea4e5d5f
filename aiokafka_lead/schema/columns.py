"""`AvroColumns`: batches for Apache Arrow with typed keys or values (the extras ``avro`` and ``arrow``)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NoReturn, Protocol

from .._core.consumer.deserializers import cannot_be_deserialized
from .._options.checks import boolean
from ..errors import (
    ConfigError,
    InvalidSchemaError,
    SchemaContentError,
    SchemaNotFoundError,
)
from ..types import Headers
from .avro import AvroReader, avro_schema
from .deserializer import of_schema
from .framing import id_of, key_of
from .source import SchemaSource

try:
    from .arrow import ArrowReader
except ImportError:
    raise ConfigError("columns for Arrow need pyarrow: pip install aiokafka-lead[arrow]") from None

__all__ = ["AvroColumns"]


_RECORDS_OWN = (SchemaContentError, SchemaNotFoundError, InvalidSchemaError)
"""Errors of a record, rather than of an unavailable registry."""


class Contents(Protocol):
    """Keys or values of some records."""

    @property
    def headers(self) -> list[Headers]: ...

    def raw_column(self, *, is_key: bool) -> list[bytes | None]: ...


class Named(Protocol):
    """The names of records in errors."""

    def raw(self) -> Iterable[Any]: ...


class Batch(Contents, Named, Protocol):
    """The needed part of a `RecordBatch`."""

    def to_arrow(self) -> Any: ...


class AvroColumns:
    """Adds typed columns to `RecordBatch.to_arrow`, with the same types for all batches: see there.

    A record becomes a struct, which ``pyarrow.Table.flatten`` turns into columns; times and decimals become Arrow's.
    """

    def __init__(self, registry: SchemaSource, schema: Any, *, values: bool, keys: bool) -> None:
        self._registry = registry
        self._values = _Column(registry, schema, is_key=False) if boolean("values", values) else None
        self._keys = _Column(registry, schema if not values else None, is_key=True) if boolean("keys", keys) else None

    async def to_arrow(self, batch: Batch) -> Any:
        """Return the batch as a ``pyarrow.RecordBatch``.

        Raises `RecordDeserializationError` for the first unreadable record, and the registry's errors.
        """
        made = batch.to_arrow()
        for name, array in (await self.arrays(batch, batch)).items():
            made = made.set_column(made.schema.get_field_index(name), name, array)
        return made

    async def arrays(self, batch: Contents, named: Named | None = None) -> dict[str, Any]:
        """Return only the typed columns, by name: "key", "value" or both.

        With ``named``, errors of a record are a `RecordDeserializationError` that names it.
        """
        made: dict[str, Any] = {}
        for name, column in (("key", self._keys), ("value", self._values)):
            if column is not None:
                made[name] = await column.array(batch, named)
        return made


class _Column:
    """Keys or values."""

    def __init__(self, registry: SchemaSource, schema: Any, *, is_key: bool) -> None:
        self.is_key = is_key
        self._registry = registry
        self._schema = schema
        self._arrow: ArrowReader | None = None
        self._readers: dict[bytes, AvroReader] = {}

    async def array(self, batch: Contents, named: Named | None) -> Any:
        """Return the column; raise a record's error unchanged, or as an error that names the record."""
        contents = batch.raw_column(is_key=self.is_key)
        places: list[tuple[bytes, int] | None] = []
        values: list[Any] = []
        for content, headers in zip(contents, batch.headers, strict=True):
            try:
                places.append(None if content is None else self._place(content, headers))
            except SchemaContentError as error:
                self._blame(len(places), error, named)
        arrow = await self._reading(places, named)
        readers = self._readers
        try:
            for content, place in zip(contents, places, strict=True):
                if content is None or place is None:
                    values.append(None)
                    continue
                name, at = place
                if name not in readers:
                    readers[name] = arrow.reader(await self._resolved(name))
                values.append(self._read(readers[name], name, content, at))
        except _RECORDS_OWN as error:
            self._blame(len(values), error, named)
        return arrow.array(values)

    def _blame(self, row: int, error: Exception, named: Named | None) -> NoReturn:
        if named is None:
            raise error
        record = next(islice(named.raw(), row, None))
        raise cannot_be_deserialized(record, "key" if self.is_key else "value", error, "") from error

    @staticmethod
    def _read(reader: AvroReader, name: bytes, content: bytes, at: int) -> Any:
        try:
            return reader.read(content, at, None)
        except SchemaContentError as error:
            raise of_schema(error, name) from (error.__cause__ or error)

    def _place(self, content: bytes, headers: Headers) -> tuple[bytes, int]:
        """Return the name of the content's schema, and the start of its data."""
        name, behind = key_of(content, headers, self.is_key)
        return name, len(name) if behind is None else 0

    async def _reading(self, places: list[tuple[bytes, int] | None], named: Named | None) -> ArrowReader:
        if self._arrow is not None:
            return self._arrow
        if self._schema is not None:
            resolved = await self._registry.resolved(avro_schema(self._schema))
        else:
            known = [(place[0], row) for row, place in enumerate(places) if place is not None]
            if not known:
                raise SchemaContentError("no row has a schema that its column could have: give one as schema=")
            name, row = max(known)
            try:
                resolved = await self._resolved(name)
            except SchemaNotFoundError as error:
                self._blame(row, error, named)
        self._arrow = ArrowReader(resolved)
        return self._arrow

    async def _resolved(self, name: bytes) -> Any:
        registered = await self._registry.schema(id_of(name))
        if registered.schema.type != "AVRO":
            raise InvalidSchemaError(f"the schema {id_of(name)} is of type {registered.schema.type}, and not of Avro")
        return await self._registry.resolved(registered.schema)
