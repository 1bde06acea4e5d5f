"""CRC-32C (Castagnoli), from the crc32c package's C extension alone.

Importing the package itself reads its version through ``importlib.metadata``, which brings in ``email`` and much else:
30 ms and 5 MiB, more than the rest of this client takes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import cast

__all__ = ["crc32c"]

Checksum = Callable[["bytes | bytearray | memoryview"], int]


def _extension() -> Checksum | None:
    package = find_spec("crc32c")
    spec = package and PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Checksum | None", getattr(module, "crc32c", None))


def _package() -> Checksum:
    import crc32c

    return crc32c.crc32c


crc32c: Checksum = _extension() or _package()
