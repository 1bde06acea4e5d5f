"""Writing record batches (message format 2, KIP-98). A builder writes one batch of a producer.

This code runs for each record. If a compiler is available, it is compiled through ``encoder.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._cpython import raw
from ..errors import IllegalStateError
from ..types import Header, Headers, TimestampType
from .compression import compress, decompress
from .decoder import read_records
from .layout import (
    ATTRIBUTES_AT,
    CODEC_IDS,
    CRC_AT,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    crc32c,
)
from .record import ConsumerRecord

Stamp = tuple[int, int, int, bool, int]
"""Producer id, producer epoch, base sequence number, whether in a transaction, and leader epoch."""

_FIRST_CAPACITY = 512
"""Initial size of a builder in bytes. It doubles up to the batch size."""
_MAX_RECORD_OVERHEAD = 21
"""Maximum size in bytes of length (5), attributes (1), timestamp delta (10) and offset delta (5) together."""
_MAX_BATCH_BYTES = 2**31 - 1
_INT64_MAX = 2**63 - 1
_HEADER_SIZE = HEADER_SIZE
_ATTRIBUTES_AT = ATTRIBUTES_AT
_CRC_AT = CRC_AT
_LENGTH_AT = LENGTH_AT
_LOG_OVERHEAD = LOG_OVERHEAD
_MAGIC_AT = MAGIC_AT
_TRANSACTIONAL_BIT = TRANSACTIONAL_BIT


def varint_size(value: int) -> int:
    """Return the size of a zigzag varint of up to 64 bits."""
    zigzag = value
    zigzag = (zigzag << 1) ^ (value >> 63)
    if zigzag < 0x80:
        return 1
    if zigzag < 0x4000:
        return 2
    size = 3
    zigzag >>= 14
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


def write_varint(buffer: bytearray, at: int, value: int) -> int:
    """Write a zigzag varint. Return its end."""
    zigzag = value  # in compiled form it is unsigned, so it is shifted without a sign
    zigzag = (zigzag << 1) ^ (value >> 63)
    if zigzag < 0x80:
        buffer[at] = zigzag
        return at + 1
    while zigzag >= 0x80:
        buffer[at] = (zigzag & 0x7F) | 0x80
        zigzag >>= 7
        at += 1
    buffer[at] = zigzag
    return at + 1


def write_nullable(buffer: bytearray, at: int, content: bytes | None) -> int:
    """Write the length, and then bytes or null. Return the end."""
    if content is None:
        buffer[at] = 1
        return at + 1
    size = len(content)
    at = write_varint(buffer, at, size)
    raw.copy(buffer, at, content, size)
    return at + size


def nullable_size(content: bytes | None) -> int:
    """Return the number of bytes that `write_nullable` would write."""
    if content is None:
        return 1
    size = len(content)
    return varint_size(size) + size


def exact_bytes(content: object, what: str) -> bytes:
    """Return the bytes of a bytes-like object. Raises TypeError for other types."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        return bytes(memoryview(content))
    raise TypeError(f"a record's {what} must be bytes or None, not {type(content).__name__}")


def exact_headers(headers: Sequence[Header]) -> Headers:
    """Return headers that cannot change between measuring and writing, as tuples of str and bytes."""
    exact = headers if type(headers) is tuple else tuple(headers)
    for header in exact:
        if type(header) is not tuple or len(header) != 2:
            return converted_headers(exact)
        name, content = header
        if type(name) is not str or (content is not None and type(content) is not bytes):
            return converted_headers(exact)
    return exact


def converted_headers(headers: Headers) -> Headers:
    """Convert headers of other types to tuples of str and bytes. Raises an error if they are invalid."""
    found: list[Header] = []
    for name, content in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's key must be str, not {type(name).__name__}")
        found.append((str.__str__(name), None if content is None else exact_bytes(content, "header value")))
    return tuple(found)


def headers_size(headers: Headers) -> int:
    """Return the size of a record's headers, including their count."""
    size = varint_size(len(headers))
    for name, content in headers:
        length = raw.utf8_size(name)
        size += varint_size(length) + length + nullable_size(content)
    return size


def write_headers(buffer: bytearray, at: int, headers: Headers) -> int:
    """Write a record's headers, including their count. Return their end."""
    at = write_varint(buffer, at, len(headers))
    for name, content in headers:
        length = raw.utf8_size(name)
        at = write_varint(buffer, at, length)
        raw.copy_utf8(buffer, at, name, length)
        at = write_nullable(buffer, at + length, content)
    return at


def body_size(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers_bytes: int
) -> int:
    """Return the size of a record, not counting its length field. Its headers take ``headers_bytes``."""
    size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + nullable_size(key) + nullable_size(value)
    return size + headers_bytes


