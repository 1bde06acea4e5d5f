"""Separates child processes that ``os.fork`` creates from the sockets of brokers and registries.

A child has copies of all sockets. Without this, a client would not notice that a broker was killed while a child lives:
its connection would stay open, and a new one would be accepted, but never answered.
"""

from __future__ import annotations

import os
import socket
from typing import Any
from weakref import WeakSet

_sockets: WeakSet[Any] = WeakSet()


def detach_in_children(sock: Any) -> None:
    """Replace the copy of this socket in later child processes by a socket without a peer."""
    _sockets.add(sock)


def _in_child() -> None:
    numbers = [number for sock in list(_sockets) if (number := sock.fileno()) >= 0]
    _sockets.clear()
    if numbers:
        lonely, peer = socket.socketpair()
        peer.close()
        with lonely:
            for number in numbers:
                os.dup2(lonely.fileno(), number, inheritable=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
