"""Reading the records of a batch (message format 2), every length checked before it is followed.

Hot: this module is compiled through ``decoder.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from array import array

from ..errors import CorruptRecordError
from ..types import Header, Headers, TimestampType
from . import raw
from .layout import MIN_RECORD_SIZE
from .record import ConsumerRecord

__all__ = ["RecordIndex", "index_records", "read_records"]

_INT64_MAX = 2**63 - 1
_INT64_MIN = -(2**63)

# Where a record's parts stand in `RecordIndex.spans`.
_SPAN = 5


class Cursor:
    """A position in a batch's records; every read is checked against the end of what is being read."""

    def __init__(self, payload: bytes | memoryview) -> None:
        self.owner = payload
        """Keeps the memory alive that `data` points to."""
        self.data = raw.readable(payload)
        self.at = 0
        self.end = len(payload)

    def varint(self) -> int:
        """The next zigzag varint of up to 32 bits."""
        data = self.data
        at = self.at
        if at >= self.end:
            raise CorruptRecordError("a record ends within a varint")
        byte = data[at]
        at += 1
        zigzag = byte & 0x7F
        shift = 7
        while byte & 0x80:
            if at >= self.end or shift > 28:
                raise CorruptRecordError("a record has a varint that does not end")
            byte = data[at]
            at += 1
            zigzag |= (byte & 0x7F) << shift
            shift += 7
        self.at = at
        if zigzag > 0xFFFFFFFF:
            raise CorruptRecordError("a record has a varint of more than 32 bits")
        return (zigzag >> 1) ^ -(zigzag & 1)

    def varlong(self) -> int:
        """The next zigzag varint of up to 64 bits."""
        data = self.data
        at = self.at
        if at >= self.end:
            raise CorruptRecordError("a record ends within a varint")
        byte = data[at]
        at += 1
        zigzag = byte & 0x7F
        shift = 7
        while byte & 0x80:
            if at >= self.end or shift > 63:
                raise CorruptRecordError("a record has a varint that does not end")
            byte = data[at]
            if shift == 63 and byte > 1:
                raise CorruptRecordError("a record has a varint of more than 64 bits")
            at += 1
            zigzag |= (byte & 0x7F) << shift
            shift += 7
        self.at = at
        return (zigzag >> 1) ^ -(zigzag & 1)

    def length(self) -> int:
        """The length of what follows, -1 for null; what follows is there."""
        size = self.varint()
        if size < -1 or size > self.end - self.at:
            raise CorruptRecordError(f"a record has a field of {size} bytes where {self.end - self.at} are left")
        return size

    def headers(self) -> Headers:
        """A record's headers, from their count on."""
        count = self.varint()
        if count == 0:
            return ()
        if count < 0 or count > self.end - self.at:
            raise CorruptRecordError(f"a record has {count} headers where {self.end - self.at} bytes are left")
        found: list[Header] = []
        data = self.data
        for _ in range(count):
            size = self.length()
            if size < 0:
                raise CorruptRecordError("a record has a header without key")
            at = self.at
            # As Java reads it: a key that is no UTF-8 does not make the whole batch unreadable.
            key = data[at : at + size].decode("utf-8", "replace")
            self.at = at + size
            size = self.length()
            at = self.at
            if size < 0:
                found.append((key, None))
            else:
                found.append((key, data[at : at + size]))
                self.at = at + size
        return tuple(found)

    def skip_headers(self) -> None:
        """Check a record's headers, from their count on, and leave them."""
        count = self.varint()
        if count < 0 or count > self.end - self.at:
            raise CorruptRecordError(f"a record has {count} headers where {self.end - self.at} bytes are left")
        for _ in range(count):
            size = self.length()
            if size < 0:
                raise CorruptRecordError("a record has a header without key")
            self.at += size
            size = self.length()
            if size > 0:
                self.at += size


