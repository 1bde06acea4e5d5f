"""Limits for the size and nesting of Avro values, because fastavro's unlimited recursion can crash the process."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from typing import Any

from ..errors import SchemaContentError
from .values import is_deeper

INTEGERS = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
FLOAT_MAX = 3.4028234663852886e38
"""Largest 32-bit float."""


class DecimalType:
    """The range of a decimal type. For a fixed type, fastavro checks that the precision fits the size."""

    def __init__(self, precision: int, scale: int) -> None:
        self.precision = precision
        self.scale = scale
        self._digits = precision - scale
        """Number of digits before the decimal point."""
        self._usual = decimal.Decimal((0, (0,), -scale))

    def holds(self, value: decimal.Decimal) -> bool:
        """Return True if the decimal is in the range, so that fastavro writes it without loss."""
        if not value.same_quantum(self._usual):
            exponent = value.as_tuple().exponent
            if not isinstance(exponent, int) or not -self.scale <= exponent <= self._digits:
                return False
        return value.adjusted() < self._digits


def decimal_of(schema: Any) -> DecimalType | None:
    """Return the range of a decimal type, or None for other types, and for invalid decimals, which are plain bytes."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or schema["type"] not in ("bytes", "fixed"):
        return None
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or not precision:
        return None
    return DecimalType(precision, scale)


def settled(schema: Any, named: dict[str, Any]) -> Any:
    """Return the definition of a type, for its name, ``{"type": TYPE}`` or the definition itself.

    The definition is a dict, or a list for a union. ``named`` contains the named types of the schema.
    """
    while True:
        if isinstance(schema, str):
            schema = named.get(schema, {"type": schema})
        elif isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
            schema = schema["type"]
        else:
            return schema


def named_of(schema: Any) -> dict[str, Any]:
    """Return the named types of a schema that fastavro has parsed, by full name."""
    found: dict[str, Any] = {}
    for each in schema if isinstance(schema, list) else [schema]:
        if isinstance(each, dict):
            found |= each.get("__named_schemas", {})
    return found


def has_many_records(schema: Any) -> bool:
    """Return True if the schema has a union of several records, or of a record and a map.

    In such a union, a value must name its record, because it could also match another branch.
    """
    named = named_of(schema)

    def has(node: Any) -> bool:
        if isinstance(node, list):
            settled_ones = (settled(each, named) for each in node)
            kinds = [each["type"] for each in settled_ones if isinstance(each, dict)]
            records = sum(kind in ("record", "error") for kind in kinds)
            return (records > 0 and records + kinds.count("map") > 1) or any(map(has, node))
        if not isinstance(node, dict):
            return False
        inner = [node["type"], node.get("items"), node.get("values")]
        return any(map(has, inner)) or any(has(field["type"]) for field in node.get("fields", ()))

    return has(schema) or any(map(has, named.values()))


DEPTH_MAX = 500
"""Maximum nesting of values. With a stack of 8 MB, fastavro crashes after a few thousand levels."""

EMPTY_ITEMS_MAX = 100_000
"""Maximum number of items without bytes in an array. Otherwise a few bytes could represent billions of items."""

_RECORDS = ("record", "error")
_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_NUMBERS = ("int", "long", "enum")


