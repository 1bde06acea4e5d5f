"""Check and conversion of values of Avro types that contain no other types."""

from __future__ import annotations

import array
import datetime
import decimal
import math
import uuid
from collections.abc import Callable
from enum import Enum
from typing import Any

from fastavro.read import LOGICAL_READERS

from ..errors.shown import start_of
from .avro_bounds import FLOAT_MAX, INTEGERS, DecimalType


class Misfit(Exception):
    """A value does not match its type. ``path`` contains the steps to the value, innermost first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: list[str] = []

    @property
    def where(self) -> str:
        return "".join(reversed(self.path)).removeprefix(".")

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self.path else self.reason


def misfit(value: Any, wanted: str) -> Misfit:
    return Misfit(f"{start_of(value)} is not {wanted}")


def _null(value: Any) -> None:
    if value is not None:
        raise misfit(value, "null")


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise misfit(value, "a boolean")
    return value


def integer(value: Any, kind: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise misfit(value, f"an integer ({kind})")
    low, high = INTEGERS[kind]
    if not low <= value <= high:
        raise misfit(value, f"within the {kind}'s range, {low} to {high}")
    return int(value)


def _double(value: Any) -> float:
    if isinstance(value, float):
        return float(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise misfit(value, "a number")
    try:
        made = float(value)
    except OverflowError:
        raise misfit(value, "within a double's range") from None
    if made != value:
        raise misfit(value, "a whole number that a double can represent")
    return made


def _float(value: Any) -> float:
    made = _double(value)
    if math.isfinite(made) and abs(made) > FLOAT_MAX:
        raise misfit(value, "within a float's range")
    if isinstance(value, int) and array.array("f", [made])[0] != value:
        raise misfit(value, "a whole number that a float can represent")
    return made


def _bytes(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise misfit(value, "bytes")
    return bytes(value)


def string(value: Any) -> str:
    if not isinstance(value, str):
        raise misfit(value, "a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise misfit(value, "text that UTF-8 can represent") from None
    return str.__str__(value)


def fixed(value: Any, schema: dict[str, Any]) -> bytes:
    content = _bytes(value)
    if len(content) != schema["size"]:
        raise misfit(value, f"{schema['size']} bytes long, but {len(content)}")
    return content


UUID_SIZE = 16


def fixed_uuid(value: Any, schema: dict[str, Any]) -> bytes:
    """Return the bytes of a UUID, given as a UUID, as text, or as bytes (as in values that were read)."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return fixed(value, schema)
    return uuid.UUID(_uuid(value, "", "")).bytes


def symbol(value: Any, schema: dict[str, Any]) -> str:
    tried = (value.value, value.name) if isinstance(value, Enum) else (value,)
    for each in tried:
        if isinstance(each, str) and each in schema["symbols"]:
            return str.__str__(each)
    raise misfit(value, f"a symbol of {schema['name']} ({', '.join(schema['symbols']):.200})")


def decimal_bytes(value: Any, limits: DecimalType, size: int | None) -> bytes:
    """Return the unscaled value of a decimal as bytes, which fastavro writes unchanged.

    ``value`` is a Decimal, an int, or such bytes. ``size`` is the size of a fixed type, or None for other types.
    """
    if isinstance(value, (bytes, bytearray)) and value:
        unscaled = int.from_bytes(value, "big", signed=True)
    else:
        if isinstance(value, int) and not isinstance(value, bool):
            value = decimal.Decimal(value)
        if not isinstance(value, decimal.Decimal) or not value.is_finite():
            raise misfit(value, "a decimal")
        if value and not -limits.scale <= value.adjusted() < limits.precision - limits.scale:
            raise misfit(value, f"within {limits.precision} digits, {limits.scale} of them after the decimal point")
        numerator, denominator = value.as_integer_ratio() if value else (0, 1)
        unscaled, rest = divmod(numerator * 10**limits.scale, denominator)
        if rest:
            raise misfit(value, f"a number with at most {limits.scale} digits after the decimal point")
    if abs(unscaled) >= 10**limits.precision:
        raise misfit(value, f"within {limits.precision} digits, {limits.scale} of them after the decimal point")
    return unscaled.to_bytes((unscaled.bit_length() + 8) // 8 if size is None else size, "big", signed=True)


# --- logical types: they also accept plain integers, which are the encoded form ---


def _instant(value: Any, logical: str, kind: str) -> Any:
    if not isinstance(value, datetime.datetime):
        return _count(value, logical, kind)
    if value.utcoffset() is None:
        raise misfit(value, f"a {logical}: it has no time zone")
    try:
        return value.astimezone(datetime.UTC)
    except OverflowError:
        raise misfit(value, f"within the range of a {logical}") from None


def _local(value: Any, logical: str, kind: str) -> Any:
    if not isinstance(value, datetime.datetime):
        return _count(value, logical, kind)
    if value.tzinfo is not None:
        raise misfit(value, f"a {logical}: it has a time zone")
    return value


def _nanos(value: Any, logical: str, kind: str) -> int:
    """Return a time in nanoseconds. fastavro does not support these types and writes the number unchanged."""
    if not isinstance(value, datetime.datetime):
        return integer(value, kind)
    made = (_instant if logical == "timestamp-nanos" else _local)(value, logical, kind)
    count = (made.replace(tzinfo=None) - _EPOCH) // _MICROSECOND * 1000
    low, high = INTEGERS[kind]
    if not low <= count <= high:
        raise misfit(value, f"within the range of a {logical}")
    return int(count)


def _date(value: Any, logical: str, kind: str) -> Any:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    return _count(value, logical, kind)


def _time(value: Any, logical: str, kind: str) -> Any:
    if not isinstance(value, datetime.time):
        return _count(value, logical, kind)
    if value.tzinfo is not None:
        raise misfit(value, f"a {logical}: it has a time zone")
    return value


_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def _count(value: Any, logical: str, kind: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise misfit(value, f"a {logical}")
    count = integer(value, kind)
    read: Any = LOGICAL_READERS[f"{kind}-{logical}"]
    try:
        read(count)
    except (OverflowError, ValueError):
        raise misfit(value, f"a {logical} that can be read") from None
    return count


def _uuid(value: Any, _logical: str, _kind: str) -> str:
    if isinstance(value, uuid.UUID):
        return str(value)
    try:
        return str(uuid.UUID(string(value)))
    except ValueError:
        raise misfit(value, "a UUID") from None


PLAIN: dict[str, Callable[[Any], Any]] = {
    "null": _null,
    "boolean": _boolean,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": string,
}
LOGICAL: dict[tuple[str, Any], Callable[[Any, str, str], Any]] = {
    ("long", "timestamp-millis"): _instant,
    ("long", "timestamp-micros"): _instant,
    ("long", "local-timestamp-millis"): _local,
    ("long", "local-timestamp-micros"): _local,
    ("long", "timestamp-nanos"): _nanos,
    ("long", "local-timestamp-nanos"): _nanos,
    ("int", "date"): _date,
    ("int", "time-millis"): _time,
    ("long", "time-micros"): _time,
    ("string", "uuid"): _uuid,
}
