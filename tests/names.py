"""Names that resolve to what a test says."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["Names", "needs_loopbacks", "resolving"]

Names = dict[str, Sequence[str]]
"""The addresses of each name, which a test may change at any time."""

needs_loopbacks = pytest.mark.skipif(sys.platform != "linux", reason="all of 127.0.0.0/8 is here on Linux alone")


@contextmanager
def resolving() -> Iterator[Names]:
    """Stands before the operating system's resolver, which has no names for a test, for as long as the block lasts."""
    table: Names = {}
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in table:
            return real(host, port, family, type, proto, flags)
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "a name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in table[name]]

    socket.getaddrinfo = resolve  # type: ignore[assignment]
    try:
        yield table
    finally:
        socket.getaddrinfo = real
