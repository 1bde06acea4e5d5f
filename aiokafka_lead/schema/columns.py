"""`AvroColumns`, which converts batches with Avro to Apache Arrow (the extras ``avro`` and ``arrow``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol

from .. import errors
from .._core.consumer.deserializers import cannot_be_deserialized
from .._options.checks import boolean
from ..errors.shown import shown
from ..types import Headers
from .avro import AvroReader, avro_schema
from .deserializer import of_schema
from .framing import id_of, key_of
from .types import SchemaSource, usable

try:
    import pyarrow as pa

    from .arrow import ArrowReader
except ImportError:
    raise errors.ConfigError("Arrow columns need pyarrow; install with: pip install 'aiokafka-lead[arrow]'") from None


_RECORDS_OWN = (errors.SchemaContentError, errors.SchemaNotFoundError, errors.InvalidSchemaError)
"""Errors of a record, as opposed to an unavailable registry."""

_NO_TYPE = "no record in the batch has a schema with a type in Arrow; pass a schema with columns(schema=...)"

_NO_PLACE = (ValueError, TypeError, OverflowError)
"""Errors of pyarrow for a value that an array cannot represent."""


class Contents(Protocol):
    """The part of a `RecordBatch` that `AvroColumns.read` needs."""

    @property
    def headers(self) -> list[Headers]: ...

    def raw_column(self, *, is_key: bool) -> list[bytes | None]: ...


class Batch(Contents, Protocol):
    """The part of a `RecordBatch` that `AvroColumns.to_arrow` needs."""

    @property
    def bury(self) -> Callable[[Sequence[errors.RecordDeserializationError]], Awaitable[None]] | None: ...

    def raw(self) -> Iterable[Any]: ...

    def to_arrow(self) -> Any: ...


class AvroColumns:
    """Converter from batches to Arrow, with typed columns for Avro keys or values.

        columns = registry.columns()
        async for batch in consumer.batches():
            table = await columns.to_arrow(batch)

    Columns have the same types in all batches. An Avro record becomes a struct, which ``pyarrow.Table.flatten`` splits
    into columns. Times and decimals have Arrow's types. `SchemaRegistry.columns` describes the choice of columns and
    types.
    """

    def __init__(self, registry: SchemaSource, schema: Any, *, values: bool, keys: bool, into: Any = None) -> None:
        """Create a converter with the schema of the columns. ``into`` is as in `ArrowReader`."""
        self._columns: dict[str, _Column] = {}
        if boolean("keys", keys):
            self._columns["key"] = _Column(registry, schema if not values else None, into, is_key=True)
        if boolean("values", values):
            self._columns["value"] = _Column(registry, schema, into, is_key=False)

    async def to_arrow(self, batch: Batch) -> Any:
        """Convert a `RecordBatch` to a ``pyarrow.RecordBatch``.

        The result has the columns of `RecordBatch.to_arrow`, but converted keys or values have the types of their
        schema.

        Raises `RecordDeserializationError` for the first record that cannot be decoded. If the consumer's
        ``on_bad_record`` is "skip" or "dead_letter", such records are left out instead, and the result may be empty.
        Raises `SchemaContentError` if a column has no type yet, because no schema was given and no record of the batch
        has a usable schema. Also raises the errors of `SchemaRegistry.schema`.
        """
        made = batch.to_arrow()
        bad: dict[int, errors.RecordDeserializationError] = {}
        bury = batch.bury
        typed = True
        for name, (array, failed) in (await self.read(batch)).items():
            for row, record in enumerate(batch.raw()) if failed else ():
                if row in failed and row not in bad:
                    bad[row] = cannot_be_deserialized(record, name, failed[row], "")
            if array is None:
                typed = False
            else:
                made = made.set_column(made.schema.get_field_index(name), name, array)
        if bad and bury is None:
            raise bad[min(bad)]
        if not typed:
            raise errors.SchemaContentError(_NO_TYPE)
        if not bad or bury is None:
            return made
        await bury([bad[row] for row in sorted(bad)])
        return made.filter(pa.array([row not in bad for row in range(made.num_rows)]))

    async def read(self, batch: Contents) -> dict[str, tuple[Any, dict[int, Exception]]]:
        """Return the typed columns by name ("key" and "value"), each with errors by row. Rows with an error are null.

        A column is None if it has no type yet, because no schema was given and no record has a usable schema.
        """
        return {name: await column.read(batch) for name, column in self._columns.items()}


class _Column:
    """Deserializes the keys or the values of batches to one Arrow column."""

    def __init__(self, registry: SchemaSource, schema: Any, into: Any, *, is_key: bool) -> None:
        self._is_key = is_key
        self._registry = registry
        self._schema = schema
        self._into = into
        self._arrow: ArrowReader | None = None
        self._readers: dict[bytes, AvroReader] = {}

    async def read(self, batch: Contents) -> tuple[Any, dict[int, Exception]]:
        """Return the column, with null for each bad record, and the errors of the bad records by row."""
        contents = batch.raw_column(is_key=self._is_key)
        bad: dict[int, Exception] = {}
        places: list[tuple[bytes, int] | None] = [None] * len(contents)
        for row, (content, headers) in enumerate(zip(contents, batch.headers, strict=True)):
            if content is not None:
                try:
                    name, behind = key_of(content, headers, self._is_key)
                    places[row] = name, len(name) if behind is None else 0
                except errors.SchemaContentError as error:
                    bad[row] = error
        unreadable = await self._prepare({place[0] for place in places if place is not None})
        if self._arrow is None:
            return None, {**bad, **{row: unreadable[place[0]] for row, place in enumerate(places) if place is not None}}
        values: list[Any] = [None] * len(contents)
        for row, (content, place) in enumerate(zip(contents, places, strict=True)):
            if content is None or place is None:
                continue
            name, at = place
            if name in unreadable:
                bad[row] = unreadable[name]
                continue
            try:
                values[row] = self._readers[name].read(content, at, None)
            except errors.SchemaContentError as error:
                bad[row] = of_schema(error, name)
        return _built(self._arrow, values, bad), bad

    async def _prepare(self, names: set[bytes]) -> dict[bytes, Exception]:
        """Request the schemas that these prefixes or headers identify. Return the errors of unusable schemas."""
        if self._arrow is None and self._schema is not None:
            self._arrow = ArrowReader(await self._registry.resolved(avro_schema(self._schema)), self._into)
        unusable: dict[bytes, Exception] = {}
        for name in sorted(names - self._readers.keys(), reverse=True):
            try:
                resolved = await self._resolved(name)
                if self._arrow is None:  # the first usable schema, which has the highest id, determines the type
                    self._arrow = ArrowReader(resolved, self._into)
                self._readers[name] = self._arrow.reader(resolved)
            except _RECORDS_OWN as error:
                unusable[name] = error
        return unusable

    async def _resolved(self, name: bytes) -> Any:
        registered = await self._registry.schema(id_of(name))
        if registered.schema.type != "AVRO":
            raise errors.InvalidSchemaError(f"schema {id_of(name)} has the type {registered.schema.type}, not AVRO")
        return await usable(self._registry, registered, "READ")


def _built(arrow: ArrowReader, values: list[Any], bad: dict[int, Exception]) -> Any:
    """Return the array. Values that it cannot represent become null, and their errors are added to ``bad``."""
    try:
        return arrow.array(values)
    except _NO_PLACE as error:
        unfit = _unfit(arrow, values, 0, len(values), error)
        if not unfit:  # each half fits, so the array as a whole is too large
            raise
    for row, each in unfit.items():
        values[row] = None
        bad[row] = errors.SchemaContentError("an Arrow column cannot represent the value", shown(str(each)))
    return arrow.array(values)


def _unfit(arrow: ArrowReader, values: list[Any], first: int, end: int, error: Exception) -> dict[int, Exception]:
    """Find the values that an array cannot represent by bisection, because pyarrow's error does not name them."""
    if end - first == 1:
        return {first: error}
    middle = (first + end) // 2
    found: dict[int, Exception] = {}
    for start, stop in ((first, middle), (middle, end)):
        try:
            arrow.array(values[start:stop])
        except _NO_PLACE as half:
            found |= _unfit(arrow, values, start, stop, half)
    return found
