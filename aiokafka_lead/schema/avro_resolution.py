"""Completes fastavro's resolution to a reader's schema: the defaults of its fields, and its logical types."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import fastavro
from fastavro.read import LOGICAL_READERS

from ..errors import SchemaContentError
from .avro_bounds import has_many_records, settled
from .avro_fit import AvroFit
from .resolved import ResolvedSchema, rewritten
from .values import NamedRecord

NAMES: dict[str, Any] = {"return_record_name": True}
"""Makes fastavro return a union's record as a pair of its name and content."""


def named_records(value: Any) -> Any:
    """Return the value with a `NamedRecord` for each pair; no other read value is a tuple."""
    if isinstance(value, tuple):
        return NamedRecord(value[0], named_records(value[1]))
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, (tuple, dict, list)):
                value[name] = named_records(inner)
    elif isinstance(value, list):
        value[:] = map(named_records, value)
    return value


def with_names(made: Any, named: dict[str, Any]) -> Any:
    """Return a schema in which fastavro finds other schemas' types: it searches only schemas marked as parsed."""
    if isinstance(made, list):
        return [with_names(named.get(each, each) if isinstance(each, str) else each, named) for each in made]
    if isinstance(made, str):
        made = named.get(made, made)
    return made if isinstance(made, str) else {**made, "__fastavro_parsed": True, "__named_schemas": named}


# --- defaults ---


def with_defaults(schema: Any, named: dict[str, Any]) -> tuple[Any, bool]:
    """Return a reader's schema, parsed by fastavro, whose defaults are values as they are read.

    fastavro would give the JSON of a default, as the same object, to all records. ``named``: the schema's named types.
    The second result is True if read values need `filled`.
    """
    fields: dict[int, tuple[dict[str, Any], Any]] = {}

    def add(node: Any) -> None:
        if isinstance(node, list):
            for each in node:
                add(each)
        elif isinstance(node, dict):
            for field in node.get("fields", ()):
                if "default" in field and id(field) not in fields:
                    fields[id(field)] = field, _default(field["type"], field["default"], named)
                add(field["type"])
            for part in ("type", "items", "values"):
                add(node.get(part))

    add([schema, *named.values()])
    for field, default in fields.values():  # not earlier, since a default may hold a record with defaults
        field["default"] = default
    return with_names(schema, named), any(isinstance(default, _New) for _, default in fields.values())


class _New:
    """Stands for a default that each record gets as a new object."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


_PLAIN_DEFAULTS: dict[Any, type] = {"string": str, "enum": str, "boolean": bool, "int": int, "long": int}


def _default(kind: Any, given: Any, named: dict[str, Any]) -> Any:
    """Return the value of a JSON default, or `_New` if it can be changed."""
    schema = settled(kind, named)
    described = {"type": None} if isinstance(schema, list) else schema
    if given is None or ("logicalType" not in described and type(given) is _PLAIN_DEFAULTS.get(described["type"])):
        return given
    if (described["type"], given) in (("array", []), ("map", {})):
        return _New(type(given))
    schema = with_names(schema, named)
    target = io.BytesIO()
    try:
        fastavro.schemaless_writer(target, schema, AvroFit(schema).default(given))
    except SchemaContentError:  # it does not match its type, though fastavro takes it, for example a text for a UUID
        return _New(partial(deepcopy, given)) if isinstance(given, (dict, list)) else given
    names = NAMES if has_many_records(schema) else {}

    def made() -> Any:
        return named_records(fastavro.schemaless_reader(io.BytesIO(target.getvalue()), schema, None, **names))

    value = made()
    return _New(made) if isinstance(value, (dict, list)) else value


def filled(value: Any) -> Any:
    """Return a read value with new objects for the defaults that can be changed."""
    if isinstance(value, _New):
        return value.make()
    if isinstance(value, dict):
        for name, inner in value.items():
            if type(inner) in _NESTED:
                value[name] = filled(inner)
    elif isinstance(value, list):
        value[:] = map(filled, value)
    elif isinstance(value, tuple):  # a union's record, with its name
        return value[0], filled(value[1])
    return value


_NESTED = frozenset((dict, list, tuple, _New))


# --- logical types ---

OWN_TYPES = "aiokafka-lead-"
"""The start of the names of logical types that only this process knows."""
_AS_READER = f"{OWN_TYPES}as-reader"
"""The logical type of fields that may have another one in the reader's schema."""
_BEFORE = "writersLogicalType"
"""The attribute with the logical type in the writer's schema."""
_PRIMITIVES = ("int", "long", "bytes", "string")