class ContentBounds:
    """Checks bytes before they are read, because untrusted data could use too much memory or stack.

    Most schemas limit size and nesting themselves, and need no check.
    """

    def __init__(self, schema: Any) -> None:
        """Examine a schema that fastavro has parsed, to find out whether its data needs a check."""
        self._schema = schema
        self._referred = named_of(schema)
        """Named types, including the types of referenced schemas."""
        self._named: dict[str, Any] = {}
        self._empty: dict[str, bool] = {}
        """For each examined named type, True if its values may have no bytes."""
        self._recursive = False
        self._unbounded = False
        """True if a few bytes may represent a value of any size."""
        self._may_be_empty(schema)

    def check(self, content: bytes, at: int) -> None:
        """Raise `SchemaContentError` if the value at position ``at`` is nested too deeply, or is too large."""
        # Each level of nesting takes at least a byte.
        if self._unbounded or (self._recursive and len(content) - at > DEPTH_MAX):
            _Scan(self._named, content, at).run(self._schema)

    def check_value(self, value: Any) -> None:
        """Raise `SchemaContentError` for a value that is nested too deeply, and that `check` would therefore reject."""
        if self._recursive and is_deeper(value, DEPTH_MAX - 1):  # without recursion, the schema limits the nesting
            raise SchemaContentError(f"the value is nested more than {DEPTH_MAX - 1} levels deep")

    def _may_be_empty(self, schema: Any) -> bool:
        """Examine a type, and the types in it. Return True if its values may have no bytes."""
        if isinstance(schema, str):
            if schema not in self._named and schema in self._referred:
                return self._may_be_empty(self._referred[schema])
            is_open = schema in self._named and schema not in self._empty
            self._recursive = self._recursive or is_open
            return schema == "null" or is_open or self._empty.get(schema, False)
        if isinstance(schema, list):
            for branch in schema:
                self._may_be_empty(branch)
            return False
        kind = schema["type"]
        if kind in _RECORDS or kind == "fixed":
            return self._named_may_be_empty(schema, schema["name"])
        if kind == "array":
            before = self._recursive
            self._recursive = False
            empty = self._may_be_empty(schema["items"])
            # An array whose items contain it is not unbounded, because the bytes of the inner arrays limit it.
            self._unbounded = self._unbounded or (empty and not self._recursive)
            self._recursive = self._recursive or before
        elif kind == "map":
            self._may_be_empty(schema["values"])
        elif isinstance(kind, (dict, list)):
            return self._may_be_empty(kind)
        elif kind == "enum":
            self._named[schema["name"]] = schema
            self._empty[schema["name"]] = False
        return bool(kind == "null")

    def _named_may_be_empty(self, schema: Any, name: str) -> bool:
        if name in self._named:  # a referenced schema may define the type again
            return self._may_be_empty(name)
        self._named[name] = schema
        if schema["type"] == "fixed":
            empty = not schema["size"]
        else:
            found = [self._may_be_empty(field["type"]) for field in schema["fields"]]
            empty = all(found)
            # If an empty record contains itself, reading a value never ends.
            self._unbounded = self._unbounded or (empty and self._recursive)
        self._empty[name] = empty
        return empty


class _Scan:
    """Traverses a value's bytes without recursion, and without creating the value."""

    def __init__(self, named: dict[str, Any], content: bytes, at: int) -> None:
        self._named = named
        self._content = content
        self._at = at

    def run(self, schema: Any) -> None:
        """Raise `SchemaContentError` for a value that is nested too deeply, too large, or truncated."""
        within = [iter((schema,))]
        while within:
            found = next(within[-1], None)
            if found is None:
                within.pop()
                continue
            inner = self._step(found)
            if inner is not None:
                within.append(inner)
                if len(within) > DEPTH_MAX:
                    raise SchemaContentError(f"the value is nested more than {DEPTH_MAX} levels deep")

    def _step(self, schema: Any) -> Iterator[Any] | None:
        """Skip the value at the current position. Return the types of nested values, which are not skipped, or None."""
        while not isinstance(schema, str) or schema in self._named:
            if isinstance(schema, str):
                schema = self._named[schema]
            if isinstance(schema, list):
                branch = self._long()
                if not 0 <= branch < len(schema):
                    raise SchemaContentError(f"the bytes select branch {branch} of a union with {len(schema)} branches")
                schema = schema[branch]
                continue
            kind = schema["type"]
            if kind in _RECORDS:
                return iter([field["type"] for field in schema["fields"]])
            if kind == "array":
                return self._items((schema["items"],))
            if kind == "map":
                return self._items(("string", schema["values"]))
            if kind == "fixed":
                self._skip(schema["size"])
                return None
            schema = kind
        if schema in _NUMBERS:
            self._long()
        else:
            self._skip(_SIZES[schema] if schema in _SIZES else self._long())
        return None

    def _items(self, each: tuple[Any, ...]) -> Iterator[Any]:
        empty = 0
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # skip the size of the block in bytes
            for _ in range(count):
                before = self._at
                yield from each
                empty += self._at == before
                if empty > EMPTY_ITEMS_MAX:
                    raise SchemaContentError(f"the array has more than {EMPTY_ITEMS_MAX} items without bytes")

    def _long(self) -> int:
        value = shift = 0
        while True:
            self._skip(1)
            byte = self._content[self._at - 1]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise SchemaContentError("the bytes contain a number with more than 64 bits")

    def _skip(self, size: int) -> None:
        self._at += size
        if size < 0 or self._at > len(self._content):
            raise SchemaContentError("the bytes end before the value does")
