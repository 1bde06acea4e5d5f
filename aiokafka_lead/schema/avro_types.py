"""Ranges of Avro types, and the lookup of types in a schema parsed by fastavro."""

from __future__ import annotations

import decimal
from typing import Any

INTEGERS = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
FLOAT_MAX = 3.4028234663852886e38
"""The largest number of 32 bits."""


class DecimalType:
    """The decimals in a type's range. (For a fixed type, fastavro ensures that the precision fits.)"""

    def __init__(self, precision: int, scale: int) -> None:
        self.precision = precision
        self.scale = scale
        self._digits = precision - scale
        """Number of digits before the point."""
        self._usual = decimal.Decimal((0, (0,), -scale))

    def holds(self, value: decimal.Decimal) -> bool:
        """Return True if fastavro writes the value without loss."""
        if not value.same_quantum(self._usual):
            exponent = value.as_tuple().exponent
            if not isinstance(exponent, int) or not -self.scale <= exponent <= self._digits:
                return False
        return value.adjusted() < self._digits


def decimal_of(schema: Any) -> DecimalType | None:
    """Return the type's bounds; None if it is not a decimal (Avro treats an invalid one as plain bytes)."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if schema.get("logicalType") != "decimal" or schema["type"] not in ("bytes", "fixed"):
        return None
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or not precision:
        return None
    return DecimalType(precision, scale)


def settled(schema: Any, named: dict[str, Any]) -> Any:
    """Return the type itself, a dict or a list, neither its name nor a wrapper."""
    while True:
        if isinstance(schema, str):
            schema = named.get(schema, {"type": schema})
        elif isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
            schema = schema["type"]
        else:
            return schema


def named_of(schema: Any) -> dict[str, Any]:
    """The named types of a parsed schema, by their full names."""
    found: dict[str, Any] = {}
    for each in schema if isinstance(schema, list) else [schema]:
        if isinstance(each, dict):
            found |= each.get("__named_schemas", {})
    return found


def has_many_records(schema: Any) -> bool:
    """Return True if the schema has a union of several records, or of a record and a map.

    A value of one must name its record, since another branch could fit it, too.
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
