"""Avro writes only what fits: each value is looked at before fastavro writes it, which takes nearly anything.

`AvroFit` passes plain values after a quick look (`avro_quick`). For others it makes what fastavro writes rightly: of
models and dataclasses dicts, of enums their symbols, of a union's value a pair that names its branch; or it refuses
them, with the path of the field.
"""

from __future__ import annotations

import array
import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import partial
from typing import Any

from fastavro.read import LOGICAL_READERS

from ..errors import SchemaContentError
from ..errors.shown import shown
from .avro_quick import QuickLooks
from .avro_types import FLOAT_MAX, INTEGERS, DecimalType, decimal_of, has_many_records, named_of, settled
from .values import NamedRecord, content_of

__all__ = ["AvroFit"]

Fit = Callable[[Any], Any]

_HINT = "-type"
"""The key by which fastavro takes the name of a union's record."""

_TEXT = (str, bytes, bytearray, memoryview)


class _Misfit(Exception):
    """A value does not fit. ``path`` leads to it, from the inside out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str] = []

    def __str__(self) -> str:
        where = "".join(reversed(self.path)).removeprefix(".")
        return f"{where}: {self.args[0]}" if where else str(self.args[0])


class AvroFit:
    """Makes of values what fastavro writes by a schema."""

    def __init__(self, schema: Any) -> None:
        """``schema``: as fastavro parsed it."""
        fits = _Fits(named_of(schema), names_branches=has_many_records(schema))
        self._fit = fits.fit(schema)
        self.is_plain = fits.quick.look(schema)
        """Return True if fastavro writes the value as it is; False means no more than that care is needed."""

    def made(self, value: Any) -> Any:
        """What fastavro writes in place of the value. Raises `SchemaContentError` for what does not fit."""
        try:
            return self._fit(value)
        except _Misfit as misfit:
            raise SchemaContentError(f"the value does not fit its Avro schema: {shown(str(misfit))}") from None
        except RecursionError:
            raise SchemaContentError("the value is too deep to be written, or holds itself") from None


class _Fits:
    """Makes the functions that look with care, one for each type."""

    def __init__(self, named: dict[str, Any], *, names_branches: bool) -> None:
        self._named = named
        self._records: dict[str, Fit] = {}
        self._content_of = partial(content_of, keep_classes=names_branches)
        self.quick = QuickLooks(named, self._plain_default)

    def fit(self, schema: Any) -> Fit:
        """The function for a type; it raises `_Misfit`."""
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
            return lambda value: _decimal(value, limits, schema.get("size"))
        if kind == "array":
            return self._array(schema)
        if kind == "map":
            return self._map(schema)
        if kind == "enum":
            return lambda value: _symbol(value, schema)
        if kind == "fixed":
            return lambda value: _fixed(value, schema)
        logical = _LOGICAL.get((kind, schema.get("logicalType")))
        if logical is not None:
            return lambda value: logical(value, schema["logicalType"], kind)
        return _PLAIN[kind] if kind not in INTEGERS else lambda value: _integer(value, kind)

    def _opening(self, fit: Fit) -> Fit:
        """The same, also of what a model, an Enum or a number of numpy's stands for."""

        def opened(value: Any) -> Any:
            try:
                return fit(value)
            except _Misfit:
                inner = value.value if isinstance(value, Enum) else self._content_of(value)
                if inner is None or inner is value:
                    raise
            return fit(inner)

        return opened

    # --- what has others in it ---

    def _array(self, schema: dict[str, Any]) -> Fit:
        each = self.fit(schema["items"])

        def fit(value: Any) -> list[Any]:
            if hasattr(value, "dtype") and hasattr(value, "tolist"):
                value = value.tolist()  # numpy's
            if isinstance(value, (Mapping, *_TEXT)) or not isinstance(value, (Collection, array.array)):
                raise _misfit(value, "an array")
            made: list[Any] = []
            for item in value:
                with _at(f"[{len(made)}]"):
                    made.append(each(item))
            return made

        return fit

    def _map(self, schema: dict[str, Any]) -> Fit:
        each = self.fit(schema["values"])

        def fit(value: Any) -> dict[str, Any]:
            if not isinstance(value, Mapping):
                raise _misfit(value, "a map")
            made = {}
            for key, item in value.items():
                with _at(f"[{key!r:.50}]"):
                    made[_string(key)] = each(item)
            return made

        return fit

    def _record(self, schema: dict[str, Any]) -> Fit:
        full_name: str = schema["name"]
        known = self._records.get(full_name)
        if known is not None:
            return known
        fields: list[tuple[str, Fit, Any]] = []
        names = {field["name"] for field in schema["fields"]}

        def fit(value: Any) -> dict[str, Any]:
            content = value if isinstance(value, Mapping) else self._content_of(value)
            if not isinstance(content, Mapping):
                raise _misfit(value, f"a record {full_name}")
            made = {}
            for name, each, default in fields:
                with _at(f".{name}"):
                    if name in content:
                        made[name] = each(content[name])
                    elif default is None:
                        raise _Misfit(f"there is none, and {full_name} has no default for it")
                    else:
                        made[name] = default()
            for name in content:
                if name not in names and not (name == _HINT and _names(content[name], full_name)):
                    raise _Misfit(f"{full_name} has no field {name!r:.100}")
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
        """Makes a field's default, once the types that it is of are known."""

        def made() -> Any:
            return fit(self._of_json(schema, default))

        return made

    def _plain_default(self, schema: Any, default: Any) -> Any:
        """The default, if fastavro writes it rightly as JSON has it; else a ValueError."""
        if default is None or isinstance(default, (bool, int, float)) or default in ([], {}):
            return default
        kind = settled(schema, self._named)
        first = settled(kind[0], self._named) if isinstance(kind, list) else kind
        if isinstance(default, str) and first["type"] in ("string", "enum") and "logicalType" not in first:
            return default
        raise ValueError(default)

    def _of_json(self, schema: Any, default: Any) -> Any:
        """A default as a value: JSON has bytes as text, and numbers that are none."""
        schema = settled(schema, self._named)
        if isinstance(schema, list):
            for branch in schema:  # the first one, by Avro before 1.12; any that it fits, since
                made = self._of_json(branch, default)
                try:
                    self.fit(branch)(made)
                except _Misfit:
                    continue
                return made
            return default
        kind = schema["type"]
        if isinstance(default, str):
            if kind in ("bytes", "fixed"):
                return default.encode("latin-1", "replace")
            return float(default) if kind in ("float", "double") and default.lower() in _NO_NUMBERS else default
        if isinstance(default, list) and kind == "array":
            return [self._of_json(schema["items"], item) for item in default]
        if isinstance(default, dict) and kind == "map":
            return {key: self._of_json(schema["values"], item) for key, item in default.items()}
        if isinstance(default, dict) and kind in ("record", "error"):
            types = {field["name"]: field["type"] for field in schema["fields"]}
            return {key: self._of_json(types.get(key, "null"), item) for key, item in default.items()}
        return default


