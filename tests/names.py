"""Names that resolve to addresses chosen by the test."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["STRANGE", "Names", "Stranger", "needs_loopbacks", "resolving"]

Names = dict[str, Sequence[str]]
"""The addresses of each name, which a test may change at any time."""

needs_loopbacks = pytest.mark.skipif(sys.platform != "linux", reason="all of 127.0.0.0/8 is here on Linux alone")


@contextmanager
def resolving(table: Names | None = None) -> Iterator[Names]:
    """Replace the operating system's resolver during the block, for the names in ``table``, or in a new table."""
    table = {} if table is None else table
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in table:
            return real(host, port, family, type, proto, flags)
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "a name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in table[name]]

    socket.getaddrinfo = resolve
    try:
        yield table
    finally:
        socket.getaddrinfo = real


STRANGE = "127.0.0.2"
"""Address of a `Stranger`."""


class Stranger:
    """A server in a thread, on the same port as another server, but at the address `STRANGE`.

    It sends the given bytes, or none, to each client that connects.
    """

    def __init__(self, port: int, says: bytes | None) -> None:
        self.visits = 0
        self._listener = socket.create_server((STRANGE, port))
        self._says = says
        self._visitors: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Stranger:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for visitor in self._visitors:
            visitor.close()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                visitor, _ = self._listener.accept()
            except OSError:
                return
            self.visits += 1
            if self._says is None:
                self._visitors.append(visitor)
            else:
                visitor.recv(65_536)
                visitor.sendall(self._says)
                visitor.close()
