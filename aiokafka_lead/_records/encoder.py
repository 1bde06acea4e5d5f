"""Writing record batches (message format 2, KIP-98), one producer batch at a time.

Hot: this module is compiled through ``encoder.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import IllegalStateError
from ..types import Header, TimestampType
from . import raw
from .compression import compress, decompress
from .decoder import read_records
from .layout import CODEC_IDS, HEADER_SIZE, INT32_MAX, INT64_MAX, TRANSACTIONAL_BIT, write_header

__all__ = ["BatchBuilder"]

_FIRST_CAPACITY = 1024
_MAX_RECORD_OVERHEAD = 21
"""Length 5, attributes 1, timestamp delta 10, offset delta 5."""


def varint_size(value: int) -> int:
    """Bytes of a zigzag varint of up to 64 bits."""
    zigzag = (value << 1) ^ (value >> 63)
    size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


def write_varint(buffer: bytearray, at: int, value: int) -> int:
    """Write a zigzag varint; where it ends."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag >= 0x80:
        buffer[at] = (zigzag & 0x7F) | 0x80
        zigzag >>= 7
        at += 1
    buffer[at] = zigzag
    return at + 1


def as_bytes(content: object, what: str) -> bytes:
    """Bytes from any bytes-like object, so that nothing else is taken by mistake."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, (bytearray, memoryview)):
        return bytes(content)
    raise TypeError(f"a record's {what} must be bytes or None, got {type(content).__name__}")


def encode_headers(headers: Sequence[Header]) -> bytes:
    """Headers as they stand at a record's end, without their count."""
    encoded = bytearray()
    for name, content in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's key must be str, got {type(name).__name__}")
        key = name.encode()
        value = b"" if content is None else as_bytes(content, "header value")
        at = len(encoded)
        encoded.extend(
            bytes(varint_size(len(key)) + len(key) + varint_size(-1 if content is None else len(value)) + len(value))
        )
        at = write_varint(encoded, at, len(key))
        encoded[at : at + len(key)] = key
        at = write_varint(encoded, at + len(key), -1 if content is None else len(value))
        encoded[at : at + len(value)] = value
    return bytes(encoded)


def body_size(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, header_count: int, block: bytes
) -> int:
    """Bytes of a record after its own length."""
    key_size = -1 if key is None else len(key)
    value_size = -1 if value is None else len(value)
    size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + varint_size(header_count) + len(block)
    size += varint_size(key_size) + varint_size(value_size)
    if key is not None:
        size += key_size
    if value is not None:
        size += value_size
    return size


def write_record(
    buffer: bytearray,
    at: int,
    body: int,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    header_count: int,
    block: bytes,
) -> None:
    """Write a record of ``body_size`` bytes, for which there is room."""
    at = write_varint(buffer, at, body)
    buffer[at] = 0
    at = write_varint(buffer, at + 1, timestamp_delta)
    at = write_varint(buffer, at, offset_delta)
    if key is None:
        at = write_varint(buffer, at, -1)
    else:
        size = len(key)
        at = write_varint(buffer, at, size)
        raw.copy(buffer, at, key, size)
        at += size
    if value is None:
        at = write_varint(buffer, at, -1)
    else:
        size = len(value)
        at = write_varint(buffer, at, size)
        raw.copy(buffer, at, value, size)
        at += size
    at = write_varint(buffer, at, header_count)
    raw.copy(buffer, at, block, len(block))


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> bytearray:
    """One record as it stands in a batch, for batches that no `BatchBuilder` makes."""
    block = encode_headers(headers)
    body = body_size(offset_delta, timestamp_delta, key, value, len(headers), block)
    record = bytearray(varint_size(body) + body)
    write_record(record, 0, body, offset_delta, timestamp_delta, key, value, len(headers), block)
    return record