_NO_NUMBERS = ("nan", "infinity", "-infinity", "inf", "-inf")


class _Branch:
    """A branch of a union."""

    def __init__(self, given: Any, fits: _Fits) -> None:
        schema = settled(given, fits._named)
        kind = schema["type"]
        self.is_record = kind in ("record", "error")
        self.name: str = schema["name"] if self.is_record or kind in ("enum", "fixed") else kind
        self.fields = len(schema["fields"]) if self.is_record else 0
        self.rank = kind == "float"  # what fits a double, too, keeps its digits there
        self.is_plain = fits.quick.look(schema)
        self.fit = fits.fit(schema)


def _named_branch(branches: list[_Branch], value: Any) -> tuple[_Branch | None, Any]:
    """The branch that a value names, and its content: by a pair, a key, what it was read as, or its class."""
    if isinstance(value, tuple):
        if len(value) == 2 and isinstance(value[0], str):
            for branch in branches:
                if _names(value[0], branch.name):
                    return branch, value[1]
        if not any(branch.name == "array" for branch in branches):
            raise _Misfit(f"the union has no branch {value[0] if value else ''!r:.100}")
        return None, value
    if isinstance(value, NamedRecord):
        name: Any = value.record_name
    elif isinstance(value, Mapping):
        name = value.get(_HINT)
    else:
        name = type(value).__name__
    found = [branch for branch in branches if branch.is_record and _names(name, branch.name)]
    if not found and isinstance(value, Mapping) and _HINT in value and not isinstance(value, NamedRecord):
        raise _Misfit(f"the union has no branch {name!r:.100}")
    return (found[0] if len(found) == 1 else None), value


def _names(given: Any, full_name: str) -> bool:
    """Return True if this is a type's name, with or without its namespace."""
    return isinstance(given, str) and (given == full_name or given == full_name.rpartition(".")[2])


