"""Record with aiokafka's attributes, which wraps a record of `aiokafka_lead`.

This module is performance-critical. It is compiled with ``read_record.pxd`` if a compiler is available, and otherwise
runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ..._cpython import collector
from ..structs import ConsumerRecord

__all__ = ["Converter"]

Deserializer = Callable[[bytes | None], Any]

_dataclass: Any = ConsumerRecord
_NAMES = tuple(field.name for field in fields(ConsumerRecord))
_OWN = frozenset(("_attributes", "_key", "_native", "_value"))


class ReadRecord:
    """Replacement for the dataclass `ConsumerRecord` that is much faster to create.

    Its attributes come from the wrapped record until the application sets an attribute or reads ``__dict__``. After
    that, they come from ``__dict__``.
    """

    __slots__ = ("_attributes", "_key", "_native", "_value")

    __dataclass_fields__ = ConsumerRecord.__dataclass_fields__

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        """`ConsumerRecord`, for ``isinstance(record, ConsumerRecord)`` and ``dataclasses.replace``."""
        return ConsumerRecord

    @property
    def topic(self) -> Any:
        """Topic of the record."""
        return self._native.topic if self._attributes is None else self._attributes["topic"]

    @property
    def partition(self) -> Any:
        """Partition of the record."""
        return self._native.partition if self._attributes is None else self._attributes["partition"]

    @property
    def offset(self) -> Any:
        """Offset of the record."""
        return self._native.offset if self._attributes is None else self._attributes["offset"]

    @property
    def timestamp(self) -> Any:
        """Timestamp in milliseconds since 1970."""
        return self._native.timestamp_ms if self._attributes is None else self._attributes["timestamp"]

    @property
    def timestamp_type(self) -> Any:
        """0 if the producer set the timestamp, 1 if the broker did."""
        return int(self._native.timestamp_type) if self._attributes is None else self._attributes["timestamp_type"]

    @property
    def key(self) -> Any:
        """Deserialized key."""
        return self._key if self._attributes is None else self._attributes["key"]

    @property
    def value(self) -> Any:
        """Deserialized value."""
        return self._value if self._attributes is None else self._attributes["value"]

    @property
    def checksum(self) -> Any:
        """None: records have no checksum since message format 2."""
        return None if self._attributes is None else self._attributes["checksum"]

    @property
    def serialized_key_size(self) -> Any:
        """Size of the key in bytes; -1 without a key."""
        return _size(self._native.key) if self._attributes is None else self._attributes["serialized_key_size"]

    @property
    def serialized_value_size(self) -> Any:
        """Size of the value in bytes; -1 without a value."""
        return _size(self._native.value) if self._attributes is None else self._attributes["serialized_value_size"]

    @property
    def headers(self) -> Any:
        """Pairs of a name and bytes."""
        return self._native.headers if self._attributes is None else self._attributes["headers"]

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """All attributes, which may be changed."""
        return _attributes(self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:  # compiled classes set these attributes without calling this method
            object.__setattr__(self, name, value)
        else:
            _attributes(self)[name] = value

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that the application has added."""
        if name not in _OWN and self._attributes is not None and name in self._attributes:
            return self._attributes[name]
        raise AttributeError(f"'ConsumerRecord' object has no attribute {name!r}")

    def __eq__(self, other: object) -> bool:
        return _dataclass.__eq__(self, other)  # type: ignore[no-any-return]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return _dataclass.__repr__(self)  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[type[ConsumerRecord[Any, Any]], tuple[Any, ...]]:
        return ConsumerRecord, tuple([getattr(self, name) for name in _NAMES])


def _attributes(record: ReadRecord) -> dict[str, Any]:
    if record._attributes is None:
        record._attributes = {name: getattr(record, name) for name in _NAMES}
    attributes: dict[str, Any] = record._attributes
    return attributes


def _size(content: Any) -> int:
    return -1 if content is None else len(content)


def _read(native: Any, key: Any, value: Any) -> ReadRecord:
    record = ReadRecord.__new__(ReadRecord)
    record._native = native
    record._key = key
    record._value = value
    record._attributes = None
    return record


class Converter:
    """Converts records of `aiokafka_lead` to `ReadRecord`.

    As in aiokafka, deserializers are called for every key and value, including None.
    """

    __slots__ = ("_key_deserializer", "_plain", "_value_deserializer")

    def __init__(self, key_deserializer: Deserializer | None, value_deserializer: Deserializer | None) -> None:
        self._key_deserializer = key_deserializer
        self._value_deserializer = value_deserializer
        self._plain = key_deserializer is None and value_deserializer is None

    def one(self, native: Any) -> Any:
        """Convert a record. Raises the errors of deserializers."""
        key, value = native.key, native.value
        if self._plain:
            record = _read(native, key, value)
            collector.untrack(record)
            return record
        if self._key_deserializer is not None:
            key = self._key_deserializer(key)
        if self._value_deserializer is not None:
            value = self._value_deserializer(value)
        return _read(native, key, value)

    def many(self, natives: list[Any]) -> list[Any]:
        """Convert several records. Raises the errors of deserializers."""
        return [self.one(native) for native in natives]
