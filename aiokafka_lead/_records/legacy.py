"""Messages of formats 0 and 1, which Kafka used before record batches (0.11).

A message, or a set of messages compressed in one, is converted to the form of a record batch, so that all other code
reads a single format. Java: ``AbstractLegacyRecordBatch``.
"""

from __future__ import annotations

import struct
import zlib

from .._values import NamedTuple
from ..errors import BatchTooLargeError, CorruptRecordError
from ..errors.base import own_copy, without_frames
from .batch import BatchView, too_many_records
from .compression import decompress, truncated
from .encoder import encode_record
from .layout import CODEC_NAMES, INT32_MAX, LOG_APPEND_TIME_BIT, LOG_OVERHEAD

_V0 = struct.Struct(">qiIbB")
"""offset, size, crc, magic, attributes."""
_CRC_FROM = 16
_CODEC_MASK = 0x07
_ZSTD = CODEC_NAMES.index("zstd")
MIN_MESSAGE_SIZE = 14
"""CRC, magic, attributes, and the lengths of a null key and a null value."""


_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_CONTENT_SIZE_BIT = 0x08
_LZ4_DICTIONARY_BIT = 0x01

_MESSAGE_BYTES = 400
"""Estimated memory in bytes of a message while its set is being read."""

_SETS_MIN_BYTES = 1 << 20
"""Minimum limit in bytes for the memory of a set's messages. The limit for decompression on the event loop is low."""


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: memoryview | None


