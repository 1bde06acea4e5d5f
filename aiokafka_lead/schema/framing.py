"""Confluent's wire format, which identifies the schema of a key or value by a prefix or in a header."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

from ..errors import SchemaContentError
from ..types import Headers

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"

ID_SIZE = 5
"""Size of the prefix in bytes: a zero byte, and the schema's id in 4 bytes."""

GUID_SIZE = 17
"""Size of the header in bytes: a byte of 1, and the schema's GUID in 16 bytes."""

MAX_INDEXES = 1000
"""Maximum number of indexes in the path to a message type, more than any nesting of message types."""

_ID = struct.Struct(">bI")


def prefix_of(schema_id: int) -> bytes:
    """Return the prefix that identifies a schema by its id (`ID_SIZE` bytes)."""
    return _ID.pack(0, schema_id)


def header_of(guid: str) -> bytes:
    """Return the value of the header that identifies a schema by its GUID (`GUID_SIZE` bytes)."""
    return b"\x01" + uuid.UUID(guid).bytes


def key_of(content: bytes, headers: Headers, is_key: bool) -> tuple[bytes, bytes | None]:
    """Return the bytes that identify the schema, and the rest of the header that contains them.

    The second item is None if the bytes are the prefix of the content. As in Java, the last header with the right name
    counts. Raises `SchemaContentError` if neither a header nor the content identifies a schema.
    """
    if headers:
        wanted = KEY_HEADER if is_key else VALUE_HEADER
        for name, value in reversed(headers):
            if name == wanted and value is not None:
                if len(value) < GUID_SIZE or value[0] != 1:
                    raise SchemaContentError(f"the header {wanted} does not contain a schema's GUID", value[:20].hex())
                return value[:GUID_SIZE], value[GUID_SIZE:]
    if content[:1] == b"\x00" and len(content) >= ID_SIZE:
        return content[:ID_SIZE], None
    if content[:1] == b"\x01" and len(content) >= GUID_SIZE:
        return content[:GUID_SIZE], None
    begin = content[:8].hex() or "nothing"
    error = SchemaContentError(f"the bytes begin with {begin}, not with a schema's id (a zero byte and four more)")
    error.unquoted = "the bytes do not begin with a schema's id"
    raise error


def id_of(key: bytes) -> int | str:
    """Return the schema's id or GUID from the bytes that `key_of` returned."""
    return _ID.unpack(key)[1] if len(key) == ID_SIZE else str(uuid.UUID(bytes=key[1:]))


# --- Protobuf's message indexes ---


def indexes_bytes(indexes: Sequence[int]) -> bytes:
    """Encode the path to a message type in its file: a count and the indexes as zigzag varints, or 0 for ``[0]``."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(_varint(number << 1) for number in (len(indexes), *indexes))


def read_indexes(content: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Decode the path to a message type at ``at``. Return the path and its end.

    Raises `SchemaContentError` if the path is invalid.
    """
    count, at = _read_varint(content, at)
    if not 0 <= count <= MAX_INDEXES:
        raise SchemaContentError(f"the path to the message type has {count} indexes")
    if count == 0:
        return (0,), at
    path = []
    for _ in range(count):
        index, at = _read_varint(content, at)
        if index < 0:
            raise SchemaContentError(f"the path to the message type has a negative index, {index}")
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
            raise SchemaContentError("the bytes end within the path to the message type")
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise SchemaContentError("the path to the message type has an index with more than 64 bits")
