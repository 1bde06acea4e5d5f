"""Check and conversion of values before fastavro writes them, because it accepts many values that do not match.

The fast checks of `avro_quick` accept plain values. `AvroFit` converts other values to a form that fastavro writes
correctly: models and dataclasses to dicts, enum members to symbols, and a value of a union to a pair that names its
branch. If a value does not match the schema, the error contains the path of the field.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import partial
from typing import Any

from ..errors import SchemaContentError
from ..errors.shown import shown
from .avro_bounds import INTEGERS, decimal_of, has_many_records, named_of, settled
from .avro_leaves import (
    LOGICAL,
    PLAIN,
    UUID_SIZE,
    Misfit,
    decimal_bytes,
    fixed,
    fixed_uuid,
    integer,
    misfit,
    string,
    symbol,
)
from .avro_quick import QuickLooks
from .values import NamedRecord, content_of

Fit = Callable[[Any], Any]

_TEXT = (str, bytes, bytearray, memoryview)

_HINT = "-type"
"""Key in a dict for the record's name, which lets fastavro choose the branch of a union."""


class AvroFit:
    """Converts values to a form that fastavro writes correctly with a schema."""

    def __init__(self, schema: Any) -> None:
        """Build the checks for a schema that fastavro has parsed."""
        fits = _Fits(named_of(schema), names_branches=has_many_records(schema))
        self._fits = fits
        self._schema = schema
        self._fit = fits.fit(schema)
        self.is_plain = fits.quick.look(schema)
        """Function that returns True if fastavro writes a value correctly. If it returns False, call `made`."""

    def default(self, content: Any) -> Any:
        """Convert the JSON of a default value. Raises `SchemaContentError` if it does not match the schema."""
        return self.made(self._fits.of_json(self._schema, content))

    def made(self, value: Any) -> Any:
        """Convert a value of the application. Raises `SchemaContentError` if it does not match the schema."""
        try:
            return self._fit(value)
        except Misfit as error:
            where = f": {shown(error.where)}" if error.path else ""
            raise SchemaContentError(f"the value does not match its Avro schema{where}", shown(error.reason)) from None
        except RecursionError:
            raise SchemaContentError("the value is nested too deeply, or contains itself") from None