class MessageSet:
    """A compressed set of messages, decompressed on request. Until then, its offsets are unknown."""

    def __init__(self, outer: _Message, size_bytes: int, check_crcs: bool, max_decompressed_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._outer = outer
        self._check_crcs = check_crcs
        self._max_decompressed_bytes = max_decompressed_bytes
        self._batch: BatchView | None = None
        self._failure: BatchTooLargeError | CorruptRecordError | None = None

    @property
    def is_loaded(self) -> bool:
        """True if `batch` needs no decompression."""
        return self._batch is not None

    def load(self) -> None:
        """Decompress the messages for `batch`. Can be called in a thread."""
        self.batch()

    def load_within(self, max_bytes: int) -> bool:
        """Call `load` and return True, unless the result would exceed ``max_bytes``.

        In that case, returns False after little work.
        """
        if self._batch is None and self._failure is None:
            value = self._outer.value
            if value is not None and len(value) > max_bytes:
                return False
            try:
                self._read(min(max_bytes, self._max_decompressed_bytes))
            except BatchTooLargeError:
                if max_bytes >= self._max_decompressed_bytes:
                    raise
                return False
        return True

    def batch(self) -> BatchView:
        """Return the messages in the form of a batch. Raises `CorruptRecordError` or `BatchTooLargeError`."""
        return self._batch or self._read(self._max_decompressed_bytes)

    def _read(self, max_bytes: int) -> BatchView:
        if self._failure is not None:
            raise own_copy(self._failure)
        outer = self._outer
        try:
            messages = _inner_messages(outer, outer.attributes & _CODEC_MASK, self._check_crcs, max_bytes)
            if outer.magic == 1 and outer.attributes & LOG_APPEND_TIME_BIT:
                messages = [message._replace(timestamp_ms=outer.timestamp_ms) for message in messages]
            self._batch = _batch_of(outer, messages, self.size_bytes, self._max_decompressed_bytes)
        except (BatchTooLargeError, CorruptRecordError) as error:
            # Do not retry, because the operation is slow.
            if max_bytes >= self._max_decompressed_bytes or isinstance(error, CorruptRecordError):
                self._failure = without_frames(own_copy(error))
            raise
        return self._batch


def read_message(data: memoryview, check_crcs: bool, max_decompressed_bytes: int) -> BatchView | MessageSet:
    """Read one complete message, or one compressed set of messages, which is not decompressed yet."""
    outer = _parse(data, check_crcs)
    if outer.attributes & _CODEC_MASK:
        return MessageSet(outer, len(data), check_crcs, max_decompressed_bytes)
    return _batch_of(outer, [outer], len(data), max_decompressed_bytes)


def _batch_of(outer: _Message, messages: list[_Message], size_bytes: int, max_decompressed_bytes: int) -> BatchView:
    """Return a batch (format 2) with the records of a message set (format 0 or 1).

    Raises `CorruptRecordError` if the offsets do not increase. ``size_bytes`` is the size of the message set.
    """
    base = messages[0].offset
    last = messages[-1].offset - base
    if base < 0 or last > INT32_MAX:
        raise CorruptRecordError(f"a message set has invalid offsets: {base} and {last} more")
    payload = bytearray()
    delta = -1
    for message in messages:
        if message.offset - base <= delta:
            raise CorruptRecordError("the offsets within a message set do not increase")
        delta = message.offset - base
        value = None if message.value is None else bytes(message.value)
        payload += encode_record(delta, message.timestamp_ms, message.key, value)
    timestamp_ms = max(message.timestamp_ms for message in messages)
    header = (
        base, size_bytes - LOG_OVERHEAD, -1, outer.magic, 0, outer.attributes, last, 0, timestamp_ms,
        -1, -1, -1, len(messages),
    )  # fmt: skip
    return BatchView(header, bytes(payload), size_bytes, max_decompressed_bytes)


def _parse(data: memoryview, check_crcs: bool) -> _Message:
    if len(data) < LOG_OVERHEAD + MIN_MESSAGE_SIZE:
        raise CorruptRecordError("a message ends too early")
    offset, _, crc, magic, attributes = _V0.unpack_from(data)
    if magic not in (0, 1):
        raise CorruptRecordError(f"a message has the unknown format {magic}")
    if check_crcs and crc != zlib.crc32(data[_CRC_FROM:]):
        raise CorruptRecordError(f"the message at offset {offset} does not match its checksum")
    at = _V0.size
    timestamp_ms = -1
    if magic == 1:
        timestamp_ms = int.from_bytes(_take(data, at, 8), "big", signed=True)
        at += 8
    key, at = _nullable(data, at)
    value, at = _nullable(data, at)
    if at != len(data):
        raise CorruptRecordError("a message is longer than its fields")
    return _Message(offset, magic, attributes, timestamp_ms, None if key is None else bytes(key), value)


def _take(data: memoryview, at: int, size: int) -> memoryview:
    if size > len(data) - at:
        raise CorruptRecordError(f"a message has a field of {size} bytes where {len(data) - at} are left")
    return data[at : at + size]


def _nullable(data: memoryview, at: int) -> tuple[memoryview | None, int]:
    size = int.from_bytes(_take(data, at, 4), "big", signed=True)
    at += 4
    if size < -1:
        raise CorruptRecordError(f"a message has a field of {size} bytes")
    if size == -1:
        return None, at
    return _take(data, at, size), at + size


def _inner_messages(outer: _Message, codec: int, check_crcs: bool, max_decompressed_bytes: int) -> list[_Message]:
    """Return the messages of a compressed set, with absolute offsets."""
    if codec >= _ZSTD or outer.value is None:
        raise CorruptRecordError("a message is marked as a compressed set, but is not")
    name = CODEC_NAMES[codec]
    compressed: bytes | memoryview = outer.value
    if name == "lz4":
        compressed = mend_header(bytes(compressed))
    try:
        data = memoryview(decompress(name, compressed, max_decompressed_bytes))
        messages = _messages_in(data, check_crcs, max_decompressed_bytes)
    except BatchTooLargeError as error:
        error.next_offset = outer.offset + 1  # offset of the last message in the set
        raise
    # In format 1, inner offsets are relative to the first message, and the outer offset is the last message's. In
    # format 0, inner offsets are absolute. They are also absolute in format 1 if the writer has left the outer offset
    # at 0.
    if outer.magic == 1 and outer.offset != 0:
        base = outer.offset - messages[-1].offset
        if base < 0:
            raise CorruptRecordError("a message set has invalid offsets")
        messages = [message._replace(offset=base + message.offset) for message in messages]
    return messages


def _messages_in(data: memoryview, check_crcs: bool, max_decompressed_bytes: int) -> list[_Message]:
    """Decompress a compressed set, and return its messages."""
    messages: list[_Message] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(_take(data, at + 8, 4), "big", signed=True)
        if size < MIN_MESSAGE_SIZE:
            raise CorruptRecordError(f"a message has an invalid size of {size} bytes")
        message = _parse(_take(data, at, LOG_OVERHEAD + size), check_crcs)
        if message.attributes & _CODEC_MASK:
            raise CorruptRecordError("a compressed message set contains another")
        messages.append(message)
        if len(messages) * _MESSAGE_BYTES > _SETS_MIN_BYTES + max_decompressed_bytes:
            raise too_many_records(len(messages), max_decompressed_bytes)
        at += LOG_OVERHEAD + size
    if not messages:
        raise CorruptRecordError("a compressed message set is empty")
    return messages


def mend_header(frame: bytes) -> bytes:
    """Return an lz4 frame with a correct header checksum, which Kafka's first lz4 writer computed wrongly."""
    if len(frame) < 7 or not frame.startswith(_LZ4_MAGIC):
        raise CorruptRecordError("a batch compressed with lz4 has no lz4 frame")
    flags = frame[4]
    at = 6 + (8 if flags & _LZ4_CONTENT_SIZE_BIT else 0) + (4 if flags & _LZ4_DICTIONARY_BIT else 0)
    if len(frame) <= at:
        raise truncated("lz4")
    checksum = (xxhash32_short(frame[4:at]) >> 8) & 0xFF
    return frame[:at] + bytes((checksum,)) + frame[at + 1 :]


def xxhash32_short(data: bytes) -> int:
    """Return the XXH32 hash with seed 0 of fewer than 16 bytes, which is enough for the header of a frame."""
    mask = 0xFFFFFFFF
    prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    h = (prime5 + len(data)) & mask
    at = 0
    while at + 4 <= len(data):
        h = (h + int.from_bytes(data[at : at + 4], "little") * prime3) & mask
        h = (((h << 17) | (h >> 15)) * prime4) & mask
        at += 4
    for byte in data[at:]:
        h = (h + byte * prime5) & mask
        h = (((h << 11) | (h >> 21)) * prime1) & mask
    h = ((h ^ (h >> 15)) * prime2) & mask
    h = ((h ^ (h >> 13)) * prime3) & mask
    return h ^ (h >> 16)