def with_logical_types(writer: ResolvedSchema, reader: ResolvedSchema) -> ResolvedSchema:
    """Return a writer's schema whose values get the logical types of the reader's schema, or none, as in Java.

    fastavro goes by the writer's, although a field is often given its logical type later.
    """
    schemas = [json.loads(each.text) for each in (reader.schema, *(each for _, each in reader.references))]
    names: dict[bool, set[str]] = {False: set(), True: set()}
    names[_is_logical(schemas[0])].add(_TOP)
    for schema in schemas:
        for name, is_logical in _fields(schema):
            names[is_logical].add(name)
    return rewritten(writer, lambda schema: _marked(schema, names, _TOP))


_TOP = ""
"""In place of a field's name, for a schema itself."""


def _fields(node: Any) -> Iterator[tuple[str, bool]]:
    """Yield the names and aliases of all fields, with True if the field's type is logical."""
    if isinstance(node, list):
        for each in node:
            yield from _fields(each)
    elif isinstance(node, dict):
        for field in node.get("fields", ()):
            is_logical = _is_logical(field["type"])
            yield from ((name, is_logical) for name in (field["name"], *field.get("aliases", ())))
            yield from _fields(field["type"])
        for part in ("type", "items", "values"):
            yield from _fields(node.get(part))


def _is_logical(node: Any) -> bool:
    """Return True if a type, or one that it contains outside of records, is logical."""
    if isinstance(node, list):
        return any(map(_is_logical, node))
    if not isinstance(node, dict):
        return False
    return "logicalType" in node or any(_is_logical(node.get(part)) for part in ("type", "items", "values"))


def _marked(node: Any, names: dict[bool, set[str]], field: str) -> Any:
    """Return a type with the logical type `_AS_READER` where the reader's, in a field of this name, may differ."""
    if isinstance(node, list):
        return [_marked(each, names, field) for each in node]
    if isinstance(node, str):
        return _marked({"type": node}, names, field) if node in _PRIMITIVES and field in names[True] else node
    if not isinstance(node, dict):
        return node
    parts = ["items", "values", *(["type"] if not isinstance(node["type"], str) else [])]
    made = node | {part: _marked(node[part], names, field) for part in parts if part in node}
    if "fields" in node:
        made["fields"] = [each | {"type": _marked(each["type"], names, each["name"])} for each in node["fields"]]
        return made
    logical = node.get("logicalType")
    is_known = isinstance(logical, str) and logical.startswith(OWN_TYPES)
    if node["type"] in (*_PRIMITIVES, "fixed") and field in names[logical is None] and not is_known:
        made |= {"logicalType": _AS_READER, _BEFORE: logical}
    return made


def _as_reader(value: Any, writer: Any, reader: Any = None) -> Any:
    """Return a value as the reader's type has it."""
    described = reader if isinstance(reader, dict) else {"type": reader}
    kind, logical, before = described["type"], described.get("logicalType"), writer[_BEFORE]
    if before is not None and logical is not None:  # the writer's may be of another unit or scale
        read = LOGICAL_READERS.get(f"{writer['type']}-{before}")
        return value if read is None else read(value, writer, reader)
    read = LOGICAL_READERS.get(f"{kind}-{logical}")
    if read is not None:
        return read(value, described, described)
    if kind in ("float", "double"):  # fastavro promotes no value that has a logical type
        return float(value)
    if kind == "bytes" and isinstance(value, str):
        return value.encode()
    return value.decode() if kind == "string" and isinstance(value, bytes) else value


LOGICAL_READERS.update({f"{kind}-{_AS_READER}": _as_reader for kind in (*_PRIMITIVES, "fixed")})
