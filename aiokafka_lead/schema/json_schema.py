"""Reader and writer of JSON with a JSON Schema, using the package jsonschema (the ``jsonschema`` extra)."""

from __future__ import annotations

import datetime
import decimal
import importlib
import json
import logging
import math
import re
import uuid
from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any

from .._options.checks import boolean
from ..errors import ConfigError, InvalidSchemaError, SchemaContentError
from ..errors.shown import shown, some_of, start_of
from .patterns import with_python_patterns
from .types import ResolvedSchema, Schema, SchemaSource
from .values import content_of, is_deeper, is_model_class

_log = logging.getLogger("aiokafka_lead.schema")

_AS_THEY_ARE = (str, bool, int)

_NO_NUMBER = "JSON has no such number"

_WHOLE_DIGITS = 18
"""Maximum number of digits of a `Decimal` that becomes an integer. Other clients may not read larger integers."""


def jsonable(value: Any) -> Any:
    """Convert a value to dicts, lists, str, numbers and None.

    Times become ISO 8601, UUIDs become text, and a Decimal becomes a number if a float can represent it exactly. Raises
    `SchemaContentError` for a value that JSON cannot represent.
    """
    try:
        return _jsonable(value, "$")
    except RecursionError:
        raise SchemaContentError("the value is nested too deeply, or contains itself") from None


def _jsonable(value: Any, path: str) -> Any:
    """Convert a value to types of JSON.

    Raises an error that names ``path`` if a reader would not get the same value.
    """
    if value is None or type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return _jsonable(value.value, path)
    if isinstance(value, Mapping):
        members = {}
        for name, inner in value.items():
            if not isinstance(name, str):
                raise _refused(path, name, "the key of a dict must be a str")
            members[str.__str__(name)] = _jsonable(inner, f"{path}.{name}")
        return members
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return _number(value, path)
    if isinstance(value, decimal.Decimal):
        if not value.is_finite():
            raise _refused(path, value, _NO_NUMBER)
        exponent = value.as_tuple().exponent
        whole = isinstance(exponent, int) and exponent >= 0 and value.adjusted() < _WHOLE_DIGITS
        made = int(value) if whole else float(value)
        if decimal.Decimal(repr(made)) != value:
            raise _refused(path, value, "JSON numbers are read as floats, which cannot represent it")
        return _number(made, path)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    content = content_of(value, for_json=True)
    if content is not None:
        return _jsonable(content, path)
    if isinstance(value, Collection) and not isinstance(value, (bytes, bytearray, memoryview)):
        items: list[Any] = []
        for inner in value:  # not a comprehension, which needs another stack frame for each level
            items.append(_jsonable(inner, f"{path}[{len(items)}]"))
        return items
    raise _refused(path, value, "JSON has no such value")


def _number(value: float, path: str) -> float:
    if isinstance(value, int):
        return int(value)
    if not math.isfinite(value):
        raise _refused(path, value, _NO_NUMBER)
    return float(value)


def _refused(path: str, value: Any, reason: str) -> SchemaContentError:
    return SchemaContentError(f"the value cannot be written as JSON at {path}", f"{shown(start_of(value))}: {reason}")


try:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import SchemaError, ValidationError
    from jsonschema.validators import Draft7Validator, extend, validator_for
    from referencing import Registry
    from referencing.exceptions import NoSuchResource, Unresolvable
    from referencing.jsonschema import DRAFT7
except ImportError:
    raise ConfigError("JSON Schema needs jsonschema; install with: pip install 'aiokafka-lead[jsonschema]'") from None

SPECIFICATIONS: Any = importlib.import_module("jsonschema_specifications").REGISTRY  # it has no type annotations


def _formats() -> FormatChecker:
    """Return a checker of the formats that all libraries define equally. Times need no time zone, as in pydantic."""
    checker = FormatChecker(("date", "ipv4", "ipv6", "uuid"))

    def is_date_time(value: object) -> bool:
        return not isinstance(value, str) or (len(value) > 10 and bool(datetime.datetime.fromisoformat(value)))

    def is_time(value: object) -> bool:
        return not isinstance(value, str) or datetime.time.fromisoformat(value) is not None

    checker.checks("date-time", raises=ValueError)(is_date_time)
    checker.checks("time", raises=ValueError)(is_time)
    return checker


