"""Ports that are reserved from the moment they are chosen."""

from __future__ import annotations

import socket
import sys
from typing import Self


class PortPool:
    """Reserves TCP ports on 127.0.0.1, each until `close`.

    Without a reservation, another process may take a port before a broker binds it, or while a killed broker is down.
    On Linux, while a socket is bound to a port without listening, only listeners with SO_REUSEADDR, which the JVM,
    asyncio and trio set, can take the port. On other systems the port is released, and probably stays free.
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
