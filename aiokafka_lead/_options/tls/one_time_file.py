"""A temporary file that only OpenSSL reads: Python loads keys only from files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_time_file"]


@contextmanager
def one_time_file(content: bytes) -> Iterator[str]:
    """Provide the path of a file with this content inside the block; in memory if possible, else mode 0600."""
    handle, path, on_disk = _create()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if on_disk:
            os.unlink(path)


def _create() -> tuple[int, str, bool]:
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("tls")
        path = f"/proc/self/fd/{handle}"
        if os.path.exists(path):
            return handle, path, False
        os.close(handle)
    handle, path = tempfile.mkstemp()
    return handle, path, True
