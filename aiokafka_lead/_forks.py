"""Protects clients, their sockets, and the sockets of embedded brokers from child processes that ``os.fork`` creates.

An event loop does not work after a fork. The child has copies of all objects of the event loop, and must not use them.
There is one entry for each client, connection and listener.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """A client, connection or listener that a child process must not use."""

    def forked(self) -> None:
        """Called in the child process after a fork, outside of tasks and event loops."""


_sockets: WeakSet[socket.socket] = WeakSet()
_inherited: WeakSet[Inherited] = WeakSet()


def detach_in_children(sock: socket.socket) -> None:
    """Separate a child's copy of this socket from the parent's connection.

    The child can then neither write to the connection nor close it. The file descriptor stays in use, for a socket
    without a peer. Otherwise, the child's event loop could close its copy, which would remove the entry from the epoll
    object that it shares with the parent. If the socket belongs to an embedded broker that is killed while the child
    lives, its clients notice that, and no listener of the child accepts their connections.
    """
    _sockets.add(sock)


def tell_in_children(inherited: Inherited) -> None:
    """Call the object's `forked` in each child process, while the object exists."""
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