_FORMATS = _formats()


class _Validator:
    """Validates parsed JSON against a schema.

    With ``strict``, it also checks the ``format`` of strings, and raises `InvalidSchemaError` for a pattern that it
    cannot check.
    """

    def __init__(self, resolved: ResolvedSchema, *, strict: bool) -> None:
        self._patterns: dict[str, str] = {}
        """Originals of patterns converted for Python, by converted pattern."""
        self.unchecked: list[str] = []
        """Patterns that this client cannot check."""
        try:
            schema = json.loads(resolved.schema.text)
            kind = _checked(schema)
            parts = {name: self._resource(json.loads(each.text), kind) for name, each in resolved.references}
            schema = self._with_patterns(schema)
            if isinstance(schema, dict):
                schema.pop("$schema", None)  # otherwise jsonschema uses another validator for a reference to the root
        except (SchemaError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidSchemaError(f"invalid JSON Schema: {shown(str(error))}") from None
        if strict and self.unchecked:
            text = f"the JSON Schema has a pattern that this client cannot check: {shown(self.unchecked[0])}"
            raise InvalidSchemaError(f"{text}; validate=False writes values without checks")
        formats = _FORMATS if strict else None
        self._validator = _exact(kind)(schema, registry=_registry(parts), format_checker=formats)

    def _with_patterns(self, schema: Any) -> Any:
        made, changed, unchecked = with_python_patterns(schema)
        self._patterns |= changed
        self.unchecked += unchecked
        return made

    def _resource(self, schema: Any, kind: Any) -> Any:
        """Return a referenced schema. If it has the same draft, the same validator checks it."""
        own_kind = _checked(schema)
        specification = DRAFT7.detect(schema)
        if isinstance(schema, dict) and own_kind is kind:
            schema = {name: inner for name, inner in schema.items() if name != "$schema"}
        return specification.create_resource(self._with_patterns(schema))

    def check(self, content: Any, what: str) -> None:
        """Raise `SchemaContentError` for the first mismatch. Its message begins with ``what``."""
        try:
            found = next(self._validator.iter_errors(content), None)
        except (Unresolvable, re.error) as error:
            raise InvalidSchemaError(f"the JSON Schema cannot be used: {shown(str(error))}") from None
        except RecursionError:
            if is_deeper(content, _SHALLOW):
                raise SchemaContentError(f"{what}: it is nested too deeply to be checked") from None
            raise InvalidSchemaError("the JSON Schema cannot be used, because it refers to itself endlessly") from None
        except (ArithmeticError, ValueError) as error:  # NaN, with ``multipleOf``
            raise SchemaContentError(f"{what}: it cannot be checked: {shown(str(error))}") from None
        if found is not None:
            message = found.message
            if found.validator == "pattern" and found.validator_value in self._patterns:
                message = f"{found.instance!r} does not match {self._patterns[found.validator_value]!r}"
            raise SchemaContentError(f"{what} at {found.json_path}", shown(message))


def _checked(schema: Any) -> Any:
    """Return the validator for a schema's draft. Raises the errors of an invalid schema."""
    kind: Any = validator_for(schema, default=Draft7Validator)
    # Without the check of regular expressions, which `_Validator._with_patterns` makes.
    kind.check_schema(schema, format_checker=FormatChecker(()))
    return kind


@cache
def _exact(kind: Any) -> Any:
    """Return a validator that checks ``multipleOf`` with exact decimals, like Java.

    As floats, 19.99 is not a multiple of 0.01.
    """

    def multiple_of(validator: Any, divisor: Any, value: Any, _schema: Any) -> Iterator[ValidationError]:
        if not validator.is_type(value, "number"):
            return
        if type(value) is type(divisor) is int:
            rest: Any = value % divisor
        else:
            rest = Fraction(repr(value)) % Fraction(repr(divisor))
        if rest:
            yield ValidationError(f"{value!r} is not a multiple of {divisor!r}")

    return extend(kind, {"multipleOf": multiple_of})


def _registry(parts: dict[str, Any]) -> Any:
    """Return a registry that finds references by name, even if a ``$ref`` is relative to an ``$id``."""

    missing: Any = NoSuchResource

    def retrieve(uri: str) -> Any:
        names = [name for name in parts if f"/{uri}".endswith("/" + name.removeprefix("./"))]
        if not names:
            raise missing(ref=uri)
        return parts[max(names, key=len)]

    registry: Any = Registry
    return SPECIFICATIONS.combine(registry(retrieve=retrieve).with_resources(parts.items()))


_SHALLOW = 20
"""Nesting of values at which a recursion error can only come from the schema."""


class JsonReader:
    """Reads JSON that was written with a schema. With ``validate``, checks it against the schema."""

    def __init__(self, writer: ResolvedSchema, *, validate: bool) -> None:
        self._validator = _Validator(writer, strict=False) if validate else None
        if self._validator is not None and self._validator.unchecked:
            text = "the JSON Schema %s has patterns that this client cannot check and ignores: %s"
            _log.warning(text, start_of(writer.schema.text), shown(some_of(self._validator.unchecked)))

    def read(self, content: bytes, at: int, indexes: bytes | None) -> Any:
        try:
            value = json.loads(content[at:])
        except (ValueError, RecursionError) as error:
            raise SchemaContentError(f"the bytes are not JSON: {shown(str(error))}") from error
        if self._validator is not None:
            self._validator.check(value, "the bytes do not match their JSON Schema")
        return value


class JsonWriter:
    """Writes values as JSON. With ``validate``, checks them against the schema."""

    indexes = b""

    def __init__(self, schema: ResolvedSchema, *, validate: bool) -> None:
        self._validator = _Validator(schema, strict=True) if validate else None

    def write(self, value: Any, before: bytes) -> bytes:
        content = jsonable(value)
        if self._validator is not None:
            self._validator.check(content, "the value does not match its JSON Schema")
        try:
            return before + json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SchemaContentError(f"the value cannot be written as JSON: {shown(str(error))}") from error


class JsonFormat:
    """The format of a serializer with a JSON Schema.

    The schema is a pydantic model, text, parsed JSON, or a `Schema`. None means the latest schema of the subject.
    """

    def __init__(self, given: Any, *, validate: bool) -> None:
        self._validate = boolean("validate", validate)
        self.schema = None if given is None else _schema(given)
        self.record_name = None
        if self.schema is not None:
            if not self.schema.references:
                # Raises an error for an invalid schema now, and not at first use.
                _Validator(ResolvedSchema(self.schema), strict=self._validate)
            self.record_name = _title(self.schema)

    def writer(self, resolved: ResolvedSchema) -> JsonWriter:
        if resolved.schema.type != "JSON":
            raise InvalidSchemaError(f"the latest schema of the subject has the type {resolved.schema.type}, not JSON")
        return JsonWriter(resolved, validate=self._validate)

    async def prepared(self, registry: SchemaSource, *, register: bool) -> Schema | None:
        return self.schema


def _title(schema: Schema) -> str | None:
    try:
        content = json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"invalid JSON Schema: {shown(str(error))}") from None
    return content.get("title") if isinstance(content, dict) else None


def _schema(given: Any) -> Schema:
    if isinstance(given, Schema):
        if given.type != "JSON":
            raise InvalidSchemaError(f"the schema must have the type JSON, not {given.type}")
        return given
    if is_model_class(given):
        return Schema(json.dumps(given.model_json_schema(by_alias=True, mode="serialization")), "JSON")
    if isinstance(given, str):
        return Schema(given, "JSON")
    try:
        return Schema(json.dumps(given), "JSON")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"invalid JSON Schema: {shown(str(error))}") from None
