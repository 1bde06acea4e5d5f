"""Parts of the wire format that compiled codecs call.

They are varints, lengths and counts, tagged fields, arrays of numbers, and ids. A reader takes
``(buffer, position, size, end)``, and returns the value and the position after it. ``size`` is the length or count that
was read just before ``position``. In inflexible messages, it is the plain number. In flexible messages (KIP-482), it is
larger by one, and may be the first byte of a longer varint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import Any, NoReturn, cast
from uuid import UUID

from ..errors import EncodeError, MalformedMessageError, UnsupportedVersionError
from .message import Buffer, Records

MAX_STRING_BYTES = 0x7FFF
"""Maximum length in bytes of a UTF-8 string that Kafka accepts, regardless of the width of its length field."""

COPY_BELOW_BYTES = 4096
"""Records with fewer bytes are copied into the current chunk, which costs less than writing another chunk."""

_KEPT_COUNT = 64
"""Layouts are kept for arrays and strings up to this length."""

uuid_from_bytes: Callable[[bytes], UUID] = lru_cache(maxsize=16384)(lambda raw: UUID(bytes=raw))
"""Create a UUID from bytes, with a cache. Topic ids repeat from frame to frame, and `UUID` is slow to create."""


ELEMENTS_MAX_BYTES = 1 << 30
"""Limit in bytes for the estimated memory of all array elements of a message.

A cluster with a million partitions needs three quarters of it.
"""


def malformed(position: int, what: str) -> NoReturn:
    raise MalformedMessageError(f"{what} does not fit in its bounds, before byte {position}")


def too_much(position: int) -> NoReturn:
    raise MalformedMessageError(f"arrays of more than {ELEMENTS_MAX_BYTES >> 20} MiB of memory, before byte {position}")


# --- varints and tagged fields ---------------------------------------------------------------------------------------


def uvarint(value: int) -> bytes:
    """Return an unsigned varint: seven bits per byte, least significant bits first."""
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7)) if value > 127 else bytes((value,))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    first = buffer[position]
    return uvarint_tail(buffer, position + 1, first) if first > 127 else (first, position + 1)


def uvarint_tail(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Return a varint of two to five bytes (32 bits). ``first`` is its first byte, just before ``position``."""
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedMessageError(f"a varint of more than 32 bits before byte {position}")


def tag_count(buffer: Buffer, position: int, count: int) -> tuple[int, int]:
    """Return the number of tagged fields. ``count`` is the first byte of that number."""
    return uvarint_tail(buffer, position, count) if count > 127 else (count, position)