def read_records(
    payload: bytes | memoryview,
    record_count: int,
    last_offset_delta: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    topic: str,
    partition: int,
    timestamp_type: TimestampType,
    leader_epoch: int | None,
    from_offset: int,
) -> list[ConsumerRecord[bytes | None, bytes | None]]:
    """The records from ``from_offset`` on; ``append_time`` is their timestamp where the broker set it."""
    cursor = Cursor(payload)
    check_count(record_count, last_offset_delta, cursor.end)
    records: list[ConsumerRecord[bytes | None, bytes | None]] = []
    data = cursor.data
    size = cursor.end
    low = _INT64_MIN - base_timestamp if base_timestamp < 0 else _INT64_MIN
    high = _INT64_MAX - base_timestamp if base_timestamp > 0 else _INT64_MAX
    for _ in range(record_count):
        cursor.end = size
        length = cursor.length()
        cursor.end = cursor.at + length
        if length < 1:
            raise CorruptRecordError("a record has no body")
        cursor.at += 1
        delta = cursor.varlong()
        if delta < low or delta > high:
            raise CorruptRecordError("a record's timestamp is out of range")
        timestamp = base_timestamp + delta if append_time is None else append_time
        offset_delta = cursor.varint()
        if offset_delta < 0 or offset_delta > last_offset_delta:
            raise CorruptRecordError("a record's offset is outside its batch")
        length = cursor.length()
        at = cursor.at
        if length < 0:
            key = None
        else:
            key = data[at : at + length]
            cursor.at = at + length
        length = cursor.length()
        at = cursor.at
        if length < 0:
            value = None
        else:
            value = data[at : at + length]
            cursor.at = at + length
        headers = cursor.headers()
        if cursor.at != cursor.end:
            raise CorruptRecordError("a record is longer than its fields")
        if base_offset + offset_delta < from_offset:
            continue
        records.append(
            ConsumerRecord(
                topic,
                partition,
                base_offset + offset_delta,
                timestamp,
                timestamp_type,
                key,
                value,
                headers,
                leader_epoch,
            )
        )
    if cursor.at != size:
        raise CorruptRecordError("a batch is longer than its records")
    return records


def check_count(record_count: int, last_offset_delta: int, size: int) -> None:
    """Refuse a count that the bytes there cannot hold, before anything is made for it."""
    if record_count < 0 or record_count > size // MIN_RECORD_SIZE or record_count > last_offset_delta + 1:
        raise CorruptRecordError(f"a batch of {size} bytes announces {record_count} records")


class RecordIndex:
    """Where each record's parts stand in a batch's payload."""

    def __init__(
        self, payload: bytes | memoryview, offsets: array[int], timestamps: array[int], spans: array[int]
    ) -> None:
        self.payload = payload
        self.offsets = offsets
        self.timestamps = timestamps
        self.spans = spans
        """For each record: position and length of its key, of its value (-1: null), position of its header count."""

    def __len__(self) -> int:
        return len(self.offsets)

    def contents(self, part: int) -> list[bytes | None]:
        """All keys (part 0) or values (part 1)."""
        data = raw.readable(self.payload)
        spans = self.spans
        found: list[bytes | None] = []
        for i in range(len(self.offsets)):
            at = spans[i * _SPAN + 2 * part]
            length = spans[i * _SPAN + 2 * part + 1]
            found.append(None if length < 0 else data[at : at + length])
        return found

    def headers(self) -> list[Headers]:
        """All records' headers."""
        cursor = Cursor(self.payload)
        spans = self.spans
        found: list[Headers] = []
        for i in range(len(self.offsets)):
            cursor.at = spans[i * _SPAN + 4]
            found.append(cursor.headers())
        return found


def index_records(
    payload: bytes | memoryview,
    record_count: int,
    last_offset_delta: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    from_offset: int,
) -> RecordIndex:
    """Check all records and find those from ``from_offset`` on, without making an object for any."""
    cursor = Cursor(payload)
    check_count(record_count, last_offset_delta, cursor.end)
    size = cursor.end
    low = _INT64_MIN - base_timestamp if base_timestamp < 0 else _INT64_MIN
    high = _INT64_MAX - base_timestamp if base_timestamp > 0 else _INT64_MAX
    offsets = array("q", bytes(8 * record_count))
    timestamps = array("q", bytes(8 * record_count))
    spans = array("i", bytes(4 * _SPAN * record_count))
    found = 0
    for _ in range(record_count):
        cursor.end = size
        length = cursor.length()
        cursor.end = cursor.at + length
        if length < 1:
            raise CorruptRecordError("a record has no body")
        cursor.at += 1
        delta = cursor.varlong()
        if delta < low or delta > high:
            raise CorruptRecordError("a record's timestamp is out of range")
        offset_delta = cursor.varint()
        if offset_delta < 0 or offset_delta > last_offset_delta:
            raise CorruptRecordError("a record's offset is outside its batch")
        key_length = cursor.length()
        key_at = cursor.at
        if key_length > 0:
            cursor.at += key_length
        value_length = cursor.length()
        value_at = cursor.at
        if value_length > 0:
            cursor.at += value_length
        headers_at = cursor.at
        cursor.skip_headers()
        if cursor.at != cursor.end:
            raise CorruptRecordError("a record is longer than its fields")
        if base_offset + offset_delta < from_offset:
            continue
        offsets[found] = base_offset + offset_delta
        timestamps[found] = base_timestamp + delta if append_time is None else append_time
        at = found * _SPAN
        spans[at] = key_at
        spans[at + 1] = key_length
        spans[at + 2] = value_at
        spans[at + 3] = value_length
        spans[at + 4] = headers_at
        found += 1
    if cursor.at != size:
        raise CorruptRecordError("a batch is longer than its records")
    del offsets[found:], timestamps[found:], spans[found * _SPAN :]
    return RecordIndex(payload, offsets, timestamps, spans)
