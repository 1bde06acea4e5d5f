"""Additions to fastavro's schema resolution: defaults of fields, logical types, and promotions as in Java."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import fastavro
from fastavro.read import LOGICAL_READERS

from ..errors import SchemaContentError
from .avro_bounds import has_many_records, named_of, settled
from .avro_fit import AvroFit
from .types import ResolvedSchema, rewritten
from .values import NamedRecord

_RECORDS = ("record", "error")
NAMES: dict[str, Any] = {"return_record_name": True}
"""Option that makes fastavro return a record from a union as a pair of its name and content."""


def named_records(value: Any) -> Any:
    """Replace pairs of a name and a record with `NamedRecord`. No other values from fastavro are tuples.

    fastavro also returns a pair for an enum or a fixed type that the union refers to by name. These become plain.
    """
    if isinstance(value, tuple):
        name, content = value
        return NamedRecord(full_name(name), named_records(content)) if isinstance(content, dict) else content
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, (tuple, dict, list)):
                value[name] = named_records(inner)
    elif isinstance(value, list):
        value[:] = map(named_records, value)
    return value


def all_named(value: Any, schema: Any, named: dict[str, Any]) -> Any:
    """Replace every record in a value with a `NamedRecord`.

    ``schema`` is the value's schema, and ``named`` are its named types. A record from a union keeps its name. It has no
    name yet if the writer's schema has no union there. It then gets the name of the only branch with its fields, and
    stays a dict if there are several.
    """
    if not isinstance(value, (dict, list)):
        return value
    schema = settled(schema, named)
    if isinstance(schema, list):
        branches = [each for each in (settled(each, named) for each in schema) if _may_be(value, each)]
        if len(branches) != 1:
            return value
        schema = branches[0]
    if isinstance(value, list):
        value[:] = [all_named(each, schema["items"], named) for each in value]
        return value
    if schema["type"] == "map":
        value.update({key: all_named(each, schema["values"], named) for key, each in value.items()})
        return value
    for field in schema["fields"]:
        value[field["name"]] = all_named(value[field["name"]], field["type"], named)
    return NamedRecord(full_name(schema["name"]), value)


def _may_be(value: Any, schema: Any) -> bool:
    """Return True if a dict or list may be a value of this branch of a union."""
    kind = schema["type"]
    if isinstance(value, list):
        return bool(kind == "array")
    if isinstance(value, NamedRecord):
        return bool(kind in _RECORDS and full_name(schema["name"]) == value.record_name)
    return bool(kind == "map" or (kind in _RECORDS and value.keys() == {field["name"] for field in schema["fields"]}))


def with_names(made: Any, named: dict[str, Any]) -> Any:
    """Return a schema with the types in ``named`` attached, and marked as parsed so that fastavro uses these types."""
    if isinstance(made, list):
        return [with_names(named.get(each, each) if isinstance(each, str) else each, named) for each in made]
    if isinstance(made, str):
        made = named.get(made, made)
    return made if isinstance(made, str) else {**made, "__fastavro_parsed": True, "__named_schemas": named}


_IN_NAMES = "/"
"""Character that `for_resolution` uses in place of dots. It is not valid in names."""


def for_resolution(writer: Any, reader: Any) -> tuple[Any, Any]:
    """Return copies of two schemas that fastavro resolves correctly. The schemas are parsed by fastavro.

    - The copies refer to all named types by name, except at the top. Otherwise fastavro cannot read some unions if one
      schema defines a type there, and the other refers to a definition elsewhere.
    - fastavro ignores namespaces. If the reader's schema has several types with the same simple name, types of the same
      full name in both schemas get names without dots. `full_name` returns the original name.
    """
    writers, readers = named_of(writer), named_of(reader)
    simple = Counter(name.rpartition(".")[2] for name in readers)
    shared = [name for name in readers if name in writers and simple[name.rpartition(".")[2]] > 1]
    names = {name: name.replace(".", _IN_NAMES) for name in shared}
    return _referring(writer, writers, names), _referring(reader, readers, names)


def _referring(schema: Any, named: dict[str, Any], names: Mapping[str, str]) -> Any:
    def name_of(node: Any) -> Any:
        if isinstance(node, dict) and "name" in node:
            node = node["name"]
        return names.get(node, node) if isinstance(node, str) else copy(node)

    def copy(node: Any) -> Any:
        if isinstance(node, list):
            return list(map(name_of, node))
        if not isinstance(node, dict):
            return name_of(node)
        made = node | {part: name_of(node[part]) for part in _PARTS if part in node}
        if "name" in node:
            made["name"] = name_of(node["name"])
        if "fields" in node:
            made["fields"] = [field | {"type": name_of(field["type"])} for field in node["fields"]]
        return made

    found = {name_of(name): copy(each) for name, each in named.items()}
    return with_names(list(map(copy, schema)) if isinstance(schema, list) else copy(schema), found)


def full_name(name: str) -> str:
    """Return the name of a type before `for_resolution`."""
    return name.replace(_IN_NAMES, ".")


# --- defaults ---


def with_defaults(schema: Any, named: dict[str, Any]) -> tuple[Any, bool]:
    """Convert the JSON defaults in a reader's schema to values.

    ``schema`` is parsed by fastavro, and ``named`` are its named types. Returns the converted schema, and True if each
    value that is read with it must be passed to `filled`.

    The conversion is needed because fastavro inserts defaults unchanged, for example text instead of bytes, and inserts
    the same mutable object into all records.
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
    for field, default in fields.values():  # only now, because a default may contain a record with JSON defaults
        field["default"] = default
    return with_names(schema, named), any(isinstance(default, _New) for _, default in fields.values())


