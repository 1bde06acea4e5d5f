"""Reading the records of a batch (message format 2). Every length is checked before it is used.

This code runs for each record. If a compiler is available, it is compiled through ``decoder.pxd``.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from .._cpython import collector, raw
from ..errors import CorruptRecordError
from ..types import Header, Headers
from .record import AnyRecord

_INT32_MAX = 2**31 - 1
_INT32_MIN = -(2**31)
_INT64_MAX = 2**63 - 1
_INT64_MIN = -_INT64_MAX - 1

_MIN_RECORD_SIZE = 7
"""Size in bytes of a record with neither key nor value: seven fields of one byte each."""
_SPAN = 6
"""Number of entries per record in `RecordIndex.spans`."""


Packed = tuple["array[int]", bytearray, "bytearray | None"]
Record = TypeVar("Record", bound="AnyRecord[Any, Any]")


def corrupt(what: str) -> NoReturn:
    """Raise an error. This is a separate function, so that the loops stay small enough to be inlined."""
    raise CorruptRecordError(what)


class RecordReader:
    """Reads the records of a batch in order. No read crosses the end of its record."""

    def __init__(
        self,
        payload: bytes | memoryview,
        record_count: int,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp_ms: int,
    ) -> None:
        self.payload = payload
        """Keeps alive the memory to which `data` may point."""
        self.data = raw.readable(payload)
        self.size = len(payload)
        # Before any object is created, refuse a count that is impossible for this number of bytes.
        if record_count < 0 or record_count > self.size // _MIN_RECORD_SIZE or self.size > _INT32_MAX:
            raise CorruptRecordError(
                f"a batch with {self.size} bytes of records has an invalid number of records: {record_count}"
            )
        self.base_offset = base_offset
        self.last_offset_delta = last_offset_delta
        self.base_timestamp_ms = base_timestamp_ms
        self.lowest_delta = _INT64_MIN - base_timestamp_ms if base_timestamp_ms < 0 else _INT64_MIN
        """With deltas below this or above `highest_delta`, timestamps would not fit into 64 bits."""
        self.highest_delta = _INT64_MAX - base_timestamp_ms if base_timestamp_ms > 0 else _INT64_MAX
        self.at = 0
        self.end = 0
        """End of the current record."""
        self.offset = 0
        self.timestamp_ms = 0
        self.key_at = 0
        self.key_size = 0
        """Size of the key, or -1 for null. `value_size` is the same for the value."""
        self.value_at = 0
        self.value_size = 0

    def enter(self) -> None:
        """Read the next record up to its headers. The headers must be read or skipped before the next call."""
        self.end = self.size
        size = self.length()
        if size < 1:
            corrupt("a record has no body")
        self.end = self.at + size
        self.at += 1
        delta = self.varint(_INT64_MIN, _INT64_MAX)
        if delta < self.lowest_delta or delta > self.highest_delta:
            corrupt("a record's timestamp is out of range")
        self.timestamp_ms = self.base_timestamp_ms + delta
        delta = self.varint(_INT32_MIN, _INT32_MAX)
        if delta < 0 or delta > self.last_offset_delta:
            corrupt("a record's offset is outside its batch")
        self.offset = self.base_offset + delta
        size = self.length()
        self.key_size = size
        self.key_at = self.at
        if size > 0:
            self.at += size
        size = self.length()
        self.value_size = size
        self.value_at = self.at
        if size > 0:
            self.at += size

    def headers(self, count: int) -> Headers:
        """Read ``count`` headers of the current record."""
        if count == 0:
            return ()
        found = (self.header(),) if count == 1 else tuple([self.header() for _ in range(count)])
        collector.untrack(found)
        if self.at != self.end:
            corrupt("a record is longer than its fields")
        return found

    def header(self) -> Header:
        """Read the next header."""
        data = self.data
        at = self.header_key()
        end = self.at
        # Like Java: a key that is not UTF-8 must not make the whole batch unreadable.
        key = data[at:end].decode("utf-8", "replace")
        content = None
        size = self.length()
        if size >= 0:
            at = self.at
            end = at + size
            content = data[at:end]
            self.at = end
        header = (key, content)
        collector.untrack(header)
        return header

    def skip_headers(self) -> None:
        """Check and skip the current record's headers, including their count."""
        count = self.header_count()
        while count > 0:
            self.header_key()
            size = self.length()
            if size > 0:
                self.at += size
            count -= 1
        if self.at != self.end:
            corrupt("a record is longer than its fields")

    def header_count(self) -> int:
        """Read the number of headers. Each takes at least two bytes.

        If there are none, check that the record ends here.
        """
        if self.at + 1 == self.end and self.data[self.at] == 0:
            self.at = self.end
            return 0
        count = self.varint(_INT32_MIN, _INT32_MAX)
        if count < 0 or count > (self.end - self.at) // 2:
            corrupt("a record has an invalid number of headers")
        if count == 0 and self.at != self.end:
            corrupt("a record is longer than its fields")
        return count

    def header_key(self) -> int:
        """Skip the key of a header. Return its start."""
        size = self.length()
        if size < 0:
            corrupt("a record has a header without key")
        at = self.at
        self.at = at + size
        return at

    def finish(self) -> None:
        """Check that the batch ends after the last record."""
        if self.at != self.size:
            corrupt("a batch is longer than its records")

    def length(self) -> int:
        """Read the length of the next field, which is -1 for null. Checks that the field lies within the record."""
        size = self.varint(_INT32_MIN, _INT32_MAX)
        if size < -1 or size > self.end - self.at:
            corrupt("a record has a field that is longer than the record")
        return size

    def varint(self, lowest: int, highest: int) -> int:
        """Read the next zigzag varint. Most have one or two bytes."""
        at = self.at
        if at < self.end:
            zigzag = self.data[at]
            if zigzag < 0x80:
                self.at = at + 1
                return (zigzag >> 1) ^ -(zigzag & 1)
            if at + 1 < self.end:
                more = self.data[at + 1]
                if more < 0x80:
                    self.at = at + 2
                    zigzag = (zigzag & 0x7F) | (more << 7)
                    return (zigzag >> 1) ^ -(zigzag & 1)
        return self.long_varint(lowest, highest)

    def long_varint(self, lowest: int, highest: int) -> int:
        """Read the next zigzag varint of any length."""
        data = self.data
        at = self.at
        end = self.end
        zigzag = 0
        shift = 0
        while True:
            if at >= end:
                corrupt("a record ends within a varint")
            bits = data[at]
            at += 1
            # The tenth byte contains only the 64th bit.
            if shift == 63 and bits > 1:
                corrupt("a record has a number that is too large")
            if bits < 0x80:
                break
            zigzag |= (bits & 0x7F) << shift
            shift += 7
        zigzag |= bits << shift
        self.at = at
        value = (zigzag >> 1) ^ -(zigzag & 1)
        if value < lowest or value > highest:
            corrupt("a record has a number that is too large")
        return value


