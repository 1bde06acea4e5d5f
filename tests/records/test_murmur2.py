"""murmur2 is Java's: keys go to the partitions that Java's producer gives them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from .peers import MURMUR2
from .variants import VARIANTS


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # From Apache Kafka's own tests (UtilsTest).
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_javas_vectors(codec: Any, key: bytes, expected: int) -> None:
    assert codec.murmur2(key) == expected


@given(st.binary(max_size=70))
@example(b"")
@example(b"\xff" * 67)
def test_other_clients_agree(key: bytes) -> None:
    [expected] = {murmur2(key) & 0xFFFFFFFF for murmur2 in MURMUR2.values()}
    for codec in VARIANTS.values():
        assert codec.murmur2(key) & 0xFFFFFFFF == expected
        assert -(2**31) <= codec.murmur2(key) < 2**31


def test_only_bytes_have_a_partition(codec: Any) -> None:
    with pytest.raises(TypeError):
        codec.murmur2(None)
