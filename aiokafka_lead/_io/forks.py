"""What a child of ``os.fork`` has from its parent and must neither use nor disturb: clients, and their sockets.

No event loop survives a fork, but a copy of everything on it does. Nothing here costs more than one entry for each
client and connection.
"""

from __future__ import annotations

import os
import socket
from typing import Protocol
from weakref import WeakSet

__all__ = ["Inherited", "detach_in_children", "tell_in_children"]


class Inherited(Protocol):
    """Something that a child process cannot use."""

    def forked(self) -> None:
        """This process is a child of the one that it was started in. Called in no task, and on no event loop."""


_sockets: WeakSet[socket.socket] = WeakSet()
_inherited: WeakSet[Inherited] = WeakSet()


def detach_in_children(sock: socket.socket) -> None:
    """Part the child's copy of this socket from the parent's connection: nothing written or closed there reaches it.

    Its number stays taken, by a socket without a peer. So an event loop that closes its copy of a connection takes
    nothing out of the operating system's own list of what the parent waits for, which both share (epoll).
    """
    _sockets.add(sock)


def tell_in_children(inherited: Inherited) -> None:
    """Call its `forked` in each child process, for as long as it exists."""
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
