"""Identification of a key's or value's schema, before its bytes or in a header (Confluent's format)."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

from ..errors import SchemaContentError
from ..types import Headers

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"

ID_SIZE = 5
"""A zero byte and the schema's id, 4 bytes."""

GUID_SIZE = 17
"""A byte of 1 and the schema's GUID."""

MAX_INDEXES = 1000
"""Maximum length of a path: more than any nesting of messages."""

_ID = struct.Struct(">bI")


def prefix_of(schema_id: int) -> bytes:
    """Return the prefix that identifies the schema in the content."""
    return _ID.pack(0, schema_id)


def header_of(guid: str) -> bytes:
    """Return the value of the header that identifies the schema."""
    return b"\x01" + uuid.UUID(guid).bytes


def key_of(content: bytes, headers: Headers, is_key: bool) -> tuple[bytes, bytes | None]:
    """Return the bytes that identify the schema, and the rest of their header, or None if they are in the content.

    The last header with the right name counts, as in Java. Raises `SchemaContentError` if neither a header nor the
    content identifies a schema.
    """
    if headers:
        wanted = KEY_HEADER if is_key else VALUE_HEADER
        for name, value in reversed(headers):
            if name == wanted and value is not None:
                if len(value) < GUID_SIZE or value[0] != 1:
                    raise SchemaContentError(f"the header {wanted} does not hold a schema's GUID", value[:20].hex())
                return value[:GUID_SIZE], value[GUID_SIZE:]
    if content[:1] == b"\x00" and len(content) >= ID_SIZE:
        return content[:ID_SIZE], None
    if content[:1] == b"\x01" and len(content) >= GUID_SIZE:
        return content[:GUID_SIZE], None
    begin = content[:8].hex() or "nothing"
    error = SchemaContentError(f"the bytes begin with {begin}, and not with a schema's id (a zero byte and four more)")
    error.unquoted = "the bytes do not begin with a schema's id"
    raise error


def id_of(key: bytes) -> int | str:
    """Return the schema's id or GUID from the bytes that `key_of` returned."""
    return _ID.unpack(key)[1] if len(key) == ID_SIZE else str(uuid.UUID(bytes=key[1:]))


# --- Protobuf's message indexes ---


def indexes_bytes(indexes: Sequence[int]) -> bytes:
    """Return a message type's path in its file: zigzag numbers after their count, or zero for the first type."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))


def read_indexes(content: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the path, and its end. Raises `SchemaContentError`."""
    count, at = _read_varint(content, at)
    if not 0 <= count <= MAX_INDEXES:
        raise SchemaContentError(f"the bytes name a message type by {count} indexes")
    if count == 0:
        return (0,), at
    path = []
    for _ in range(count):
        index, at = _read_varint(content, at)
        if index < 0:
            raise SchemaContentError(f"the bytes name a message type by the index {index}")
        path.append(index)
    return tuple(path), at


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 64:
        if at >= len(content):
            raise SchemaContentError("the bytes end within a message type's indexes")
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise SchemaContentError("a message type's index is longer than 64 bits")
