"""lz4 in its frame format: independent blocks of 64 KiB, as Java writes it."""

from __future__ import annotations

import lz4.frame

from ...errors import CorruptRecordError
from .bound import first_step, too_large, truncated

ERRORS = (RuntimeError, ValueError)

_MAGIC = b"\x04\x22\x4d\x18"
_CONTENT_SIZE_BIT = 0x08
_DICTIONARY_BIT = 0x01


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """One frame without content size or checksums."""
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """One frame."""
    frame = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    size = 0
    step = first_step(len(data))
    rest: bytes | memoryview = data
    while not frame.eof:
        # One byte more than allowed tells "too large" from "just fits".
        part = frame.decompress(rest, max_length=min(step, max_bytes - size + 1))
        size += len(part)
        if size > max_bytes:
            raise too_large("lz4", max_bytes)
        if not frame.eof and frame.needs_input:
            raise truncated("lz4")
        parts.append(part)
        rest = b""
    return parts[0] if len(parts) == 1 else b"".join(parts)


def mend_header(frame: bytes) -> bytes:
    """A frame of message formats 0 and 1 with the header checksum that the frame format asks for.

    Kafka's first lz4 writer hashed the magic number too (KIP-57), and readers of these formats ignore the checksum.
    """
    if len(frame) < 7 or not frame.startswith(_MAGIC):
        raise CorruptRecordError("a batch compressed with lz4 has no lz4 frame")
    flags = frame[4]
    at = 6 + (8 if flags & _CONTENT_SIZE_BIT else 0) + (4 if flags & _DICTIONARY_BIT else 0)
    if len(frame) <= at:
        raise truncated("lz4")
    checksum = (xxhash32_short(frame[4:at]) >> 8) & 0xFF
    return frame[:at] + bytes((checksum,)) + frame[at + 1 :]


def xxhash32_short(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which is all that a frame's header has."""
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