def write_record(
    buffer: bytearray,
    at: int,
    body: int,
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
) -> int:
    """Write a record of ``body_size`` bytes without its headers.

    There must be room for it. Returns the start of the headers.
    """
    at = write_varint(buffer, at, body)
    buffer[at] = 0
    at = write_varint(buffer, at + 1, timestamp_delta)
    at = write_varint(buffer, at, offset_delta)
    at = write_nullable(buffer, at, key)
    return write_nullable(buffer, at, value)


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header] = (),
) -> bytearray:
    """Return one encoded record. This is for batches that are not made by a `BatchBuilder`."""
    exact = exact_headers(headers)
    body = body_size(offset_delta, timestamp_delta, key, value, headers_size(exact))
    record = bytearray(varint_size(body) + body)
    write_headers(record, write_record(record, 0, body, offset_delta, timestamp_delta, key, value), exact)
    return record


def estimated_size(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
    """Return an upper bound for the size of a record in a batch, without the header of the batch (61 bytes)."""
    size = _MAX_RECORD_OVERHEAD + nullable_size(key) + nullable_size(value)
    return size + (headers_size(exact_headers(headers)) if headers else 1)


class BatchBuilder:
    """Builds one batch of a producer. Records are encoded as they are added, and compressed at the end."""

    def __init__(self, *, batch_size: int, compression: str = "none", compression_level: int | None = None) -> None:
        self._begin(batch_size, compression, compression_level)

    def sibling(self, batch_size: int) -> BatchBuilder:
        """Return an empty builder with the same compression. This is faster than calling the class."""
        other = BatchBuilder.__new__(BatchBuilder)
        other._begin(batch_size, self.compression, self.compression_level)
        return other

    def _begin(self, batch_size: int, compression: str, compression_level: int | None) -> None:
        self.batch_size = min(batch_size, _MAX_BATCH_BYTES)
        self.compression = compression
        self.compression_level = compression_level
        self.record_count = 0
        self.size_bytes = _HEADER_SIZE
        """Current size in bytes before compression, including the header."""
        self.base_timestamp_ms = -1
        self.max_timestamp_ms = -1
        self._codec = CODEC_IDS[compression]
        self._capacity = max(_HEADER_SIZE, min(batch_size, _FIRST_CAPACITY))
        self._capacity_limit = self.batch_size
        """Maximum size of the buffer, which doubles as needed."""
        self._buffer = raw.new_buffer(self._capacity)
        self._headers: Headers | None = None
        """The headers written last."""
        self._headers_at = 0
        """Position of ``_headers`` in ``_buffer``."""
        self._headers_bytes = 0
        self.closed = False
        """True if the records in ``_buffer`` are final, so no more are accepted."""
        self._built: memoryview | None = None
        """The finished batch, or None. A returned buffer never changes."""
        self._stamp: Stamp | None = None
        """The producer state in ``_built``."""

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] | None = None
    ) -> int:
        """Add a record. Return its index in the batch, or -1 if it does not fit.

        An empty builder accepts one record of any size. ``timestamp_ms`` must not be negative. Raises TypeError for
        contents that are not bytes, and `IllegalStateError` after `build`.
        """
        if key is not None and type(key) is not bytes:
            key = exact_bytes(key, "key")
        if value is not None and type(value) is not bytes:
            value = exact_bytes(value, "value")
        if not headers:
            return self._append(timestamp_ms, key, value, None)
        # The headers written last cannot have changed, so they need no check.
        exact = self._headers if headers is self._headers else exact_headers(headers)
        return self._append(timestamp_ms, key, value, exact)

    def append_values(self, timestamp_ms: int, values: Sequence[bytes | None], start: int) -> int:
        """Add the records ``values[start:]``, without keys and headers. Return the number of records that fit."""
        if start < 0:
            raise ValueError(f"start must not be negative: {start}")
        count = len(values)
        at = start
        while at < count:
            value = values[at]
            if value is not None and type(value) is not bytes:
                value = exact_bytes(value, "value")
            if self._append(timestamp_ms, None, value, None) < 0:
                break
            at += 1
        return at - start

    def _append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | None) -> int:
        """Append a record and return its index, or -1 if the batch is full."""
        # From here on, no other code runs, so values checked and measured now are still valid when they are written.
        if timestamp_ms < 0:
            raise ValueError(f"timestamp_ms must not be negative: {timestamp_ms}")
        if timestamp_ms > _INT64_MAX:
            raise OverflowError("timestamp_ms does not fit into 64 bits")
        if self.closed:
            raise IllegalStateError("this batch has been built and takes no more records")
        index = self.record_count
        delta = timestamp_ms - self.base_timestamp_ms if index else 0
        again = headers is not None and headers is self._headers
        headers_bytes = 1 if headers is None else self._headers_bytes if again else headers_size(headers)
        body = body_size(index, delta, key, value, headers_bytes)
        at = self.size_bytes
        end = at + varint_size(body) + body
        if end > self.batch_size and index:
            return -1
        if end > self._capacity:
            self._grow(end)
        at = write_record(self._buffer, at, body, index, delta, key, value)
        if headers is None:
            self._buffer[at] = 0
        elif again:
            raw.copy_part(self._buffer, at, self._buffer, self._headers_at, headers_bytes)
        else:
            write_headers(self._buffer, at, headers)
            self._headers, self._headers_at, self._headers_bytes = headers, at, headers_bytes
        if index == 0:
            self.base_timestamp_ms = timestamp_ms
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        self.size_bytes = end
        self.record_count = index + 1
        return index

    def extend(self, size: int, at_most: int) -> None:
        """Let the batch grow by ``size`` bytes, but never beyond ``at_most`` in total."""
        self.batch_size = min(self.size_bytes + size, _MAX_BATCH_BYTES)
        self._capacity_limit = max(self.batch_size, at_most)

    def _grow(self, needed: int) -> None:
        if needed > _MAX_BATCH_BYTES:
            raise ValueError(f"a record batch of {needed} bytes is more than the format can hold")
        capacity = max(needed, min(2 * self._capacity, self._capacity_limit))
        raw.resize(self._buffer, capacity)
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
        """Close the batch, and return it with this producer state.

        Building it again with another state only renews the header and the CRC. Buffers returned earlier do not change.
        """
        self._close()  # close it even if `stamped` refuses the state
        return self.stamped(producer_id, producer_epoch, base_sequence, transactional, leader_epoch)

    def stamped(
        self,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        transactional: bool = False,
        leader_epoch: int = -1,
    ) -> memoryview:
        """Do the same as `build`, faster because of positional arguments."""
        stamp = (producer_id, producer_epoch, base_sequence, transactional, leader_epoch)
        if self._built is not None and stamp == self._stamp:
            return self._built
        self._close()
        # The earlier batch may still be in use, so a copy of it is changed.
        batch = self._buffer if self._built is None else bytearray(self._built)
        attributes = self._codec | (_TRANSACTIONAL_BIT if transactional else 0)
        self._write_header(
            raw.writable(batch), len(batch), attributes, producer_id, producer_epoch, base_sequence, leader_epoch
        )
        self._built = memoryview(batch).toreadonly()
        raw.put_uint32(raw.writable(batch), _CRC_AT, crc32c(self._built[_ATTRIBUTES_AT:]))
        self._stamp = stamp
        return self._built

    def _write_header(
        self,
        buffer: bytearray,
        size: int,
        attributes: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        leader_epoch: int,
    ) -> None:
        """Write the header without the checksum."""
        raw.put_int64(buffer, 0, 0)
        raw.put_int32(buffer, _LENGTH_AT, size - _LOG_OVERHEAD)
        raw.put_int32(buffer, _LOG_OVERHEAD, leader_epoch)
        buffer[_MAGIC_AT] = 2
        raw.put_int16(buffer, _ATTRIBUTES_AT, attributes)
        raw.put_int32(buffer, _ATTRIBUTES_AT + 2, self.record_count - 1)
        raw.put_int64(buffer, _ATTRIBUTES_AT + 6, self.base_timestamp_ms)
        raw.put_int64(buffer, _ATTRIBUTES_AT + 14, self.max_timestamp_ms)
        raw.put_int64(buffer, _ATTRIBUTES_AT + 22, producer_id)
        raw.put_int16(buffer, _ATTRIBUTES_AT + 30, producer_epoch)
        raw.put_int32(buffer, _ATTRIBUTES_AT + 32, base_sequence)
        raw.put_int32(buffer, _ATTRIBUTES_AT + 36, self.record_count)

    def _close(self) -> None:
        if self.closed:
            return
        if self.record_count == 0:
            raise IllegalStateError("an empty batch cannot be built")
        payload = b""
        if self._codec:
            with memoryview(self._buffer) as view, view[_HEADER_SIZE : self.size_bytes] as records:
                payload = compress(self.compression, records, self.compression_level)
            if _HEADER_SIZE + len(payload) > max(self.batch_size, self.size_bytes):
                # Data that cannot be compressed may grow, but never beyond batch_size.
                self._codec = 0
        self.closed = True
        if self._codec:
            self._buffer = bytearray(_HEADER_SIZE) + payload
        else:
            raw.resize(self._buffer, self.size_bytes)
        self._capacity = len(self._buffer)

    def split(self, max_bytes: int) -> list[BatchBuilder]:
        """Return the same records in the same order, in batches of at most ``max_bytes`` before compression.

        This is for MESSAGE_TOO_LARGE. A single larger record gets a batch of its own.
        """
        parts: list[BatchBuilder] = []
        part = self.sibling(max_bytes)
        for record in self.records():
            if part.append(record.timestamp_ms, record.key, record.value, record.headers) < 0:
                parts.append(part)
                part = self.sibling(max_bytes)
                part.append(record.timestamp_ms, record.key, record.value, record.headers)
        parts.append(part)
        return parts

    def records(self) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return the added records. This closes the batch."""
        built = self.build() if self._built is None else self._built
        payload: bytes | memoryview = built[_HEADER_SIZE:]
        if self._codec:
            payload = decompress(self.compression, payload, self.size_bytes)
        last = self.record_count - 1
        like: ConsumerRecord[bytes | None, bytes | None] = ConsumerRecord(
            "", 0, 0, 0, TimestampType.CREATE_TIME, None, None
        )
        return read_records(payload, last + 1, 0, last, self.base_timestamp_ms, None, like, 0, last)
