"""CRC-32C (Castagnoli), from the crc32c package's C extension, or in Python if that is not available.

A zip of Python files, as Spark sends to executors, has no extensions. Python does some 10 MB/s.

Importing the package itself reads its version through ``importlib.metadata``, which brings in ``email`` and much else:
30 ms and 5 MiB, more than the rest of this client takes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

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
    """Return the same function without an extension."""
    table = _table()

    def crc32c(data: bytes | bytearray | memoryview) -> int:
        crc = 0xFFFFFFFF
        for byte in memoryview(data).cast("B") if isinstance(data, memoryview) else data:
            crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
        return crc ^ 0xFFFFFFFF

    return crc32c


crc32c: Checksum = _extension() or _package() or in_python()
