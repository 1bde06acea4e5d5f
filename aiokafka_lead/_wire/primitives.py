"""The parts of the wire format that the compiled codecs call at run time: varints, tags, bulk arrays, ids, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import Any, NoReturn, cast
from uuid import UUID

from ..errors import EncodeError, MalformedMessageError, UnsupportedVersionError
from .message import Buffer, Records

MAX_STRING_BYTES = 0x7FFF
"""The longest string that Kafka accepts, in UTF-8, whatever the width of its length field."""

COPY_BELOW_BYTES = 4096
"""Records smaller than this are copied into the chunk at hand: cheaper than a chunk more in the write."""

uuid_from_bytes: Callable[[bytes], UUID] = lru_cache(maxsize=16384)(lambda raw: UUID(bytes=raw))
"""Topic ids repeat from frame to frame and `UUID` is slow to make."""


class ArrayReaders(dict[int, Callable[[Buffer, int], tuple[Any, ...]]]):
    """``readers[n](buffer, position)`` unpacks n values of one format; short ones are kept."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, count: int) -> Callable[[Buffer, int], tuple[Any, ...]]:
        reader = Layout(f">{count}{self._kind}").unpack_from
        if count <= 64:
            self[count] = reader
        return reader


class ArrayWriters(dict[int, Callable[..., bytes]]):
    """``writers[n](*values)`` packs n values of one format; short ones are kept."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def __missing__(self, count: int) -> Callable[..., bytes]:
        writer = Layout(f">{count}{self._kind}").pack
        if count <= 64:
            self[count] = writer
        return writer


def uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the least significant first."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """The unsigned varint at ``position``, and the position after it."""
    first = buffer[position]
    return uvarint_tail(buffer, position + 1, first) if first > 127 else (first, position + 1)


def uvarint_tail(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte is known to have a successor. 32 bits at most, hence five bytes."""
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


def skip_tags(buffer: Buffer, position: int, count: int) -> int:
    """The position after a section of ``count`` tagged fields that this schema does not know.

    ``count`` is the section's first byte, which may be the start of a longer varint.
    """
    if count > 127:
        count, position = uvarint_tail(buffer, position, count)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > len(buffer):
            malformed(position, "a tagged field")
    return position


def malformed(position: int, what: str) -> NoReturn:
    raise MalformedMessageError(f"{what} does not fit in its bounds, before byte {position}")


def missing_field(message: object, name: str, version: int) -> NoReturn:
    """``name`` has a value that this version of the message cannot carry."""
    raise UnsupportedVersionError(f"{type(message).__name__} version {version} has no field {name}")


def null_field(message: object, name: str, version: int) -> NoReturn:
    """``name`` is None, which other versions of the message allow but this one does not."""
    raise UnsupportedVersionError(f"{type(message).__name__} version {version} allows no null in field {name}")


def long_string(encoded: bytes) -> bytes:
    """A string with its compact length, where that takes more than a byte."""
    if len(encoded) > MAX_STRING_BYTES:
        raise EncodeError(f"a string of {len(encoded)} bytes: Kafka allows {MAX_STRING_BYTES}")
    return uvarint(len(encoded) + 1) + encoded


def put_records(chunks: list[Buffer], out: bytearray, records: Records, flexible: bool) -> bytearray:
    """Writes a length and the records; large buffers become chunks of their own. Returns the chunk to go on with."""
    if records is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
        return out
    if isinstance(records, (bytes, bytearray, memoryview)):
        parts: Sequence[Buffer] = [cast("Buffer", records)]
    else:
        parts = records
    size = sum(part.nbytes if isinstance(part, memoryview) else len(part) for part in parts)
    out += uvarint(size + 1) if flexible else size.to_bytes(4, "big", signed=True)
    if size < COPY_BELOW_BYTES:
        for part in parts:
            out += part
        return out
    chunks.append(out)
    chunks.extend(parts)
    return bytearray()
