"""Reader and writer of Avro, with fastavro (the ``avro`` extra)."""

from __future__ import annotations

import decimal
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import ConfigError, InvalidSchemaError, SchemaContentError
from ..errors.shown import shown
from .avro_bounds import ContentBounds, has_many_records, named_of
from .types import ResolvedSchema, Schema, SchemaSource

try:
    import fastavro
    from fastavro.read import LOGICAL_READERS
    from fastavro.schema import SchemaParseException, UnknownType

    from .avro_fit import AvroFit
    from .avro_resolution import (
        NAMES,
        all_named,
        filled,
        for_resolution,
        named_records,
        with_defaults,
        with_names,
        with_types_of,
    )
except ImportError:
    raise ConfigError("Avro needs fastavro; install with: pip install 'aiokafka-lead[avro]'") from None


def avro_schema(given: Any) -> Schema:
    """Return the schema for text, parsed JSON, or a `Schema`. Raises `InvalidSchemaError` if it is not valid Avro."""
    if isinstance(given, Schema):
        if given.type != "AVRO":
            raise InvalidSchemaError(f"the schema must have the type AVRO, not {given.type}")
        return given
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "[", '"'):
        return Schema(given)
    try:
        return Schema(json.dumps(given))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"invalid Avro schema: {error}") from None


@contextmanager
def _errors_of_schema() -> Iterator[None]:
    """In the block, convert fastavro's errors of an invalid schema to `InvalidSchemaError`."""
    try:
        yield
    except InvalidSchemaError:
        raise
    except (
        SchemaParseException,
        UnknownType,
        AttributeError,
        ValueError,
        TypeError,
        KeyError,
        RecursionError,
    ) as error:
        raise InvalidSchemaError(f"invalid Avro schema: {type(error).__name__}: {shown(str(error))}") from None


def parsed(resolved: ResolvedSchema, *, of_writer: bool = False) -> Any:
    """Return a schema in the form that fastavro uses. Raises `InvalidSchemaError` if it is not valid Avro.

    ``of_writer`` means that data was written with the schema. As in Java, invalid defaults are then accepted, because
    they do not affect the data, and a decimal with an invalid precision is read as bytes.
    """
    with _errors_of_schema():
        return with_names(*_made(resolved, of_writer=of_writer))


def _of_reader(resolved: ResolvedSchema) -> tuple[Any, bool]:
    """Return the schema for reading, and True if values that are read with it must be passed to `filled`."""
    with _errors_of_schema():
        return with_defaults(*_made(resolved, of_writer=False))


def _made(resolved: ResolvedSchema, *, of_writer: bool) -> tuple[Any, dict[str, Any]]:
    texts = (*(each.text for _, each in resolved.references), resolved.schema.text)
    schemas = [json.loads(text) for text in texts]
    try:
        return _parsed(schemas)
    except (SchemaParseException, UnknownType):
        return _parsed([_as_in_java(each, of_writer=of_writer) for each in schemas])


def _parsed(schemas: list[Any]) -> tuple[Any, dict[str, Any]]:
    """Parse schemas, each of which may refer to the ones before it. Return the last one, and all named types."""
    named: dict[str, Any] = {}
    return [fastavro.parse_schema(each, named) for each in schemas][-1], named


_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_TYPES = (*_PRIMITIVES, "record", "error", "enum", "fixed", "array", "map")