class _New:
    """Placeholder for a mutable default. `filled` replaces it with a new object in each record."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


_PLAIN_DEFAULTS: dict[Any, type] = {"string": str, "enum": str, "boolean": bool, "int": int, "long": int}


def _default(kind: Any, given: Any, named: dict[str, Any]) -> Any:
    """Return the value of a JSON default, or `_New` if it is mutable."""
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
    except SchemaContentError:  # fastavro accepts a default that does not match its type, such as a text for a UUID
        return _New(partial(deepcopy, given)) if isinstance(given, (dict, list)) else given
    names = NAMES if has_many_records(schema) else {}

    def made() -> Any:
        return named_records(fastavro.schemaless_reader(io.BytesIO(target.getvalue()), schema, None, **names))

    value = made()
    return _New(made) if isinstance(value, (dict, list)) else value


def filled(value: Any) -> Any:
    """Replace placeholders of mutable defaults in a read value with new objects."""
    if isinstance(value, _New):
        return value.make()
    if isinstance(value, dict):
        for name, inner in value.items():
            if type(inner) in _NESTED:
                value[name] = filled(inner)
    elif isinstance(value, list):
        value[:] = map(filled, value)
    elif isinstance(value, tuple):  # the name of a record in a union, and the record
        return value[0], filled(value[1])
    return value


_NESTED = frozenset((dict, list, tuple, _New))


# --- types of fields ---

OWN_TYPES = "aiokafka-lead-"
"""Prefix of logical types that this package adds to schemas in memory to change how fastavro reads values."""
_AS_READER = f"{OWN_TYPES}as-reader"
"""Logical type of values whose logical type in the reader's schema may differ."""
_KEPT = f"{OWN_TYPES}kept"
"""Logical type of values that stay unchanged, because the reader's union contains their type."""
_BEFORE = "writersLogicalType"
"""Attribute with the original logical type in the writer's schema."""

_FAMILIES = (("int", "long", "float", "double"), ("bytes", "string"))
"""Families of types that can be promoted to each other."""
_LOGICAL = ("int", "long", "bytes", "string", "fixed")
"""Types that may have a logical type."""
_PARTS = ("type", "items", "values")


def with_types_of(reader: ResolvedSchema, writer: ResolvedSchema) -> ResolvedSchema:
    """Return a copy of the writer's schema that makes fastavro resolve types as Java does.

    In the copy, types of fields have additional logical types of this package. With these, fastavro converts values
    according to the logical types of the reader's schema, and leaves a value unchanged if a union in the reader's
    schema contains its type.

    Without the copy, fastavro would use the logical types of the writer's schema, although a logical type is often
    added to a field later. In a union, it would choose the first type to which a value can be promoted. Raises
    `InvalidSchemaError` if a schema is not JSON.
    """
    schemas = [json.loads(each.text) for each in (reader.schema, *(each for _, each in reader.references))]
    types = {_TOP: _type_of(schemas[0])} | {field: found for schema in schemas for field, found in _fields(schema)}
    return rewritten(writer, lambda schema: _marked(schema, types, types[_TOP], ""))


_Field = tuple[str, str]
"""Name of a record and name of a field. The record has two keys: its full name after a dot, and its simple name."""
_TOP = ("", "")
"""Key for the schema itself instead of a field."""


class _Type(NamedTuple):
    """The type of a field in the reader's schema, as far as it affects how values are resolved."""

    is_logical: bool
    """True if the type, or a type in it, has a logical type."""
    rivals: frozenset[str]
    """Types that are in a union with another type to which their values can be promoted."""


def _type_of(node: Any) -> _Type:
    inner = [node.get(part) for part in _PARTS] if isinstance(node, dict) else node if isinstance(node, list) else ()
    found = [_type_of(each) for each in inner]
    is_logical = (isinstance(node, dict) and "logicalType" in node) or any(each.is_logical for each in found)
    return _Type(is_logical, _rivals(node).union(*(each.rivals for each in found)))


