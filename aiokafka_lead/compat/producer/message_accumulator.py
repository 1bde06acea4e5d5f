"""`BatchBuilder`, a batch that an application fills.

This module is performance-critical. It is compiled with ``message_accumulator.pxd`` if a compiler is available, and
otherwise runs as plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..._cpython import clock
from ..._records.encoder import BatchBuilder as NativeBuilder
from ...types import Header

__all__ = ["BatchBuilder", "BatchRecordMetadata"]


class BatchRecordMetadata:
    """Metadata of a record in a batch."""

    __slots__ = ("offset", "size", "timestamp")

    def __init__(self, offset: int, size: int, timestamp: int) -> None:
        self.offset = offset
        """Index of the record in the batch."""
        self.size = size
        """Size of the record in bytes, before compression."""
        self.timestamp = timestamp
        """Timestamp in milliseconds since 1970."""

    @property
    def crc(self) -> None:
        """None: records of message format 2 have no checksum."""

    def __repr__(self) -> str:
        return f"BatchRecordMetadata(offset={self.offset}, size={self.size}, timestamp={self.timestamp})"


class BatchBuilder:
    """Batch that an application fills with records and passes to `AIOKafkaProducer.send_batch`."""

    def __init__(
        self,
        builder: NativeBuilder,
        key_serializer: Callable[[Any], bytes] | None = None,
        value_serializer: Callable[[Any], bytes] | None = None,
    ) -> None:
        self.builder = builder
        """Native batch."""
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._closed = False

    def append(
        self, *, timestamp: float | None, key: Any, value: Any, headers: Sequence[Header] | None = ()
    ) -> BatchRecordMetadata | None:
        """Add a record, and return its metadata, or None if the batch is full or closed.

        ``timestamp`` is in milliseconds since 1970; None means now. A full batch is closed.
        """
        if self._closed:
            return None
        if timestamp is not None and type(timestamp) is not int:
            timestamp = math.trunc(timestamp)
        key_bytes = key if self._key_serializer is None else self._key_serializer(key)
        value_bytes = value if self._value_serializer is None else self._value_serializer(value)
        return self._append(clock.wall_ms() if timestamp is None else timestamp, key_bytes, value_bytes, headers)

    def _append(
        self, time_ms: int, key: Any, value: Any, headers: Sequence[Header] | None
    ) -> BatchRecordMetadata | None:
        builder = self.builder
        before = builder.size_bytes
        index = builder.append(time_ms, key, value, headers or None)
        if index < 0:
            self._closed = True
            return None
        metadata = BatchRecordMetadata.__new__(BatchRecordMetadata)  # faster than calling the class
        metadata.offset = index
        metadata.size = builder.size_bytes - before
        metadata.timestamp = time_ms
        return metadata

    def close(self) -> None:
        """Close the batch, so that it accepts no more records."""
        self._closed = True

    def closed(self) -> bool:
        """Return True if the batch is closed and accepts no more records."""
        return self._closed

    def size(self) -> int:
        """Return the size of the batch in bytes, before compression."""
        return self.builder.size_bytes

    def record_count(self) -> int:
        """Return the number of records."""
        return self.builder.record_count