def read_tags(buffer: Buffer, position: int, count: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each of ``count`` tagged fields, and the start and end of its value."""
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        limit = position + size
        if limit > end:
            malformed(position, "a tagged field")
        yield tag, position, limit
        position = limit


def skip_tags(buffer: Buffer, position: int, count: int, end: int) -> int:
    """Return the position after unknown tagged fields. ``count`` is the first byte of their number."""
    count, position = tag_count(buffer, position, count)
    for _, _, limit in read_tags(buffer, position, count, end):
        position = limit
    return position


# --- reading ---------------------------------------------------------------------------------------------------------


def compact_count(buffer: Buffer, position: int, size: int, end: int, least: int) -> tuple[int, int]:
    """Return the number of elements of an array. Each takes at least ``least`` bytes."""
    if size > 127:
        size, position = uvarint_tail(buffer, position, size)
    size -= 1
    if not 0 <= size * least <= end - position:
        malformed(position, "an array")
    return size, position


def legacy_count(buffer: Buffer, position: int, size: int, end: int, least: int) -> tuple[int, int]:
    if not 0 <= size * least <= end - position:
        malformed(position, "an array")
    return size, position


def compact_view(view: memoryview, position: int, size: int, end: int) -> tuple[memoryview, int]:
    """Return bytes as a slice of the frame. Their length was read before."""
    size, position = compact_count(view, position, size, end, 1)
    return view[position : position + size], position + size


def legacy_view(view: memoryview, position: int, size: int, end: int) -> tuple[memoryview, int]:
    size, position = legacy_count(view, position, size, end, 1)
    return view[position : position + size], position + size


def compact_string(buffer: Buffer, position: int, size: int, end: int) -> tuple[str, int]:
    if size > 127:
        size, position = uvarint_tail(buffer, position, size)
    stop = position + size - 1
    if size == 0 or stop > end:
        malformed(position, "a string")
    return str(buffer[position:stop], "utf-8"), stop


def legacy_string(buffer: Buffer, position: int, size: int, end: int) -> tuple[str, int]:
    stop = position + size
    if size < 0 or stop > end:
        malformed(position, "a string")
    return str(buffer[position:stop], "utf-8"), stop


class ArrayReaders(dict[int, Callable[[Buffer, int], tuple[Any, ...]]]):
    """``readers[size](buffer, position)`` unpacks an array of numbers.

    ``kind`` is their format character. ``offset`` is 1 if ``size`` is one more than the count. If the buffer cannot
    contain that many numbers, `struct` fails before any object is created. Null also fails, because no format has a
    negative count.
    """

    def __init__(self, kind: str, offset: int) -> None:
        super().__init__()
        self._kind = kind
        self._offset = offset

    def __missing__(self, size: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
        reader = Layout(f">{size - self._offset}{self._kind}").unpack_from
        if size <= _KEPT_COUNT:
            self[size] = reader
        return reader


# --- writing ---------------------------------------------------------------------------------------------------------


class CompactSizes(dict[int, bytes]):
    """``sizes[n]`` is the varint before an array, a string or bytes of length n in a flexible message."""

    def __missing__(self, size: int) -> bytes:
        encoded = uvarint(size + 1)
        if size <= _KEPT_COUNT:
            self[size] = encoded
        return encoded


compact_sizes = CompactSizes()


class SizedWriters(dict[int, Callable[..., bytes]]):
    """``writers[n](*run, size, *values)`` packs fields of fixed size, a length or count, and n values.

    ``run`` contains the formats of the fields of fixed size. ``size`` is the format of the length, or "" for a varint,
    which is passed as bytes. ``kind`` is the format character of the values, "s" for n bytes together, or "" if there
    is only a count.
    """

    def __init__(self, run: str, size: str, kind: str, limit: int | None) -> None:
        super().__init__()
        self._run = run
        self._size = size
        self._kind = kind
        self._limit = limit
        """Maximum length of a string in Kafka if this object writes strings, otherwise None."""

    def __missing__(self, count: int) -> Callable[..., bytes]:
        if self._limit is not None and count > self._limit:
            raise EncodeError(f"a string has {count} bytes; Kafka allows at most {self._limit}")
        size = self._size or f"{len(compact_sizes[count])}s"
        values = f"{count}{self._kind}" if self._kind else ""
        writer = Layout(f">{self._run}{size}{values}").pack
        if count <= _KEPT_COUNT:
            self[count] = writer
        return writer


def tagged_field(tag: int, value: bytearray) -> bytes:
    return b"".join((uvarint(tag), uvarint(len(value)), value))


def put_records(chunks: list[Buffer], out: bytearray, records: Records, flexible: bool) -> bytearray:
    """Write a length and the records. Large buffers become separate chunks. Return the chunk to continue with."""
    if records is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
        return out
    if isinstance(records, (bytes, bytearray, memoryview)):
        parts: Sequence[Buffer] = (cast("Buffer", records),)
        size = len(records)
    else:
        parts = records
        size = sum(map(len, parts))
    out += compact_sizes[size] if flexible else size.to_bytes(4, "big", signed=True)
    if size < COPY_BELOW_BYTES:
        for part in parts:
            out += part
        return out
    chunks.append(out)
    chunks.extend(parts)
    return bytearray()


def missing_field(message: object, name: str, version: int) -> NoReturn:
    """Raise the error for a value of the field ``name``, which this version of the message lacks."""
    raise UnsupportedVersionError(f"{type(message).__name__} version {version} has no field {name}")


def null_field(message: object, name: str, version: int) -> NoReturn:
    """Raise the error for a field ``name`` that is None, which this version of the message does not allow."""
    raise UnsupportedVersionError(f"{type(message).__name__} version {version} allows no null in field {name}")
