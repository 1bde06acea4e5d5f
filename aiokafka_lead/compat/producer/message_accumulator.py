"""`BatchBuilder`: records that an application puts into a batch by hand.

Hot: this module is compiled through ``message_accumulator.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._cpython import clock
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
        builder: NativeBuilder,
        key_serializer: Callable[[Any], bytes] | None = None,
        value_serializer: Callable[[Any], bytes] | None = None,
    ) -> None:
        self.builder = builder
        """The batch as it is sent."""
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._closed = False

    def append(
        self, *, timestamp: int | None, key: Any, value: Any, headers: Sequence[Header] | None = ()
    ) -> BatchRecordMetadata | None:
        """Take a record, with a time in milliseconds (None: now). None if the batch is full, which closes it."""
        if self._closed:
            return None
        key_bytes = key if self._key_serializer is None else self._key_serializer(key)
        value_bytes = value if self._value_serializer is None else self._value_serializer(value)
        time_ms = clock.wall_ms() if timestamp is None else timestamp
        if type(time_ms) is not int:
            raise TypeError(f"timestamp must be an int, not {type(time_ms).__name__}")
        before = self.builder.size_bytes
        index = self.builder.append(time_ms, key_bytes, value_bytes, headers or None)
        if index < 0:
            self.close()
            return None
        metadata: BatchRecordMetadata = _new(BatchRecordMetadata, (index, self.builder.size_bytes - before, time_ms))
        return metadata

    def close(self) -> None:
        """Take no more records."""
        self._closed = True

    def closed(self) -> bool:
        """Whether it takes no more records."""
        return self._closed

    def size(self) -> int:
        """The batch's bytes, before compression."""
        return self.builder.size_bytes

    def record_count(self) -> int:
        """How many records it has."""
        return self.builder.record_count