class _Fits:
    """Builds the functions that check and convert values, one for each type of a schema."""

    def __init__(self, named: dict[str, Any], *, names_branches: bool) -> None:
        self._named = named
        self._records: dict[str, Fit] = {}
        self._content_of = partial(content_of, keep_classes=names_branches)
        self.quick = QuickLooks(named, self._plain_default)

    def fit(self, schema: Any) -> Fit:
        """Return the function for a type. The function raises `Misfit`."""
        schema = settled(schema, self._named)
        if isinstance(schema, list):
            return self._union(schema)
        if schema["type"] in ("record", "error"):
            return self._record(schema)
        return self._opening(self._one(schema))

    def _one(self, schema: dict[str, Any]) -> Fit:
        kind = schema["type"]
        limits = decimal_of(schema)
        if limits is not None:
            return lambda value: decimal_bytes(value, limits, schema.get("size"))
        if kind == "array":
            return self._array(schema)
        if kind == "map":
            return self._map(schema)
        if kind == "enum":
            return lambda value: symbol(value, schema)
        if kind == "fixed":
            is_uuid = schema.get("logicalType") == "uuid" and schema["size"] == UUID_SIZE
            return lambda value: (fixed_uuid if is_uuid else fixed)(value, schema)
        logical = LOGICAL.get((kind, schema.get("logicalType")))
        if logical is not None:
            return lambda value: logical(value, schema["logicalType"], kind)
        return PLAIN[kind] if kind not in INTEGERS else lambda value: integer(value, kind)

    def _opening(self, fit: Fit) -> Fit:
        """Extend a function to accept models, enum members and numpy numbers with matching content."""

        def opened(value: Any) -> Any:
            try:
                return fit(value)
            except Misfit:
                inner = value.value if isinstance(value, Enum) else self._content_of(value)
                if inner is None or inner is value:
                    raise
            return fit(inner)

        return opened

    # --- nested types ---

    def _array(self, schema: dict[str, Any]) -> Fit:
        each = self.fit(schema["items"])

        def fit(value: Any) -> list[Any]:
            if hasattr(value, "dtype") and hasattr(value, "tolist"):
                value = value.tolist()  # a numpy array
            if isinstance(value, (Mapping, *_TEXT)) or not isinstance(value, (Collection, array.array)):
                raise misfit(value, "an array")
            made: list[Any] = []
            for item in value:
                with _At(f"[{len(made)}]"):
                    made.append(each(item))
            return made

        return fit

    def _map(self, schema: dict[str, Any]) -> Fit:
        each = self.fit(schema["values"])

        def fit(value: Any) -> dict[str, Any]:
            if not isinstance(value, Mapping):
                raise misfit(value, "a map")
            made = {}
            for key, item in value.items():
                with _At(f"[{key!r:.50}]"):
                    made[string(key)] = each(item)
            return made

        return fit

    def _record(self, schema: dict[str, Any]) -> Fit:
        """Return the function for a record type, which may contain itself."""
        full_name: str = schema["name"]
        known = self._records.get(full_name)
        if known is not None:
            return known
        fields: list[tuple[str, Fit, Any]] = []
        names = {field["name"] for field in schema["fields"]}

        def fit(value: Any) -> dict[str, Any]:
            content = value if isinstance(value, Mapping) else self._content_of(value)
            if not isinstance(content, Mapping):
                raise misfit(value, f"a record {full_name}")
            made = {}
            for name, each, default in fields:
                with _At(f".{name}"):
                    if name in content:
                        made[name] = each(content[name])
                    elif default is None:
                        raise Misfit(f"the field is missing, and {full_name} has no default for it")
                    else:
                        made[name] = default()
            for name in content:
                if name not in names and not (name == _HINT and _names(content[name], full_name)):
                    raise Misfit(f"{full_name} has no field {name!r:.100}")
            return made

        self._records[full_name] = fit
        for field in schema["fields"]:
            each = self.fit(field["type"])
            default = self._default(field["type"], field["default"], each) if "default" in field else None
            fields.append((field["name"], each, default))
        return fit

    # --- unions ---

    def _union(self, union: list[Any]) -> Fit:
        branches = [_Branch(each, self) for each in union]
        one = [branch for branch in branches if branch.name != "null"]
        nullable = len(one) < len(branches)

        def fit(value: Any) -> Any:
            if value is None and nullable:
                return None
            branch, content = _named_branch(branches, value)
            if branch is not None:
                return branch.name, branch.fit(content)
            if len(one) == 1:
                return one[0].name, one[0].fit(value)
            return _best(one, value)

        return fit

    # --- defaults ---

    def _default(self, schema: Any, default: Any, fit: Fit) -> Callable[[], Any]:
        """Return a function that creates the default of a field. The function works once all types are known."""

        def made() -> Any:
            return fit(self.of_json(schema, default))

        return made

    def _plain_default(self, schema: Any, default: Any) -> Any:
        """Return the JSON of a default. Raises ValueError if fastavro would not write it correctly."""
        if default is None or isinstance(default, (bool, int, float)) or default in ([], {}):
            return default
        kind = settled(schema, self._named)
        first = settled(kind[0], self._named) if isinstance(kind, list) else kind
        if isinstance(default, str) and first["type"] in ("string", "enum") and "logicalType" not in first:
            return default
        raise ValueError(default)

    def of_json(self, schema: Any, default: Any) -> Any:
        """Convert the JSON of a default to a value. In JSON, bytes and special floats are text."""
        schema = settled(schema, self._named)
        if isinstance(schema, list):
            for branch in schema:  # since Avro 1.12, a default may match any branch, not only the first
                made = self.of_json(branch, default)
                try:
                    self.fit(branch)(made)
                except Misfit:
                    continue
                return made
            return default
        kind = schema["type"]
        if isinstance(default, str):
            if kind in ("bytes", "fixed"):
                return default.encode("latin-1", "replace")
            return float(default) if kind in ("float", "double") and default.lower() in _NO_NUMBERS else default
        if isinstance(default, list) and kind == "array":
            return [self.of_json(schema["items"], item) for item in default]
        if isinstance(default, dict) and kind == "map":
            return {key: self.of_json(schema["values"], item) for key, item in default.items()}
        if isinstance(default, dict) and kind in ("record", "error"):
            types = {field["name"]: field["type"] for field in schema["fields"]}
            return {key: self.of_json(types.get(key, "null"), item) for key, item in default.items()}
        return default