def _best(branches: list[_Branch], value: Any) -> tuple[str, Any]:
    """The first branch that the value fits as it is, else the first that it can be made to fit.

    Of records it is the one with the fewest fields that the value does not have.
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
        except _Misfit as misfit:
            misfits.append(f"{branch.name} ({misfit})")
    if not found:
        raise _Misfit(f"it fits no branch of the union: {'; '.join(misfits)}")
    branch, content = min(found, key=lambda each: (each[0].rank, each[0].fields if found[0][0].is_record else 0))
    return branch.name, content


# --- types without others in them ---


class _At:
    """Puts a step of the path in front of what goes wrong within."""

    __slots__ = ("_step",)

    def __init__(self, step: str) -> None:
        self._step = step

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if isinstance(error, _Misfit):
            error.path.append(self._step)


_at = _At


def _misfit(value: Any, wanted: str) -> _Misfit:
    return _Misfit(f"{value!r:.80} ({type(value).__name__}) is not {wanted}")


def _null(value: Any) -> None:
    if value is not None:
        raise _misfit(value, "null")


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _misfit(value, "a boolean")
    return value


def _integer(value: Any, kind: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _misfit(value, f"an integer ({kind})")
    low, high = INTEGERS[kind]
    if not low <= value <= high:
        raise _misfit(value, f"within the {kind}'s range, {low} to {high}")
    return int(value)


def _double(value: Any) -> float:
    if isinstance(value, float):
        return float(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _misfit(value, "a number")
    try:
        made = float(value)
    except OverflowError:
        raise _misfit(value, "within a double's range") from None
    if made != value:
        raise _misfit(value, "a whole number that a double can hold")
    return made


def _float(value: Any) -> float:
    made = _double(value)
    if math.isfinite(made) and abs(made) > FLOAT_MAX:
        raise _misfit(value, "within a float's range")
    if isinstance(value, int) and array.array("f", [made])[0] != value:
        raise _misfit(value, "a whole number that a float can hold")
    return made


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise _misfit(value, "bytes")
    return bytes(value)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _misfit(value, "a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _misfit(value, "text that UTF-8 can hold") from None
    return str.__str__(value)


def _fixed(value: Any, schema: dict[str, Any]) -> bytes:
    content = _bytes(value)
    if len(content) != schema["size"]:
        raise _misfit(value, f"{schema['size']} bytes long, but {len(content)}")
    return content


def _symbol(value: Any, schema: dict[str, Any]) -> str:
    tried = (value.value, value.name) if isinstance(value, Enum) else (value,)
    for each in tried:
        if isinstance(each, str) and each in schema["symbols"]:
            return str.__str__(each)
    raise _misfit(value, f"a symbol of {schema['name']} ({', '.join(schema['symbols']):.200})")


def _decimal(value: Any, limits: DecimalType, size: int | None) -> bytes:
    """The bytes, which fastavro passes on."""
    if isinstance(value, (bytes, bytearray)) and value:
        unscaled = int.from_bytes(value, "big", signed=True)
    else:
        if isinstance(value, int) and not isinstance(value, bool):
            value = decimal.Decimal(value)
        if not isinstance(value, decimal.Decimal) or not value.is_finite():
            raise _misfit(value, "a decimal")
        if value and not -limits.scale <= value.adjusted() < limits.precision - limits.scale:
            raise _misfit(value, f"within {limits.precision} digits, {limits.scale} of them decimals")
        numerator, denominator = value.as_integer_ratio() if value else (0, 1)
        unscaled, rest = divmod(numerator * 10**limits.scale, denominator)
        if rest:
            raise _misfit(value, f"without more than {limits.scale} decimals")
    if abs(unscaled) >= 10**limits.precision:
        raise _misfit(value, f"within {limits.precision} digits, {limits.scale} of them decimals")
    return unscaled.to_bytes((unscaled.bit_length() + 8) // 8 if size is None else size, "big", signed=True)


# --- logical types: counts are taken, too ---


def _instant(value: Any, logical: str, kind: str) -> Any:
    if not isinstance(value, datetime.datetime):
        return _count(value, logical, kind)
    if value.utcoffset() is None:
        raise _misfit(value, f"a {logical}: it has no time zone")
    try:
        return value.astimezone(datetime.UTC)
    except OverflowError:
        raise _misfit(value, f"within the range of a {logical}") from None


def _local(value: Any, logical: str, kind: str) -> Any:
    if not isinstance(value, datetime.datetime):
        return _count(value, logical, kind)
    if value.tzinfo is not None:
        raise _misfit(value, f"a {logical}: it has a time zone")
    return value


def _date(value: Any, logical: str, kind: str) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    return _count(value, logical, kind)


def _time(value: Any, logical: str, kind: str) -> Any:
    if not isinstance(value, datetime.time):
        return _count(value, logical, kind)
    if value.tzinfo is not None:
        raise _misfit(value, f"a {logical}: it has a time zone")
    return value


def _count(value: Any, logical: str, kind: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _misfit(value, f"a {logical}")
    count = _integer(value, kind)
    read: Any = LOGICAL_READERS[f"{kind}-{logical}"]
    try:
        read(count)
    except (OverflowError, ValueError):
        raise _misfit(value, f"a {logical} that can be read") from None
    return count


def _uuid(value: Any, _logical: str, _kind: str) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    try:
        return str(uuid.UUID(_string(value)))
    except ValueError:
        raise _misfit(value, "a UUID") from None


_PLAIN: dict[str, Fit] = {
    "null": _null,
    "boolean": _boolean,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}
_LOGICAL: dict[tuple[str, Any], Callable[[Any, str, str], Any]] = {
    ("long", "timestamp-millis"): _instant,
    ("long", "timestamp-micros"): _instant,
    ("long", "local-timestamp-millis"): _local,
    ("long", "local-timestamp-micros"): _local,
    ("int", "date"): _date,
    ("int", "time-millis"): _time,
    ("long", "time-micros"): _time,
    ("string", "uuid"): _uuid,
}
