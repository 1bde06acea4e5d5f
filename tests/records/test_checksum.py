"""CRC-32C without an extension."""

from __future__ import annotations

import pytest

from aiokafka_lead._records.layout import crc32c, in_python


@pytest.mark.parametrize("data", [b"", b"123456789", bytes(range(256)) * 3])
def test_python_says_what_the_extension_says(data: bytes) -> None:
    plain = in_python()
    assert plain(data) == plain(memoryview(data)) == plain(bytearray(data)) == crc32c(data)
    assert in_python()(b"123456789") == 0xE3069283
