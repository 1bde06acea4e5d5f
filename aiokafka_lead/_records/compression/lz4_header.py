"""The header of an lz4 frame as Java writes it, and a correction for Kafka's first lz4 writer."""

from __future__ import annotations

from ...errors import CorruptRecordError
from . import truncated

MAGIC = b"\x04\x22\x4d\x18"
BLOCK_SIZE = 64 * 1024
HEADER = MAGIC + b"\x60\x40\x82"
"""Version 1, independent blocks of `BLOCK_SIZE`, no content size, and no checksum except the header's."""

_CONTENT_SIZE_BIT = 0x08
_DICTIONARY_BIT = 0x01


def mend_header(frame: bytes) -> bytes:
    """Return a frame of message formats 0 and 1 with a correct header checksum."""
    if len(frame) < 7 or not frame.startswith(MAGIC):
        raise CorruptRecordError("a batch compressed with lz4 has no lz4 frame")
    flags = frame[4]
    at = 6 + (8 if flags & _CONTENT_SIZE_BIT else 0) + (4 if flags & _DICTIONARY_BIT else 0)
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
