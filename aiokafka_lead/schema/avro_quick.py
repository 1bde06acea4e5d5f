"""Fast checks of values, generated from an Avro schema as Python source, as in `dataclasses`.

A check accepts only values that fastavro writes correctly without a conversion. `avro_fit` examines all other values.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any

from .avro_bounds import FLOAT_MAX, INTEGERS, decimal_of, settled

_NEVER = "False"
_EXACT = {
    "null": "{0} is None",
    "boolean": "type({0}) is bool",
    "string": "type({0}) is str",
    "bytes": "type({0}) is bytes",
    "double": "type({0}) is float",
    "float": f"type({{0}}) is float and (-{FLOAT_MAX!r} <= {{0}} <= {FLOAT_MAX!r} or {{0}} - {{0}} != 0)",
    **{kind: f"type({{0}}) is int and {low} <= {{0}} <= {high}" for kind, (low, high) in INTEGERS.items()},
}
_AWARE = "type({0}) is datetime and {0}.tzinfo is not None and 1 < {0}.year < 9999"
_NAIVE = "type({0}) is datetime and {0}.tzinfo is None"
_TIME = "type({0}) is time and {0}.tzinfo is None"
_LOGICAL = {
    ("long", "timestamp-millis"): _AWARE,
    ("long", "timestamp-micros"): _AWARE,
    ("long", "local-timestamp-millis"): _NAIVE,
    ("long", "local-timestamp-micros"): _NAIVE,
    ("int", "time-millis"): _TIME,
    ("long", "time-micros"): _TIME,
    ("int", "date"): "type({0}) is date",
    ("string", "uuid"): "type({0}) is UUID",
}
_MANY = {"string": str, "bytes": bytes, "boolean": bool, "double": float, "int": int, "long": int}
"""Types of array items that one expression can check together."""


class QuickLooks:
    """Builds fast checks for values.

    A check returns True if fastavro certainly writes the value correctly. Otherwise, the slower `AvroFit` decides.
    """

    def __init__(self, named: dict[str, Any], default_of: Callable[[Any, Any], Any]) -> None:
        """Create a builder.

        ``named`` are the named types of the schema. ``default_of`` returns the default of a field for its type and
        JSON, or raises ValueError if fastavro would not write the JSON correctly.
        """
        self._named = named
        self._default_of = default_of
        self._scope: dict[str, Any] = {
            "date": datetime.date,
            "datetime": datetime.datetime,
            "time": datetime.time,
            "UUID": uuid.UUID,
            "Decimal": decimal.Decimal,
        }
        self._records: dict[str, str] = {}

    def look(self, schema: Any) -> Callable[[Any], bool]:
        """Return the check for values of this schema."""
        name = self._function("look", [f" return {self._expression(schema, 'v')}"])
        made: Callable[[Any], bool] = self._scope[name]
        return made

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._scope)}"
        self._scope[name] = value
        return name

    def _function(self, what: str, lines: list[str], name: str | None = None) -> str:
        name = name or f"{what}{len(self._scope)}"
        exec("\n".join([f"def {name}(v):", *lines]), self._scope)
        return name

    def _expression(self, schema: Any, v: str) -> str:
        """Return the source of an expression that checks the value of variable ``v``."""
        schema = settled(schema, self._named)
        if isinstance(schema, list):
            return self._union(schema, v)
        kind = schema["type"]
        logical = _LOGICAL.get((kind, schema.get("logicalType")))
        if logical is not None:
            return f"({logical.format(v)})"
        limits = decimal_of(schema)
        if limits is not None:
            return f"(type({v}) is Decimal and {self._constant(limits.holds)}({v}))"
        if kind in ("record", "error"):
            return f"{self._record(schema)}({v})"
        if kind == "array":
            return f"(type({v}) is list and {self._each(schema['items'], v)})"
        if kind == "map":
            return f"(type({v}) is dict and {self._typed(v, str)} and {self._each(schema['values'], f'{v}.values()')})"
        if kind == "enum":
            return f"(type({v}) is str and {v} in {self._constant(frozenset(schema['symbols']))})"
        if kind == "fixed":
            return f"(type({v}) is bytes and len({v}) == {int(schema['size'])})"
        return f"({_EXACT[kind].format(v)})"

    def _typed(self, many: str, kind: type) -> str:
        return f"{{*map(type, {many})}} <= {self._constant({kind})}"

    def _each(self, schema: Any, many: str) -> str:
        schema = settled(schema, self._named)
        kind = None if isinstance(schema, list) or "logicalType" in schema else schema["type"]
        if kind in _MANY:
            typed = self._typed(many, _MANY[kind])
            if kind in INTEGERS:
                low, high = INTEGERS[kind]
                typed = f"{typed} and (not {many} or ({low} <= min({many}) and max({many}) <= {high}))"
            return typed
        if kind in ("record", "error"):
            return f"all(map({self._record(schema)}, {many}))"
        each = self._function("each", [f" return {self._expression(schema, 'v')}"])
        return f"all(map({each}, {many}))"

    def _union(self, schema: list[Any], v: str) -> str:
        """Return the source of an expression for a union.

        The expression is false if the choice of a branch is not obvious.
        """
        branches = [settled(each, self._named) for each in schema]
        others = [each for each in branches if isinstance(each, dict) and each["type"] != "null"]
        if len(others) > 1:
            return self._several(others, v, nullable=len(others) < len(branches))
        found = self._expression(others[0], v) if others else _NEVER
        return f"({v} is None or {found})" if len(others) < len(branches) else found

    def _several(self, others: list[Any], v: str, *, nullable: bool) -> str:
        """Return an expression for a union of several types, one of which may be null (``nullable``).

        Types that Python cannot tell apart are left to `AvroFit`.
        """
        kinds = [each["type"] for each in others]
        plain = all("logicalType" not in each and each["type"] in _EXACT for each in others)
        if not plain or sum(kind in ("int", "long", "float", "double") for kind in kinds) > 1:
            return f"{v} is None" if nullable else _NEVER
        found = " or ".join(self._expression(each, v) for each in others)
        return f"({v} is None or {found})" if nullable else f"({found})"

    def _record(self, schema: Any) -> str:
        """Return the name of the check function for a record type, which may be recursive."""
        known = self._records.get(schema["name"])
        if known is not None:
            return known
        name = self._records[schema["name"]] = f"record{len(self._records)}"
        fields = schema["fields"]
        every = [f"  x{at} = v[{field['name']!r}]" for at, field in enumerate(fields)]
        some = list(every)
        for at, field in enumerate(fields):
            if "default" in field:
                try:
                    default = self._constant(self._default_of(field["type"], field["default"]))
                except ValueError:
                    continue
                some[at] = f"  x{at} = v.get({field['name']!r}, {default})"
        lines = [" if type(v) is not dict: return False", " try:"]
        if some == every:
            lines += [f"  if len(v) != {len(fields)}: return False", *every]
        else:
            names = self._constant(frozenset(field["name"] for field in fields))
            lines += [
                f"  if len(v) == {len(fields)}:",
                *(f" {line}" for line in every),
                f"  elif not v.keys() <= {names}: return False",
                "  else:",
                *(f" {line}" for line in some),
            ]
        lines += [" except KeyError: return False"]
        checks = [self._expression(field["type"], f"x{at}") for at, field in enumerate(fields)]
        lines += [f" return {' and '.join(checks) or 'True'}"]
        return self._function("record", lines, name)