_NO_NUMBERS = ("nan", "infinity", "-infinity", "inf", "-inf")


class _Branch:
    """One type of a union, and the data by which `AvroFit` decides whether a value fits it."""

    def __init__(self, given: Any, fits: _Fits) -> None:
        schema = settled(given, fits._named)
        kind = schema["type"]
        self.is_record = kind in ("record", "error")
        self.is_enum = kind == "enum"
        self.name: str = schema["name"] if self.is_record or kind in ("enum", "fixed") else kind
        self.fields = len(schema["fields"]) if self.is_record else 0
        self.rank = kind == "float"  # float is the last choice, because double keeps all digits
        self.is_plain = fits.quick.look(schema)
        self.fit = fits.fit(schema)


def _named_branch(branches: list[_Branch], value: Any) -> tuple[_Branch | None, Any]:
    """Return the branch that a value names, or None, and the content of the value.

    The name is in a pair, under the key `_HINT`, in a `NamedRecord`, or is the name of the value's class.
    """
    if isinstance(value, tuple):
        if len(value) == 2 and isinstance(value[0], str):
            found = _with_name(branches, value[0])
            if len(found) == 1:
                return found[0], value[1]
        if not any(branch.name == "array" for branch in branches):
            raise _no_branch(value[0] if value else "", branches)
        return None, value
    records = [branch for branch in branches if branch.is_record]
    if isinstance(value, NamedRecord):
        found = _with_name(records, value.record_name)
    elif isinstance(value, Mapping):
        found = _with_name(records, value.get(_HINT))
        if len(found) != 1 and _HINT in value:
            raise _no_branch(value[_HINT], branches)
    else:
        found = _with_name(records, type(value).__name__)
    return (found[0] if len(found) == 1 else None), value


def _with_name(branches: list[_Branch], name: Any) -> list[_Branch]:
    """Return the branches with this full name, otherwise the branches with this name in any namespace."""
    return [each for each in branches if each.name == name] or [each for each in branches if _names(name, each.name)]


def _no_branch(name: Any, branches: list[_Branch]) -> Misfit:
    found = _with_name(branches, name)
    if found:
        return Misfit(f"the union has several branches {name!r:.100}: {', '.join(each.name for each in found)}")
    return Misfit(f"the union has no branch {name!r:.100}")


def _names(given: Any, full_name: str) -> bool:
    """Return True if ``given`` is the full name of a type, or its name without the namespace."""
    return isinstance(given, str) and (given == full_name or given == full_name.rpartition(".")[2])


def _best(branches: list[_Branch], value: Any) -> tuple[str, Any]:
    """Choose the branch for a value, and return its name and the converted value.

    A branch that accepts the value unchanged takes precedence over branches that need a conversion. Among several, the
    first branch is chosen, or among records the record with the fewest fields.
    """
    plain = [branch for branch in branches if branch.is_plain(value)]
    if plain:
        branch = min(plain, key=lambda each: (each.rank, each.fields if plain[0].is_record else 0))
        return branch.name, value
    found: list[tuple[_Branch, Any]] = []
    misfits = []
    for branch in branches:
        try:
            found.append((branch, branch.fit(value)))
        except Misfit as error:
            misfits.append(f"{branch.name} ({error})")
    if not found:
        raise Misfit(f"it matches no branch of the union: {'; '.join(misfits)}")
    if isinstance(value, Enum):
        found = [each for each in found if each[0].is_enum] or found
    branch, content = min(found, key=lambda each: (each[0].rank, each[0].fields if found[0][0].is_record else 0))
    return branch.name, content


class _At:
    """In the block, add a step to the path of any `Misfit`, so that the error names the place of the value."""

    __slots__ = ("_step",)

    def __init__(self, step: str) -> None:
        self._step = step

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, Misfit):
            error.path.append(self._step)
