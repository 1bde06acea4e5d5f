"""`BatchBuilder`: records that an application puts into a batch by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._cpython.clock import wall_ms
from ..._records.encoder import BatchBuilder as NativeBuilder
from ...types import Header

__all__ = ["BatchBuilder", "BatchRecordMetadata"]

_new: Any = tuple.__new__


class BatchRecordMetadata(NamedTuple):
    """What a batch says of a record that it has taken."""

    offset: int
    size: int
    timestamp: int

    @property
    def crc(self) -> None:
        """None: records of this format have no checksum of their own."""


class BatchBuilder:
    """Takes records until it is full or closed; `AIOKafkaProducer.send_batch` sends them."""

    def __init__(
        self,
        batch_size: int,
        key_serializer: Callable[[Any], bytes] | None = None,
        value_serializer: Callable[[Any], bytes] | None = None,
    ) -> None:
        self._measure = NativeBuilder(batch_size=batch_size)
        """The batch as it would be sent, for its size."""
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._closed = False
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: list[Sequence[Header]] = []
        self.timestamps_ms: list[int] = []

    def append(
        self, *, timestamp: int | None, key: Any, value: Any, headers: Sequence[Header] | None = ()
    ) -> BatchRecordMetadata | None:
        """Take a record, with a time in milliseconds (None: now). None if the batch is full, which closes it."""
        if self._closed:
            return None
        key_bytes = key if self._key_serializer is None else self._key_serializer(key)
        value_bytes = value if self._value_serializer is None else self._value_serializer(value)
        time_ms = wall_ms() if timestamp is None else timestamp
        if type(time_ms) is not int:
            raise TypeError(f"timestamp must be an int, not {type(time_ms).__name__}")
        before = self._measure.size_bytes
        index = self._measure.append(time_ms, key_bytes, value_bytes, headers or None)
        if index < 0:
            self.close()
            return None
        self.keys.append(key_bytes)
        self.values.append(value_bytes)
        self.headers.append(headers or ())
        self.timestamps_ms.append(time_ms)
        metadata: BatchRecordMetadata = _new(BatchRecordMetadata, (index, self._measure.size_bytes - before, time_ms))
        return metadata

    def close(self) -> None:
        """Take no more records."""
        self._closed = True

    def closed(self) -> bool:
        """Whether it takes no more records."""
        return self._closed

    def size(self) -> int:
        """The batch's bytes, before compression."""
        return self._measure.size_bytes

    def record_count(self) -> int:
        """How many records it has."""
        return len(self.keys)
