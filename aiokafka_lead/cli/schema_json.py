"""Conversion of Avro and Protobuf values to JSON and back; see docs/cli.md, "Schemas"."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.util import find_spec
from inspect import signature
from typing import Any

from ..errors import SchemaContentError
from ..schema.values import NamedRecord
from .json_text import exact_json, read_json

_BRANCH = "-type"
"""Member with the record's name in a union of several records, as in fastavro. It is not a valid Avro field name."""

_DEFAULTS = "always_print_fields_with_no_presence"
_WELL_KNOWN = "google.protobuf"
"""Package of messages whose JSON may be a value other than an object."""

_NUMBERS = (int, float, Decimal)
_LARGEST_FLOAT = (2 - 2**-23) * 2.0**127
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def plain(value: Any) -> Any:
    """Return a value for JSON: bytes in base64, decimals as strings, times in ISO 8601, NaN and infinities by name."""
    if isinstance(value, dict):
        named = {_BRANCH: value.record_name} if isinstance(value, NamedRecord) else {}
        return named | {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return (
            value if math.isfinite(value) else next(name for name, each in _FLOATS.items() if repr(each) == repr(value))
        )
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if hasattr(value, "DESCRIPTOR"):
        return _of_message(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _of_message(message: Any) -> Any:
    """Return a message in Protobuf's JSON mapping, or field by field if that mapping cannot represent it.

    The mapping cannot represent a time beyond the year 9999, an ``Any`` of an unknown type, NaN in a ``Value``, a
    proto2 string that is not UTF-8, and the largest ``float``.
    """
    from google.protobuf.json_format import MessageToDict

    def whole(message: Any) -> Any:
        if _misshown(message):
            raise ValueError
        return MessageToDict(message, descriptor_pool=message.DESCRIPTOR.file.pool, **_json_options())

    try:
        return whole(message)
    except Exception:
        inner = [(field, content) for field, content in message.ListFields() if _holds_messages(field)]
    rest = type(message)()
    rest.CopyFrom(message)
    for field, _ in inner:
        rest.ClearField(field.name)
    shown = {field.name: _of_field(field, content) for field, content in inner}
    try:
        return whole(rest) | shown
    except Exception:
        return {field.name: _of_field(field, content) for field, content in rest.ListFields()} | shown


@cache
def _json_options() -> dict[str, Any]:
    from google.protobuf.json_format import MessageToDict

    options = {"preserving_proto_field_name": True}
    if _DEFAULTS in signature(MessageToDict).parameters:  # since protobuf 5.26
        options[_DEFAULTS] = True  # so that --where finds default values, which are not encoded
    return options


def _holds_messages(field: Any) -> bool:
    entry = _entry_of(field)
    return (field if entry is None else entry["value"]).message_type is not None


def _entry_of(field: Any) -> Any:
    """Return the fields of a map's entries, or None if the field is not a map."""
    kind = field.message_type
    return kind.fields_by_name if kind is not None and kind.GetOptions().map_entry else None


def _misshown(message: Any) -> bool:
    """Return True if ``MessageToDict`` would return the ``repr`` of bytes, or a float that ``Parse`` refuses."""
    return any(
        _misshown(each) if hasattr(each, "DESCRIPTOR") else _is_odd_text(part, each) or _is_largest(part, each)
        for field, content in message.ListFields()
        for part, each in _parts(field, content)
    )


def _is_largest(field: Any, content: Any) -> bool:
    """Return True if a ``float`` would be rounded up to 3.4028235e+38, which is out of its range."""
    return isinstance(content, float) and field.type == field.TYPE_FLOAT and abs(content) == _LARGEST_FLOAT


def _is_odd_text(field: Any, content: Any) -> bool:
    return isinstance(content, bytes) and field.type == field.TYPE_STRING


def _parts(field: Any, content: Any) -> Iterable[tuple[Any, Any]]:
    """Return each value in a repeated field or map, paired with its field descriptor."""
    if _is_single(content):
        return [(field, content)]
    entry = _entry_of(field)
    if entry is None:
        return [(field, each) for each in content]
    return [(entry["value"], each) for each in content.values()]


def _is_single(content: Any) -> bool:
    return isinstance(content, (str, bytes, int, float)) or hasattr(content, "DESCRIPTOR")


def _of_field(field: Any, content: Any) -> Any:
    if _is_single(content):
        return {"base64": plain(content)} if _is_odd_text(field, content) else plain(content)
    entry = _entry_of(field)
    if entry is None:
        return [_of_field(field, each) for each in content]
    values = {key: _of_field(entry["value"], each) for key, each in content.items()}
    return {str(key).lower() if isinstance(key, bool) else str(key): each for key, each in values.items()}


def message_of(text: str, kind: Any) -> Any:
    """Parse JSON into a Protobuf message of class ``kind``. Raises `SchemaContentError` if the JSON does not match."""
    from google.protobuf.json_format import Parse, ParseError

    if text.lstrip()[:1] in ("[", '"') and kind.DESCRIPTOR.file.package != _WELL_KNOWN:
        # Parse would accept an empty list as an empty message.
        raise SchemaContentError("a message must be a JSON object")
    try:
        return Parse(text, kind(), descriptor_pool=kind.DESCRIPTOR.file.pool)
    except ParseError as error:
        raise SchemaContentError(str(error)) from None


def keep_odd_times() -> None:
    """Configure fastavro, for the whole process, to return times beyond Python's range as numbers."""
    if find_spec("fastavro") is None:
        return
    from fastavro.read import LOGICAL_READERS

    for kind, logical in _LOGICAL:
        read = LOGICAL_READERS.get(f"{kind}-{logical}")
        if kind in ("int", "long") and read is not None and not isinstance(read, _OrNumber):
            LOGICAL_READERS[f"{kind}-{logical}"] = _OrNumber(read)


class _OrNumber:
    """Reader of a logical type that returns the number if it is out of range, for example beyond the year 9999."""

    def __init__(self, read: Callable[..., Any]) -> None:
        self._read = read

    def __call__(self, number: int, *schemas: Any) -> Any:
        try:
            return self._read(number, *schemas)
        except (OverflowError, ValueError):
            return number


class AvroJson:
    """Converter from JSON in the form of `plain` to values for Avro's writer, with a schema.

    In a union, the first matching branch is used, unless the JSON contains a record's name. With ``["bytes",
    "string"]``, a string that happens to be base64 therefore becomes bytes. If no branch matches, the JSON may name a
    branch as in Avro's JSON encoding, for example ``{"string": "x"}``.
    """

    def __init__(self, schema: Any, references: Iterable[Any] = ()) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        for each in (*references, schema):
            self._gather(each, "")

    def value(self, text: str) -> Any:
        """Return the value of a JSON text for Avro's writer, with all digits of decimals.

        A value that does not match the schema is returned as parsed, and the writer then raises an error with the
        reason. Raises ValueError if the text is not JSON.
        """
        try:
            return self._fit(exact_json(text), self._schema, "")
        except ValueError:
            return read_json(text)

    def _gather(self, schema: Any, space: str) -> None:
        """Collect the named types of a schema, each with its namespace."""
        if isinstance(schema, list):
            for each in schema:
                self._gather(each, space)
        if not isinstance(schema, dict):
            return
        kind = schema.get("type")
        if kind in ("record", "error", "enum", "fixed"):
            name = _full_name(schema["name"], _space(schema, space))
            space = name.rpartition(".")[0]
            self._named[name] = (schema, space)
            for field in schema.get("fields", ()):
                self._gather(field["type"], space)
        else:
            for part in (kind, schema.get("items"), schema.get("values")):
                self._gather(part, space)

    def _fit(self, found: Any, schema: Any, space: str) -> Any:
        """Convert a parsed value. Raises ValueError if it does not match the schema."""
        if isinstance(schema, list):
            return self._of_union(found, schema, space)
        if isinstance(schema, str):
            named = self._named.get(_full_name(schema, space))
            return self._of_kind(found, schema, {}) if named is None else self._fit(found, *named)
        kind = schema["type"]
        if kind in ("record", "error"):
            space = _full_name(schema["name"], _space(schema, space)).rpartition(".")[0]
            return self._of_record(found, schema["fields"], space)
        if kind == "array":
            return [self._fit(each, schema["items"], space) for each in _of(list, found)]
        if kind == "map":
            return {name: self._fit(each, schema["values"], space) for name, each in _of(dict, found).items()}
        if kind == "enum":
            return _must(found, found in schema["symbols"])
        if isinstance(kind, (dict, list)) or kind not in _KINDS:
            return self._fit(found, kind, space)
        return self._of_kind(found, kind, schema)

    def _of_union(self, found: Any, branches: list[Any], space: str) -> Any:
        """Convert JSON to a value of a union.

        The branch is the record that the JSON names. Otherwise, it is the first branch that fits, and then the branch
        named in Avro's own JSON encoding: an object with this name as its only key. Raises ValueError if none matches.
        """
        if isinstance(found, dict) and _BRANCH in found:
            fields = dict(found)
            wanted = fields.pop(_BRANCH)
            for branch in branches:
                name = _full_name(_own_name(branch), _space(branch, space))
                schema, _ = self._named.get(name, ({}, ""))
                if schema.get("type") in ("record", "error") and wanted in (name, schema["name"]):
                    return NamedRecord(name, self._fit(fields, branch, space))
        for branch in branches:
            try:
                return self._fit(found, branch, space)
            except ValueError:
                continue
        if isinstance(found, dict) and len(found) == 1:
            ((wanted, inner),) = found.items()
            for branch in branches:
                if wanted in _branch_names(branch, space):
                    return self._fit(inner, branch, space)
        raise ValueError("no branch of the union matches")

    def _of_record(self, found: Any, fields: list[Mapping[str, Any]], space: str) -> dict[str, Any]:
        given = dict(_of(dict, found))
        made = {}
        for field in fields:
            name = field["name"]
            if name in given:
                made[name] = self._fit(given.pop(name), field["type"], space)
            elif "default" not in field:
                raise ValueError(f"{name} is missing")
        _must(given, not given)
        return made

    @staticmethod
    def _of_kind(found: Any, kind: str, schema: Mapping[str, Any]) -> Any:
        logical = _LOGICAL.get((kind, schema.get("logicalType", "")))
        convert = logical or _KINDS.get(kind)
        return found if convert is None else convert(found)  # None if another schema defines this type


def _space(schema: Any, outer: str) -> str:
    """Return the namespace in which the names inside a type are resolved. ``outer`` is the one around the type."""
    return schema.get("namespace", outer) if isinstance(schema, dict) else outer


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _own_name(schema: Any) -> str:
    return schema if isinstance(schema, str) else schema.get("name", "")


def _branch_names(schema: Any, space: str) -> tuple[str, ...]:
    """Return the names by which Avro's JSON encoding may refer to a branch of a union."""
    if isinstance(schema, dict) and "name" not in schema:
        return (schema["type"],)
    own = _own_name(schema)
    return own, _full_name(own, _space(schema, space))


def _must(found: Any, fits: bool) -> Any:
    if not fits:
        raise ValueError(f"{found!r} does not match the schema")
    return found


def _of(kind: type[Any], found: Any) -> Any:
    return _must(found, isinstance(found, kind))


def _integer(found: Any) -> Any:
    return _must(found, isinstance(found, int) and not isinstance(found, bool))


def _float(found: Any) -> float:
    if isinstance(found, str) and found in _FLOATS:
        return _FLOATS[found]
    try:
        number = float(_must(found, isinstance(found, _NUMBERS) and not isinstance(found, bool)))
    except OverflowError:
        raise ValueError("it is too large") from None
    _must(found, math.isfinite(number) or isinstance(found, float))
    return number


def _bytes(found: Any) -> bytes:
    try:
        return base64.b64decode(_of(str, found), validate=True)
    except binascii.Error:
        raise ValueError("it is not base64") from None


def _decimal(found: Any) -> Decimal:
    _must(found, isinstance(found, (str, *_NUMBERS)) and not isinstance(found, bool))
    try:
        return Decimal(str(found))
    except InvalidOperation:
        raise ValueError("it is not a number") from None


def _or_number(convert: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda found: convert(found) if isinstance(found, str) else _integer(found)


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


_KINDS: dict[str, Callable[[Any], Any]] = {
    "null": lambda found: _must(found, found is None),
    "boolean": lambda found: _of(bool, found),
    "int": _integer,
    "long": _integer,
    "float": _float,
    "double": _float,
    "bytes": _bytes,
    "fixed": _bytes,
    "string": lambda found: _of(str, found),
}
_LOGICAL: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("int", "date"): _or_number(date.fromisoformat),
    ("int", "time-millis"): _or_number(time.fromisoformat),
    ("long", "time-micros"): _or_number(time.fromisoformat),
    ("long", "timestamp-millis"): _or_number(_moment),
    ("long", "timestamp-micros"): _or_number(_moment),
    ("long", "local-timestamp-millis"): _or_number(datetime.fromisoformat),
    ("long", "local-timestamp-micros"): _or_number(datetime.fromisoformat),
}
