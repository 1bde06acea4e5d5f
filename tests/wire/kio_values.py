"""Values of kio's classes, drawn by Hypothesis from kio's own type hints, and the same values as messages of ours.

kio is an independent codec from PyPI; its own generator builds its classes from Kafka's schemas.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from functools import cache
from io import BytesIO
from types import UnionType
from typing import Any, Union, get_args, get_origin

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta, i64Timedelta

from aiokafka_lead._wire import ZERO_UUID, Struct, request_class
from aiokafka_lead._wire.compiler.source import fields_of, struct_class
from aiokafka_lead._wire.message import Field

_UTC = datetime.UTC
_MAX_SECONDS = int(datetime.datetime(9999, 12, 30, tzinfo=_UTC).timestamp())


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    """Return integers of a width, often its limits."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return st.sampled_from([0, 1, -1 if signed else 2, low, high]) | st.integers(low, high)


_RENAMED = {
    ("TxnOffsetCommitRequest", "generation_id"): "generation_id_or_member_epoch",
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "acceptable_recovery_lag_legacy",
}
"""Fields that Kafka has renamed since."""

_MILLISECOND = datetime.timedelta(milliseconds=1)
_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": integers(8),
    "int16": integers(16),
    "uint16": integers(16, signed=False),
    "int32": integers(32),
    "int64": integers(64),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(max_size=9) | st.sampled_from(["x" * 126, "y" * 127, "é" * 64, "z" * 16384]),
    "bytes": st.binary(max_size=9) | st.sampled_from([bytes(126), bytes(127), bytes(16383)]),
    "records": st.binary(max_size=9) | st.sampled_from([bytes(127), bytes(4095), bytes(4096), bytes(70000)]),
    "error_code": st.sampled_from(list(ErrorCode)),
    "uuid": st.uuids() | st.none(),
    "timedelta_i32": integers(32).map(lambda ms: i32Timedelta.parse(ms * _MILLISECOND)),
    # kio converts it to a float of seconds, which is exact up to here.
    "timedelta_i64": st.integers(-(2**40), 2**40).map(lambda ms: i64Timedelta.parse(ms * _MILLISECOND)),
    "datetime_i64": st.integers(0, _MAX_SECONDS).map(lambda s: datetime.datetime.fromtimestamp(s, _UTC)),
}


@cache
def instances(kio_class: type[Any]) -> st.SearchStrategy[Any]:
    """Return instances of one of kio's classes."""
    return st.builds(kio_class, **{field.name: _values(field) for field in dataclasses.fields(kio_class)})


def _values(field: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    kind: Any = field.type
    optional = False
    if get_origin(kind) in (UnionType, Union):
        optional = type(None) in get_args(kind)
        (kind,) = [arg for arg in get_args(kind) if arg is not type(None)]
    is_tuple = get_origin(kind) is tuple
    element = get_args(kind)[0] if is_tuple else kind
    if dataclasses.is_dataclass(element):
        values = instances(element)  # type: ignore[arg-type]
    else:
        values = _PRIMITIVES[field.metadata["kafka_type"]]
    if is_tuple:
        values = st.lists(values, max_size=2).map(tuple)
    return values | st.none() if optional else values


def versions_of_kio(key: int) -> list[int]:
    """Return the versions of an API that both kio and the client have; kio lacks the newest Kafka's."""
    if key not in api_key_map:
        return []
    return [version for version in schema_name_map[api_key_map[key]] if version <= request_class(key).MAX_VERSION]


def to_ours(value: Any, struct: type[Struct], version: int) -> Struct:
    """Return the same value as a message of ours. The fields must agree by name and order."""
    ours = [field for field in fields_of(struct) if version in field.versions]
    theirs = dataclasses.fields(value)
    arguments: dict[str, Any] = {}
    for field, kio_field in zip(ours, theirs, strict=True):
        name = _RENAMED.get((struct.__name__, kio_field.name), kio_field.name.rstrip("_"))
        assert field.name.removesuffix("_ms") == name.removesuffix("_ms")
        arguments[field.name] = _to_ours(getattr(value, kio_field.name), field, struct, version)
    return struct(**arguments)


def _to_ours(value: Any, field: Field, owner: type[Struct], version: int) -> Any:
    if isinstance(value, tuple):
        return [_to_ours(item, field, owner, version) for item in value]
    if dataclasses.is_dataclass(value):
        return to_ours(value, struct_class(owner, field.element), version)
    match value:
        case ErrorCode():
            return value.value
        case datetime.timedelta():
            return value // _MILLISECOND
        case datetime.datetime():
            return round(value.timestamp()) * 1000
        case None if field.element == "uuid":
            return ZERO_UUID
        case None if field.element == "int64":
            return -1
    return value


def kio_bytes(value: Any) -> bytes:
    """Return kio's encoding."""
    out = BytesIO()
    entity_writer(type(value))(out, value)
    return out.getvalue()


def kio_value(kio_class: type[Any], data: bytes) -> Any:
    """Return the value that kio reads from all of ``data``."""
    read: Callable[[bytes, int], tuple[Any, int]] = entity_reader(kio_class)
    value, size = read(data, 0)
    assert size == len(data)
    return value