class BatchBuilder:
    """One producer batch in the making: records are encoded as they come, compressed when it closes.

    ``batch_size`` bounds the batch in bytes, header included, before compression; only the first record of an empty
    batch may exceed it. ``compression`` is a codec's name, ``compression_level`` the codec's own level or None for its
    default.
    """

    def __init__(self, *, batch_size: int, compression: str = "none", compression_level: int | None = None) -> None:
        self.batch_size = batch_size
        self.compression = compression
        self.compression_level = compression_level
        self.record_count = 0
        self.size_bytes = HEADER_SIZE
        """Bytes so far, header included, before compression."""
        self.base_timestamp_ms = -1
        self.max_timestamp_ms = -1
        self._codec = CODEC_IDS[compression]
        self._capacity = max(HEADER_SIZE, min(batch_size, _FIRST_CAPACITY))
        self._buffer = bytearray(self._capacity)
        self._built: memoryview | None = None
        """The finished batch. A buffer that was given away never changes."""
        self._stamp: tuple[int, int, int, bool, int] | None = None
        """The producer state that `_built` carries."""

    @staticmethod
    def estimated_size(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
        """An upper bound of one record's bytes in a batch, the batch's own header (61 bytes) not counted."""
        size = _MAX_RECORD_OVERHEAD + varint_size(len(headers))
        size += varint_size(-1) if key is None else varint_size(len(key)) + len(key)
        size += varint_size(-1) if value is None else varint_size(len(value)) + len(value)
        if headers:
            size += len(encode_headers(headers))
        return size

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
        """Add a record; its index in the batch, or -1 when it does not fit.

        An empty builder takes one record of any size. ``timestamp_ms`` is not negative.
        """
        if timestamp_ms < 0 or timestamp_ms > INT64_MAX:
            raise ValueError(f"timestamp_ms must be from 0 to 2**63 - 1, got {timestamp_ms}")
        if self._built is not None:
            raise IllegalStateError("this batch has been built and takes no more records")
        if key is not None and type(key) is not bytes:
            key = as_bytes(key, "key")
        if value is not None and type(value) is not bytes:
            value = as_bytes(value, "value")
        header_count = len(headers)
        block = encode_headers(headers) if header_count else b""
        return self._append(timestamp_ms, key, value, header_count, block)

    def append_values(self, timestamp_ms: int, values: Sequence[bytes | None], start: int) -> int:
        """Add the records ``values[start:]`` that have neither key nor headers; how many of them fitted."""
        if timestamp_ms < 0 or timestamp_ms > INT64_MAX:
            raise ValueError(f"timestamp_ms must be from 0 to 2**63 - 1, got {timestamp_ms}")
        if self._built is not None:
            raise IllegalStateError("this batch has been built and takes no more records")
        count = len(values)
        at = start
        while at < count:
            value = values[at]
            if value is not None and type(value) is not bytes:
                value = as_bytes(value, "value")
            if self._append(timestamp_ms, None, value, 0, b"") < 0:
                break
            at += 1
        return at - start

    def _append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, header_count: int, block: bytes
    ) -> int:
        index = self.record_count
        delta = timestamp_ms - self.base_timestamp_ms if index else 0
        body = body_size(index, delta, key, value, header_count, block)
        end = self.size_bytes + varint_size(body) + body
        if end > self.batch_size and index:
            return -1
        if end > INT32_MAX:
            raise ValueError(f"a record of {body} bytes exceeds what a record batch can hold")
        if end > self._capacity:
            self._grow(end)
        write_record(self._buffer, self.size_bytes, body, index, delta, key, value, header_count, block)
        if index == 0:
            self.base_timestamp_ms = timestamp_ms
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        self.size_bytes = end
        self.record_count = index + 1
        return index

    def _grow(self, needed: int) -> None:
        capacity = max(needed, min(self._capacity * 2, self.batch_size))
        self._buffer.extend(bytes(capacity - self._capacity))
        self._capacity = capacity

    def build(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        leader_epoch: int = -1,
    ) -> memoryview:
        """Close the batch, and give it with this producer state.

        Built again with other state only the header and its CRC are new; a buffer given earlier stays as it was.
        """
        stamp = (producer_id, producer_epoch, base_sequence, transactional, leader_epoch)
        if self._built is not None and stamp == self._stamp:
            return self._built
        if self.record_count == 0:
            raise IllegalStateError("an empty batch cannot be built")
        if self._built is None:
            batch = self._seal()
        else:
            batch = bytearray(self._built)
        write_header(
            batch,
            0,
            leader_epoch,
            self._codec | (TRANSACTIONAL_BIT if transactional else 0),
            self.record_count - 1,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            self.record_count,
        )
        self._built = memoryview(batch).toreadonly()
        self._stamp = stamp
        return self._built

    def _seal(self) -> bytearray:
        """The batch with its records as they are sent, and a header still empty."""
        batch = self._buffer
        del batch[self.size_bytes :]
        if self._codec == 0:
            return batch
        payload = compress(self.compression, memoryview(batch)[HEADER_SIZE:], self.compression_level)
        if HEADER_SIZE + len(payload) > max(self.batch_size, len(batch)):
            # What does not compress may grow, but never beyond batch_size.
            self._codec = 0
            return batch
        self._buffer = bytearray()
        return bytearray(HEADER_SIZE) + payload

    def split(self, max_bytes: int) -> list[BatchBuilder]:
        """The same records in the same order in batches of at most ``max_bytes`` before compression.

        For MESSAGE_TOO_LARGE. A single record that is larger has a batch of its own.
        """
        if self._built is None:
            self._built = self.build()
        payload: bytes | memoryview = self._built[HEADER_SIZE:]
        if self._codec:
            payload = decompress(self.compression, payload, self.size_bytes)
        last = self.record_count - 1
        parts: list[BatchBuilder] = []
        part = self._sibling(max_bytes)
        for record in read_records(
            payload, last + 1, last, 0, self.base_timestamp_ms, None, "", 0, TimestampType.CREATE_TIME, None, 0
        ):
            if part.append(record.timestamp_ms, record.key, record.value, record.headers) < 0:
                parts.append(part)
                part = self._sibling(max_bytes)
                part.append(record.timestamp_ms, record.key, record.value, record.headers)
        parts.append(part)
        return parts

    def _sibling(self, batch_size: int) -> BatchBuilder:
        return BatchBuilder(
            batch_size=batch_size, compression=self.compression, compression_level=self.compression_level
        )