def read_records(
    payload: bytes | memoryview,
    record_count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    append_time_ms: int | None,
    sample: Record,
    from_offset: int,
    last_offset: int,
) -> list[Record]:
    """Return the records with these offsets. ``append_time_ms`` is the timestamp if the broker has set it.

    They are copies of ``sample``, to which key, value and headers are added.
    """
    reader = RecordReader(payload, record_count, base_offset, last_offset_delta, base_timestamp_ms)
    stamped = append_time_ms is not None
    stamp = append_time_ms if append_time_ms is not None else 0
    records: list[Record] = []
    data = reader.data
    for _ in range(record_count):
        reader.enter()
        if reader.offset < from_offset:
            reader.skip_headers()
            continue
        if reader.offset > last_offset:
            return records
        record: Any = sample._copy()
        record.offset = reader.offset
        record.timestamp_ms = stamp if stamped else reader.timestamp_ms
        if reader.key_size >= 0:
            at = reader.key_at
            end = at + reader.key_size
            record.key = data[at:end]
        if reader.value_size >= 0:
            at = reader.value_at
            end = at + reader.value_size
            record.value = data[at:end]
        count = reader.header_count()
        if count > 0:
            record.headers = reader.headers(count)
        records.append(record)
    reader.finish()
    return records


class RecordIndex:
    """Finds the key, value and headers of each record in the payload of a batch."""

    def __init__(
        self, payload: bytes | memoryview, offsets: array[int], timestamps_ms: array[int], spans: array[int]
    ) -> None:
        self.payload = payload
        self.offsets = offsets
        self.timestamps_ms = timestamps_ms
        self.spans = spans
        """For each record, position and size (-1 for null) of key and value, and start and end of the headers."""

    def only(self, rows: Sequence[int]) -> RecordIndex:
        """Return an index of the records at these indices, over the same payload."""
        offsets, timestamps_ms, span_array = array("q"), array("q"), array("i")
        for row in rows:
            offsets.append(self.offsets[row])
            timestamps_ms.append(self.timestamps_ms[row])
            span_array.extend(self.spans[row * _SPAN : (row + 1) * _SPAN])
        return RecordIndex(self.payload, offsets, timestamps_ms, span_array)

    def keys(self) -> list[bytes | None]:
        """Return the keys of all records. A missing key is None."""
        return self.contents(0)

    def values(self) -> list[bytes | None]:
        """Return the values of all records. A missing value is None."""
        return self.contents(2)

    def packed_keys(self) -> Packed:
        """Return the keys of all records in Apache Arrow's layout."""
        return self.packed(0)

    def packed_values(self) -> Packed:
        """Return the values of all records in Apache Arrow's layout."""
        return self.packed(2)

    def has_headers(self) -> bool:
        """Return True if any record has headers."""
        spans = raw.int32s(self.spans)
        place = 4
        for _ in range(len(self.offsets)):
            # Without headers, there is only a count of one byte.
            if spans[place + 1] - spans[place] > 1:
                return True
            place += _SPAN
        return False

    def has_missing_times(self) -> bool:
        """Return True if any record has no timestamp."""
        timestamps = raw.int64s(self.timestamps_ms)
        missing = 0
        for at in range(len(self.offsets)):
            missing += timestamps[at] == -1
        return missing > 0

    def packed(self, place: int) -> Packed:
        """Return the contents at one place of each record's span, in Apache Arrow's layout.

        These are the ends, the joined contents, and bits that are 0 for null.
        """
        data = raw.readable(self.payload)
        spans = raw.int32s(self.spans)
        count = len(self.offsets)
        total = 0
        nulls = 0
        at = place
        for _ in range(count):
            size = spans[at + 1]
            if size < 0:
                nulls += 1
            else:
                total += size
            at += _SPAN
        end_array = raw.new_int32s(count + 1)
        ends = raw.int32s(end_array)
        contents = bytearray(total)
        target = raw.writable(contents)
        validity = bytearray(b"\xff" * ((count + 7) // 8)) if nulls else None
        end = 0
        ends[0] = 0
        at = place
        for i in range(count):
            size = spans[at + 1]
            if size > 0:
                raw.copy_part(target, end, data, spans[at], size)
                end += size
            elif size < 0 and validity is not None:
                validity[i >> 3] &= ~(1 << (i & 7)) & 0xFF
            ends[i + 1] = end
            at += _SPAN
        return end_array, contents, validity

    def contents(self, place: int) -> list[bytes | None]:
        """Return the contents at one place of each record's span."""
        data = raw.readable(self.payload)
        spans = raw.int32s(self.spans)
        found: list[bytes | None] = []
        for _ in range(len(self.offsets)):
            size = spans[place + 1]
            if size < 0:
                found.append(None)
            else:
                at = spans[place]
                end = at + size
                found.append(data[at:end])
            place += _SPAN
        return found

    def headers(self) -> list[Headers]:
        """Return the headers of all records."""
        reader = RecordReader(self.payload, 0, 0, 0, 0)
        spans = raw.int32s(self.spans)
        found: list[Headers] = []
        place = 4
        for _ in range(len(self.offsets)):
            reader.at = spans[place]
            reader.end = spans[place + 1]
            found.append(reader.headers(reader.header_count()))
            place += _SPAN
        return found


def index_records(
    payload: bytes | memoryview,
    record_count: int,
    base_offset: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    append_time_ms: int | None,
    from_offset: int,
) -> RecordIndex:
    """Check all records, and index those from ``from_offset`` on. This creates no object per record."""
    reader = RecordReader(payload, record_count, base_offset, last_offset_delta, base_timestamp_ms)
    stamped = append_time_ms is not None
    stamp = append_time_ms if append_time_ms is not None else 0
    offset_array = raw.new_int64s(record_count)
    timestamp_array = raw.new_int64s(record_count)
    span_array = raw.new_int32s(_SPAN * record_count)
    offsets = raw.int64s(offset_array)
    timestamps = raw.int64s(timestamp_array)
    spans = raw.int32s(span_array)
    found = 0
    place = 0
    for _ in range(record_count):
        reader.enter()
        headers_at = reader.at
        reader.skip_headers()
        if reader.offset < from_offset:
            continue
        offsets[found] = reader.offset
        timestamps[found] = stamp if stamped else reader.timestamp_ms
        spans[place] = reader.key_at
        spans[place + 1] = reader.key_size
        spans[place + 2] = reader.value_at
        spans[place + 3] = reader.value_size
        spans[place + 4] = headers_at
        spans[place + 5] = reader.end
        found += 1
        place += _SPAN
    reader.finish()
    if found < record_count:
        del offset_array[found:], timestamp_array[found:], span_array[place:]
    return RecordIndex(payload, offset_array, timestamp_array, span_array)


def join_indexes(indexes: list[RecordIndex]) -> RecordIndex:
    """Return one index for the records of several indexes, in the same order. This copies their payloads."""
    payload = b"".join([index.payload for index in indexes])
    if len(payload) > _INT32_MAX:
        raise ValueError(f"{len(payload)} bytes of records are too many for one index")
    offsets = array("q")
    timestamps_ms = array("q")
    span_array = array("i")
    for index in indexes:
        offsets.extend(index.offsets)
        timestamps_ms.extend(index.timestamps_ms)
        span_array.extend(index.spans)
    spans = raw.int32s(span_array)
    shift = 0
    place = 0
    for index in indexes:
        for _ in range(len(index.offsets)):
            spans[place] += shift
            spans[place + 2] += shift
            spans[place + 4] += shift
            spans[place + 5] += shift
            place += _SPAN
        shift += len(index.payload)
    return RecordIndex(payload, offsets, timestamps_ms, span_array)
