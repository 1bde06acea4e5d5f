"""The compression codecs alone: other writers' framings, truncation, and data made to explode."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._records import compress, decompress
from aiokafka_lead._records.compression import compresses_slowly
from aiokafka_lead._records.legacy import mend_header, xxhash32_short
from aiokafka_lead.errors import BatchTooLargeError, CorruptRecordError

CODECS = ("gzip", "snappy", "lz4", "zstd")
TEXT = b"".join(b'{"id": %d, "name": "event", "ok": true}\n' % i for i in range(5000))
BOUND = 1 << 20


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=2000), repeat=st.integers(1, 200))
def test_round_trip(name: str, data: bytes, repeat: int) -> None:
    for form in (bytes, bytearray, memoryview):
        assert decompress(name, compress(name, form(data * repeat)), len(data) * repeat) == data * repeat


@pytest.mark.parametrize(("name", "level"), [("gzip", 1), ("gzip", 9), ("lz4", 12), ("zstd", -5), ("zstd", 19)])
def test_levels(name: str, level: int) -> None:
    compressed = compress(name, TEXT, level)
    assert compressed != compress(name, TEXT)
    assert decompress(name, compressed, BOUND) == TEXT


@pytest.mark.parametrize("name", CODECS)
def test_exactly_the_bound_is_allowed(name: str) -> None:
    compressed = compress(name, TEXT)
    assert decompress(name, compressed, len(TEXT)) == TEXT
    with pytest.raises(BatchTooLargeError, match=f"larger than {len(TEXT) - 1} bytes"):
        decompress(name, compressed, len(TEXT) - 1)


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4"])
def test_truncated(name: str) -> None:
    compressed = compress(name, TEXT)
    for end in [0, 1, 5, 6, 7, 15, 16, 17, 19, 20, len(compressed) // 2, len(compressed) - 1]:
        if (name, end) == ("snappy", 16):  # a xerial stream without blocks is complete
            continue
        with pytest.raises(CorruptRecordError):
            decompress(name, compressed[:end], BOUND)


def test_truncated_zstd_gives_less_than_there_was() -> None:
    compressed = compress("zstd", TEXT)
    for end in range(0, len(compressed), 97):
        try:
            assert len(decompress("zstd", compressed[:end], BOUND)) < len(TEXT)
        except CorruptRecordError:
            pass


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(max_size=300))
def test_garbage(name: str, data: bytes) -> None:
    whole = compress(name, TEXT[:2000])
    for garbage in (data, whole[: len(data)] + data, whole[:30] + data):
        try:
            assert len(decompress(name, garbage, BOUND)) <= BOUND
        except (BatchTooLargeError, CorruptRecordError):
            pass


ZEROS = bytes(20_000_000)


def streamed_zstd() -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(ZEROS) + stream.flush()


def lying_zstd() -> bytes:
    """Return a frame that declares 50,000 bytes more than it has."""
    frame = bytearray(zstandard.ZstdCompressor().compress(b"x" * 1000))
    assert zstandard.frame_content_size(bytes(frame)) == 1000
    frame[5:7] = (51_000 - 256).to_bytes(2, "little")
    return bytes(frame)


BOMBS: dict[str, Callable[[], bytes]] = {
    "gzip": lambda: gzip.compress(ZEROS),
    "gzip, many members": lambda: gzip.compress(ZEROS[:1000]) * 2000,
    "snappy, raw": lambda: bytes(cramjam.snappy.compress_raw(ZEROS)),
    "snappy, xerial": lambda: compress("snappy", ZEROS),
    "snappy, claims more than its bytes could hold": lambda: b"\xff\xff\x3f" + b"\x00" * 20,
    "lz4": lambda: lz4.frame.compress(ZEROS, store_size=False),
    "lz4, with content size": lambda: lz4.frame.compress(ZEROS),
    "zstd": lambda: zstandard.ZstdCompressor().compress(ZEROS),
    "zstd, streamed": streamed_zstd,
    "zstd, many frames": lambda: zstandard.ZstdCompressor().compress(ZEROS[:1000]) * 2000,
    "zstd, a lie about its size": lying_zstd,
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_bombs_do_not_go_off(name: str) -> None:
    bomb = BOMBS[name]()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError if "lie" in name or "claims" in name else BatchTooLargeError):
            decompress(name.partition(",")[0], bomb, BOUND)
        # The output so far, its target, and a copy of the input.
        assert tracemalloc.get_traced_memory()[1] < 3 * BOUND + len(bomb)
    finally:
        tracemalloc.stop()


def test_gzip_of_several_members() -> None:
    assert decompress("gzip", gzip.compress(b"ab") + gzip.compress(b"cd"), BOUND) == b"abcd"


def test_snappy_as_java_writes_it() -> None:
    compressed = compress("snappy", TEXT)
    assert compressed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(compressed[16:20], "big")
    assert len(bytes(cramjam.snappy.decompress_raw(compressed[20 : 20 + first]))) == 32 * 1024


def test_snappy_of_other_writers() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress("snappy", raw, BOUND) == TEXT
    assert decompress("snappy", compress("snappy", b"ab") + compress("snappy", b"cd"), BOUND) == b"abcd"


def test_lz4_as_java_writes_it() -> None:
    info = lz4.frame.get_frame_info(compress("lz4", TEXT))
    assert info["block_size"] == 65536
    assert not info["block_linked"]
    assert not info["content_checksum"]
    assert info["content_size"] == 0


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checksums", [False, True])
def test_lz4_of_other_writers(store_size: bool, linked: bool, checksums: bool) -> None:
    frame = lz4.frame.compress(
        TEXT, store_size=store_size, block_linked=linked, content_checksum=checksums, block_checksum=checksums
    )
    assert decompress("lz4", frame, BOUND) == TEXT
    broken = bytearray(frame)
    broken[14 if store_size else 6] ^= 0x55
    with pytest.raises(CorruptRecordError):
        decompress("lz4", bytes(broken), BOUND)
    assert mend_header(bytes(broken)) == frame


def test_xxhash32() -> None:
    # From the specification's sanity checks.
    assert xxhash32_short(b"") == 0x02CC5D05
    assert xxhash32_short(b"\x9e") == 0xB85CBEE5
    assert xxhash32_short(bytes.fromhex("9eff1f4b5e532fddb5544d2a952b")) == 0xE5AA0AB4


def test_zstd_as_java_streams_it() -> None:
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    frame = stream.compress(TEXT) + stream.flush()
    assert zstandard.frame_content_size(frame) == -1
    assert decompress("zstd", frame, BOUND) == TEXT
    assert decompress("zstd", frame + compress("zstd", b"more"), BOUND) == TEXT + b"more"


def test_zstd_in_many_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def there_and_back(number: int) -> bool:
        data = TEXT[number:] * 3
        return decompress("zstd", compress("zstd", data), BOUND) == data

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(there_and_back, range(64)))


def test_unknown_codec(codec: Any) -> None:
    with pytest.raises(KeyError):
        codec.compress("brotli", b"")


@pytest.mark.parametrize(
    ("name", "fast", "slow"),
    [
        ("none", [None], []),
        ("snappy", [None, 9], []),
        ("gzip", [0], [None, -1, 1, 6, 9]),
        ("lz4", [None, -3, 0, 2], [3, 12]),
        ("zstd", [None, -5, 1, 3], [5, 22]),
    ],
)
def test_which_codecs_are_slow(name: str, fast: list[int | None], slow: list[int | None]) -> None:
    assert not any(compresses_slowly(name, level) for level in fast)
    assert all(compresses_slowly(name, level) for level in slow)
