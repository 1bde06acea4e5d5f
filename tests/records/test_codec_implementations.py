"""All implementations of lz4 and zstd read each other's output, and refuse the same input."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lead._records.compression import CODECS
from aiokafka_lead._records.compression.lz4_by_cramjam import BLOCK_SIZE, HEADER
from aiokafka_lead.errors import BatchTooLargeError, CorruptRecordError

from .test_compression import BOMBS, BOUND, TEXT

SEVERAL = {name: codec.implementations for name, codec in CODECS.items() if len(codec.implementations) > 1}
PAIRS = [(codec, *pair) for codec, names in SEVERAL.items() for pair in product(names, repeat=2)]
EACH = [(codec, name) for codec, names in SEVERAL.items() for name in names]
LEVELS = {"lz4": [None, -3, 2, 3, 12], "zstd": [None, -5, 1, 9]}
INCOMPRESSIBLE = bytes((n * n * 7919 >> 5) & 0xFF for n in range(70_000))


def implementation(name: str) -> Any:
    return import_module(f"aiokafka_lead._records.compression.{name}")


@pytest.mark.parametrize(("codec", "writer", "reader"), PAIRS)
def test_what_one_writes_the_other_reads(codec: str, writer: str, reader: str) -> None:
    for level, plain in product(LEVELS[codec], [b"", b"x", TEXT[:65_536], TEXT, INCOMPRESSIBLE]):
        compressed = implementation(writer).compress(plain, level)
        assert compressed == implementation(writer).compress(memoryview(bytearray(plain)), level)
        assert implementation(reader).decompress(memoryview(compressed), len(plain)) == plain


@pytest.mark.parametrize("codec", SEVERAL)
@settings(max_examples=30)
@given(data=st.binary(max_size=500), repeat=st.integers(1, 400))
def test_any_data(codec: str, data: bytes, repeat: int) -> None:
    plain = data * repeat
    for writer, reader in product(map(implementation, SEVERAL[codec]), repeat=2):
        assert reader.decompress(writer.compress(plain, None), len(plain)) == plain


@pytest.mark.parametrize("name", SEVERAL["lz4"])
def test_lz4_is_framed_as_java_does_it(name: str) -> None:
    compressed = implementation(name).compress(TEXT, None)
    assert compressed.startswith(HEADER)
    assert compressed.endswith(bytes(4))  # the end mark, without a checksum after it
    at, blocks = len(HEADER), 0
    while (size := int.from_bytes(compressed[at : at + 4], "little")) != 0:
        at, blocks = at + 4 + size, blocks + 1
    assert (at, blocks) == (len(compressed) - 4, -(-len(TEXT) // BLOCK_SIZE))


@pytest.mark.parametrize(("codec", "name"), EACH)
def test_exactly_the_bound_is_allowed(codec: str, name: str) -> None:
    for writer in SEVERAL[codec]:
        compressed = implementation(writer).compress(TEXT, None)
        assert implementation(name).decompress(compressed, len(TEXT)) == TEXT
        for bound in (len(TEXT) - 1, 100):
            with pytest.raises(BatchTooLargeError, match=f"larger than {bound} bytes"):
                implementation(name).decompress(compressed, bound)


@pytest.mark.parametrize(("codec", "name"), EACH)
@pytest.mark.parametrize("bomb", [name for name in BOMBS if name.startswith(("lz4", "zstd"))])
def test_bombs_do_not_go_off(codec: str, name: str, bomb: str) -> None:
    if not bomb.startswith(codec):
        return
    module = implementation(name)
    with pytest.raises((BatchTooLargeError, *module.ERRORS)) as caught:
        module.decompress(BOMBS[bomb](), BOUND)
    assert ("lie" in bomb) == (not isinstance(caught.value, BatchTooLargeError))


@pytest.mark.parametrize(("codec", "name"), EACH)
@given(data=st.binary(max_size=300))
def test_garbage(codec: str, name: str, data: bytes) -> None:
    module = implementation(name)
    whole = module.compress(TEXT[:2000], None)
    for garbage in (data, whole[: len(data)] + data, whole[:30] + data, whole[: -1 - len(data)]):
        try:
            assert len(module.decompress(garbage, BOUND)) <= BOUND
        except (BatchTooLargeError, CorruptRecordError, *module.ERRORS):
            pass


@pytest.mark.parametrize(("codec", "name"), EACH)
def test_in_many_threads(codec: str, name: str) -> None:
    module = implementation(name)

    def there_and_back(number: int) -> bool:
        plain = TEXT[number:] * 3
        return bool(module.decompress(module.compress(plain, None), BOUND) == plain)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(there_and_back, range(64)))


@pytest.mark.parametrize("name", SEVERAL["zstd"])
def test_zstd_as_java_streams_it_and_frames_that_follow(name: str) -> None:
    import zstandard

    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    frame = stream.compress(TEXT) + stream.flush()
    skipped = b"\x50\x2a\x4d\x18\x02\x00\x00\x00ab"
    assert implementation(name).decompress(frame, BOUND) == TEXT
    assert implementation(name).decompress(frame + skipped + frame, BOUND) == TEXT + TEXT
