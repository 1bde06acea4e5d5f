"""Batches that are small until they are decompressed."""

from __future__ import annotations

import struct

import zstandard

from aiokafka_lead._records import StoredRecord, build_batch, compress
from aiokafka_lead._records.layout import ATTRIBUTES_AT, CODEC_IDS, HEADER_SIZE, LENGTH_AT, LOG_OVERHEAD, write_crc


def bomb(codec: str, size: int, offset: int = 0, last_offset_delta: int = 0) -> bytes:
    """Return a batch with one record of this many zeros; only its decompression shows its size."""
    record = StoredRecord(1000, None, bytes(size), offset=offset)
    plain = build_batch([record], base_offset=offset, leader_epoch=3, last_offset_delta=last_offset_delta)
    if codec == "zstd":  # streamed like Java's, and with the largest accepted window
        stream = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
        payload = zstandard.ZstdCompressor(compression_params=stream).compress(plain[HEADER_SIZE:])
    else:
        payload = compress(codec, plain[HEADER_SIZE:])
    made = bytearray(plain[:HEADER_SIZE] + payload)
    struct.pack_into(">i", made, LENGTH_AT, len(made) - LOG_OVERHEAD)
    struct.pack_into(">h", made, ATTRIBUTES_AT, CODEC_IDS[codec])
    write_crc(made)
    return bytes(made)
