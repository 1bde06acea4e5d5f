"""Converts the application's values to JSON values without loss."""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any

from ..errors import SchemaContentError
from ..errors.shown import shown, start_of
from .values import content_of

__all__ = ["jsonable"]

_AS_THEY_ARE = (str, bool, int)

_NO_NUMBER = "JSON has no such number"

_WHOLE_DIGITS = 18
"""Maximum number of digits of a `Decimal` that becomes an integer: any client can read it."""


def jsonable(value: Any) -> Any:
    """Return dicts, lists, str, numbers and None. Raises `SchemaContentError` for a value that JSON would change.

    Times become ISO 8601, UUIDs texts, and a Decimal a number if a float has the same digits.
    """
    try:
        return _jsonable(value, "$")
    except RecursionError:
        raise SchemaContentError("the value is too deep to be written, or holds itself") from None


def _jsonable(value: Any, path: str) -> Any:
    if value is None or type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return _jsonable(value.value, path)
    if isinstance(value, Mapping):
        members = {}
        for name, inner in value.items():
            if not isinstance(name, str):
                raise _refused(path, name, "a member's name must be a str")
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
            raise _refused(path, value, "a number of JSON is read as a float, which does not hold it")
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
        for inner in value:  # and not a comprehension, which would be one frame more
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
