"""Protects clients and their sockets from children of ``os.fork``, which must neither use nor disturb them.

An event loop does not survive a fork, but a copy of every object on it does. This costs one entry per client and
connection.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """Something that a child process cannot use."""

    def forked(self) -> None:
        """Called in a child of the process that started it, outside any task and event loop."""


_sockets: WeakSet[socket.socket] = WeakSet()
_inherited: WeakSet[Inherited] = WeakSet()


def detach_in_children(sock: socket.socket) -> None:
    """Separate the child's copy of this socket from the parent's connection, so that writes and closes do not reach it.

    Its number stays in use, by a socket without a peer. An event loop that closes its copy of a connection therefore
    does not remove entries from the operating system's list of the parent's waits, which both share (epoll).
    """
    _sockets.add(sock)


def tell_in_children(inherited: Inherited) -> None:
    """Call its `forked` in each child process, while it exists."""
    _inherited.add(inherited)


def _in_child() -> None:
    for one in list(_inherited):
        one.forked()
    _inherited.clear()
    numbers = [number for sock in _sockets if (number := sock.fileno()) >= 0]
    _sockets.clear()
    if numbers:
        lonely, peer = socket.socketpair()
        peer.close()
        with lonely:
            for number in numbers:
                os.dup2(lonely.fileno(), number, inheritable=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
