"""Records for the tests, and Hypothesis strategies for them."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from hypothesis import strategies as st

from aiokafka_lead.types import Header

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RecordTuple = tuple[int, bytes | None, bytes | None, tuple[Header, ...]]
"""timestamp_ms, key, value, headers."""

NOW = 1_700_000_000_000

contents = st.one_of(
    st.none(), st.binary(max_size=40), st.sampled_from([b"x" * 63, b"x" * 64, b"x" * 8191, b"x" * 8192])
)
headers: st.SearchStrategy[tuple[Header, ...]] = st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), st.none() | st.binary(max_size=20)),
    max_size=4,
).map(tuple)
timestamps = st.one_of(st.integers(0, 2**63 - 1), st.integers(NOW - 1000, NOW + 1000))
records = st.lists(st.tuples(timestamps, contents, contents, headers), min_size=1, max_size=20)

SAMPLE: list[RecordTuple] = [
    (
        NOW + i * 7 - (i % 3) * 20,
        None if i % 4 == 0 else b"k%d" % i,
        None if i % 5 == 0 else b"v" * i,
        () if i % 3 else (("h", b"x" * i), ("ü", None), ("e", b"")),
    )
    for i in range(200)
]
"""Nulls, empty values, decreasing times, sizes of one and two varint bytes, headers of every kind."""


def built(codec: Any, wanted: list[RecordTuple], compression: str = "none", **state: Any) -> bytes:
    """Return a batch of ``wanted``, from the codec's own builder."""
    builder = codec.BatchBuilder(batch_size=10_000_000, compression=compression)
    for index, record in enumerate(wanted):
        assert builder.append(*record) == index
    return bytes(builder.build(**state))


def read(codec: Any, batch: bytes, from_offset: int = 0) -> list[RecordTuple]:
    """Return the records that ``codec`` reads from one batch."""
    [view] = codec.read_batches(batch)
    return [(r.timestamp_ms, r.key, r.value, r.headers) for r in view.records("t", 0, from_offset)]


def message(
    magic: int, offset: int, key: bytes | None, value: bytes | None, timestamp: int = NOW, attributes: int = 0
) -> bytes:
    """Return one message of format 0 or 1, by the specification."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