def _rivals(node: Any) -> frozenset[str]:
    if not isinstance(node, list):
        return frozenset()
    described = [{"type": each} if isinstance(each, str) else each for each in node if not isinstance(each, list)]
    families = [[each for each in described if each["type"] in family] for family in _FAMILIES]
    some = [each for family in families if len(family) > 1 for each in family]
    return frozenset(each["type"] for each in some if "logicalType" not in each)


def _fields(node: Any, space: str = "") -> Iterator[tuple[_Field, _Type]]:
    """Yield the types of all fields, with each of their names and aliases. ``space`` is the enclosing namespace."""
    if isinstance(node, list):
        for each in node:
            yield from _fields(each, space)
    elif isinstance(node, dict):
        space = _space(node, space)
        for field in node.get("fields", ()):
            found = _type_of(field["type"])
            records = [key for name in (node["name"], *node.get("aliases", ())) for key in _keys(name, space)]
            for record, name in product(records, (field["name"], *field.get("aliases", ()))):
                yield (record, name), found
            yield from _fields(field["type"], space)
        for part in _PARTS:
            yield from _fields(node.get(part), space)


def _space(node: Any, outer: str) -> str:
    """Return the namespace in a type."""
    before, dot, _ = node.get("name", "").rpartition(".")
    return str(before if dot else node.get("namespace", outer) or "")


def _keys(name: str, space: str) -> tuple[str, str]:
    """Return the keys of a record in `_Field`. fastavro ignores namespaces, so a record may have moved to another."""
    return f".{name}" if "." in name or not space else f".{space}.{name}", name.rpartition(".")[2]


def _marked(node: Any, types: Mapping[_Field, _Type], wanted: _Type | None, space: str) -> Any:
    """Add the logical types `_AS_READER` and `_KEPT` to a type in the writer's schema.

    ``wanted`` is the type of the same field in the reader's schema, and ``space`` the enclosing namespace.
    """
    if isinstance(node, list):
        return [_marked(each, types, wanted, space) for each in node]
    if isinstance(node, str):
        mark = _mark(node, None, wanted)
        return node if mark is None else {"type": node, "logicalType": mark, _BEFORE: None}
    if not isinstance(node, dict):
        return node
    space = _space(node, space)
    inner = [part for part in _PARTS if part in node and (part != "type" or not isinstance(node[part], str))]
    made = node | {part: _marked(node[part], types, wanted, space) for part in inner}
    if "fields" in node:
        keys = _keys(node["name"], space)
        made["fields"] = []
        for each in node["fields"]:
            found = next((types[key, each["name"]] for key in keys if (key, each["name"]) in types), None)
            made["fields"].append(each | {"type": _marked(each["type"], types, found, space)})
        return made
    logical = node.get("logicalType")
    mark = _mark(node["type"], logical, wanted)
    return made if mark is None else made | {"logicalType": mark, _BEFORE: logical}


def _mark(kind: Any, logical: Any, wanted: _Type | None) -> str | None:
    """Return the logical type to set for a type in the writer's schema, or None to leave it unchanged."""
    if wanted is None or not isinstance(kind, str) or str(logical).startswith(OWN_TYPES):
        return None
    if kind in wanted.rivals and (logical is None or not wanted.is_logical):
        return _KEPT
    return _AS_READER if kind in _LOGICAL and wanted.is_logical is (logical is None) else None


def _kept(value: Any, _writer: Any, _reader: Any = None) -> Any:
    return value


def _as_reader(value: Any, writer: Any, reader: Any = None) -> Any:
    """Convert a value to its type in the reader's schema. fastavro calls this for the types marked `_AS_READER`."""
    described = reader if isinstance(reader, dict) else {"type": reader}
    kind, logical, before = described["type"], described.get("logicalType"), writer[_BEFORE]
    if before is not None and logical is not None:  # use the writer's type, which may have another unit or scale
        read = LOGICAL_READERS.get(f"{writer['type']}-{before}")
        return value if read is None else read(value, writer, reader)
    # fastavro does not promote values with a logical type.
    if kind in ("float", "double"):
        value = float(value)
    elif kind == "bytes" and isinstance(value, str):
        value = value.encode()
    elif kind == "string" and isinstance(value, bytes):
        value = value.decode()
    read = LOGICAL_READERS.get(f"{kind}-{logical}")
    return value if read is None else read(value, described, described)


LOGICAL_READERS.update({f"{kind}-{_AS_READER}": _as_reader for kind in _LOGICAL})
LOGICAL_READERS.update({f"{kind}-{_KEPT}": _kept for family in _FAMILIES for kind in family})
