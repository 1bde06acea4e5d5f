"""Ports that stay reserved from the moment they are chosen."""

from __future__ import annotations

import socket
import sys
from typing import Self


class PortPool:
    """Reserves TCP ports on 127.0.0.1, each until `close`.

    A port that is only looked up may be gone before a broker binds it, or while a killed broker is down. On Linux a
    bound socket that does not listen keeps the kernel from giving the port to anybody else, while a listener with
    SO_REUSEADDR, which the JVM, asyncio and trio set, may still take it. Elsewhere the port is let go and only likely
    to stay free.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self) -> int:
        """Return a port that was free. It refuses connections until something listens there."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        if sys.platform == "linux":
            self._held.append(sock)
        else:
            sock.close()
        return port

    def close(self) -> None:
        """Release all ports."""
        for sock in self._held:
            sock.close()
        self._held.clear()
