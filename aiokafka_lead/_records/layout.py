"""Layout of a record batch (message format 2, KIP-98): offsets of fields, bits of attributes, control types."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast, get_args

from ..types import CompressionType

# --- checksums --------------------------------------------------------------------------------------------------------
#
# CRC-32C (Castagnoli), from the C extension of the package crc32c, or in Python if that is not available. A zip of
# Python files, as Spark sends it to executors, contains no extensions. The code in Python reaches about 10 MB/s.
#
# The extension is imported directly. Importing the package would read its version through ``importlib.metadata``, which
# imports ``email`` and many other modules. That takes 30 ms and 5 MiB, more than the rest of this client.


Checksum = Callable[["bytes | bytearray | memoryview"], int]


def _extension() -> Checksum | None:
    package = find_spec("crc32c")
    spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Checksum | None", getattr(module, "crc32c", None))


def _package() -> Checksum | None:
    try:
        import crc32c
    except ImportError:
        return None
    return crc32c.crc32c


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


def in_python() -> Checksum:
    """Return the function `crc32c` in plain Python, for installations without an extension."""
    table = _table()

    def crc32c(data: bytes | bytearray | memoryview) -> int:
        crc = 0xFFFFFFFF
        for byte in memoryview(data).cast("B") if isinstance(data, memoryview) else data:
            crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
        return crc ^ 0xFFFFFFFF

    return crc32c


crc32c: Checksum = _extension() or _package() or in_python()


Header = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of `HEADER` in order."""

HEADER = struct.Struct(">qiibIhiqqqhii")
"""base_offset, batch_length, leader_epoch, magic, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
producer_id, producer_epoch, base_sequence, record_count."""

HEADER_SIZE = HEADER.size
LENGTH_AT = 8
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
"""The CRC covers all bytes from this offset on. Base offset and leader epoch may therefore change without a new CRC."""

LOG_OVERHEAD = 12
"""Number of bytes that are not included in batch_length, or in the size of an older message."""


def offset_past(batches: memoryview, offset: int) -> int:
    """Return the offset after the batch at or after this offset, even if the batch is corrupt. -1 if it is unknown.

    The last offset in a batch may also be corrupt, so it must be consistent with the number of records and with the
    following batch.
    """
    at = 0
    while at + HEADER_SIZE <= len(batches):
        base, length, _, magic, _, _, delta, *_, count = HEADER.unpack_from(batches, at)
        if magic != 2 or length < HEADER_SIZE - LOG_OVERHEAD:
            break
        end: int = base + delta + 1 if 0 <= count <= delta + 1 else -1
        at += LOG_OVERHEAD + length
        if at + HEADER_SIZE <= len(batches):
            following: int = HEADER.unpack_from(batches, at)[0]
            if following > base and not base < end <= following:
                end = following
        if end > offset:
            return end
    return -1


CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
# 0x40 (KIP-534): the log cleaner stores its horizon in base_timestamp and rewrites the deltas. Reading does not change.

CODEC_NAMES: tuple[str, ...] = get_args(CompressionType)
"""The compression codecs, by their id in the attributes."""

CODEC_IDS = {name: codec for codec, name in enumerate(CODEC_NAMES)}


INT32_MAX = 2**31 - 1

DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
"""Default limit in bytes for the decompressed size of a batch."""


def write_header(
    batch: bytearray,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> None:
    """Write the header, including length and checksum, before records that are already in place."""
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    write_crc(batch)


def write_crc(batch: bytearray) -> None:
    """Write the checksum of an otherwise finished batch."""
    with memoryview(batch) as view:
        checksum: int = crc32c(view[ATTRIBUTES_AT:])
    batch[CRC_AT:ATTRIBUTES_AT] = checksum.to_bytes(4, "big")


class ControlType(IntEnum):
    """Types of control records (Java: ``ControlRecordType``)."""

    UNKNOWN = -1
    """An unknown type, which readers skip."""
    ABORT = 0
    """The producer's transaction was aborted. Its records since the last marker must be ignored."""
    COMMIT = 1
    """The producer's transaction was committed."""
    LEADER_CHANGE = 2
    """A leader was elected (KRaft's metadata log)."""
    SNAPSHOT_HEADER = 3
    """Start of a snapshot (KRaft's metadata log)."""
    SNAPSHOT_FOOTER = 4
    """End of a snapshot (KRaft's metadata log)."""
    KRAFT_VERSION = 5
    """Version of the quorum's protocol (KRaft's metadata log)."""
    KRAFT_VOTERS = 6
    """Set of voters (KRaft's metadata log)."""

    @classmethod
    def _missing_(cls, value: object) -> ControlType:
        return cls.UNKNOWN