def _as_in_java(schema: Any, *, of_writer: bool) -> Any:
    """Rewrite parts that only Java accepts: ``{"type": NAME}`` and, with ``of_writer``, the parts named in `parsed`."""

    def made(node: Any) -> Any:
        if isinstance(node, list):
            return [made(each) for each in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("type")
        if isinstance(kind, str) and kind not in _TYPES:
            return kind
        content = {name: made(inner) if name in ("type", "items", "values") else inner for name, inner in node.items()}
        if of_writer:
            content.pop("default", None)  # the default of an enum
            if node.get("logicalType") == "decimal" and not _is_valid(content):
                del content["logicalType"]
        if isinstance(node.get("fields"), list):
            content["fields"] = [field(each) for each in node["fields"]]
        return content

    def field(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        kept = {name: inner for name, inner in node.items() if name != "default" or not of_writer}
        return kept | {"type": made(node["type"])} if "type" in node else kept

    return made(schema)


def _is_valid(schema: Any) -> bool:
    try:
        fastavro.parse_schema(schema)
    except SchemaParseException:
        return False
    return True


class AvroReader:
    """Reader of Avro data that was written with a schema. If ``reader`` is given, values are converted to it.

    With ``named``, every record becomes a `NamedRecord`, not only the records in unions of several records.
    """

    def __init__(self, writer: ResolvedSchema, reader: ResolvedSchema | None = None, *, named: bool = False) -> None:
        self._as, self._has_new = None, False
        if reader is not None and reader != writer:
            self._as, self._has_new = _of_reader(reader)
            with _errors_of_schema():
                writer = with_types_of(reader, writer)
        self._schema = parsed(writer, of_writer=True)
        with _errors_of_schema():
            if self._as is not None:
                self._schema, self._as = for_resolution(self._schema, self._as)
            self._bounds = ContentBounds(self._schema)
            self._names: Any = NAMES if named or has_many_records(self._schema) else {}
        made_with = self._as or self._schema
        self._all = (made_with, named_of(made_with)) if named else None
        schemas = [each for side in (writer, reader) if side for each in (side.schema, *dict(side.references).values())]
        self._decimals: Any = _DECIMALS if any('"decimal"' in each.text for each in schemas) else None

    def read(self, content: bytes, at: int, indexes: bytes | None) -> Any:
        self._bounds.check(content, at)
        source = io.BytesIO(content)
        source.seek(at)
        if self._decimals is not None:
            self._decimals.clear_flags()
        try:
            value = fastavro.schemaless_reader(source, self._schema, self._as, **self._names)
            if self._has_new:
                value = filled(value)
            if self._names:
                value = named_records(value)
            if self._all is not None:
                value = all_named(value, *self._all)
        except Exception as error:
            reason = f"{type(error).__name__}: {shown(str(error))}"
            raise SchemaContentError(f"the bytes do not match their Avro schema ({reason})") from error
        if self._decimals is not None and self._decimals.flags[decimal.Inexact]:
            raise SchemaContentError("the bytes contain a decimal with more digits than their Avro schema allows")
        return value


_DECIMALS = getattr(sys.modules[LOGICAL_READERS["bytes-decimal"].__module__], "decimal_context", None)
"""Decimal context of fastavro. Its flags show whether a decimal was rounded, which fastavro does not report."""


class AvroWriter:
    """Writes values as Avro. Raises `SchemaContentError` for values that do not match the schema."""

    indexes = b""

    def __init__(self, schema: ResolvedSchema) -> None:
        self._schema = parsed(schema)
        with _errors_of_schema():
            self._bounds = ContentBounds(self._schema)
            self._fit = AvroFit(self._schema)
        self._is_plain = self._fit.is_plain

    def write(self, value: Any, before: bytes) -> bytes:
        self._bounds.check_value(value)
        try:
            if not self._is_plain(value):
                value = self._fit.made(value)
                self._bounds.check_value(value)  # check again, because models are dicts now
            target = io.BytesIO(before)
            target.seek(len(before))
            fastavro.schemaless_writer(target, self._schema, value)
        except SchemaContentError:
            raise
        except Exception as error:
            self._fit.made(value)  # raises a more precise error if it can find the field
            reason = f"{type(error).__name__}: {shown(str(error))}"
            raise SchemaContentError("the value does not match its Avro schema", reason) from error
        return target.getvalue()


class AvroFormat:
    """The format of a serializer with an Avro schema. None means the latest schema of the subject."""

    def __init__(self, given: Any) -> None:
        self.schema = None if given is None else avro_schema(given)
        self.record_name = None
        if self.schema is not None:
            try:
                self.record_name = _name(json.loads(self.schema.text))
            except (ValueError, RecursionError) as error:
                raise InvalidSchemaError(f"invalid Avro schema: {error}") from None
            if not self.schema.references:
                parsed(ResolvedSchema(self.schema))  # raises an error for an invalid schema now, and not at first use

    def writer(self, resolved: ResolvedSchema) -> AvroWriter:
        if resolved.schema.type != "AVRO":
            raise InvalidSchemaError(f"the latest schema of the subject has the type {resolved.schema.type}, not AVRO")
        return AvroWriter(resolved)

    async def prepared(self, registry: SchemaSource, *, register: bool) -> Schema | None:
        return self.schema


def _name(schema: Any) -> str | None:
    if isinstance(schema, str) and schema not in _PRIMITIVES:
        return schema  # a type that another schema defines
    if not isinstance(schema, dict) or "name" not in schema:
        return None
    name, space = str(schema["name"]), schema.get("namespace")
    return name if "." in name or not space else f"{space}.{name}"
