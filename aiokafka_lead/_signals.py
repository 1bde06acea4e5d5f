"""Signals of the process for any number of tasks at the same time, on every event loop and platform.

An event loop has only one handler per signal. A second receiver would replace the first, and would leave the default
handler behind at its end.
"""

from __future__ import annotations

import signal
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio

STOP = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))
"""Signals that stop a service. SIGBREAK is Ctrl-Break on Windows."""


class Received:
    """A queue of the signals that have arrived for one task."""

    def __init__(self) -> None:
        self.numbers: deque[signal.Signals] = deque()
        """The signals in the order of their arrival."""
        # A handler of Python's ``signal`` module does not end the wait of an event loop. A byte on a socket does, on
        # every event loop.
        self._news, self._bell = socket.socketpair()
        self._news.setblocking(False)
        self._bell.setblocking(False)

    def arrived(self, number: int) -> None:
        """Store a signal. This may be called between any two steps of the main thread."""
        self.numbers.append(signal.Signals(number))
        with suppress(BlockingIOError):  # the socket already contains enough bytes
            self._bell.send(b"!")

    async def next(self) -> signal.Signals:
        """Return the next signal in the order of arrival. Waits until there is one."""
        while not self.numbers:
            await anyio.wait_readable(self._news)
            self._news.recv(1024)
        return self.numbers.popleft()

    def close(self) -> None:
        """Release the sockets that wake the task."""
        self._news.close()
        self._bell.close()


_receivers: list[Received] = []

_before: dict[int, Any] = {}
"""Earlier handlers of the signals that are being received."""


@contextmanager
def receiving(numbers: Iterable[signal.Signals] = STOP) -> Iterator[Received]:
    """In the block, receive these signals in the main thread. The end of the last block restores the earlier handlers.

    Signals requested by other blocks arrive here as well.
    """
    received = Received()
    _receivers.append(received)
    try:
        for number in numbers:
            if signal.getsignal(number) is not _arrived:  # an event loop may have replaced it
                _before.setdefault(number, signal.signal(number, _arrived))
        yield received
    finally:
        _receivers.remove(received)
        if not _receivers:
            for changed, earlier in _before.items():
                if signal.getsignal(changed) is _arrived:
                    signal.signal(changed, signal.SIG_DFL if earlier is None else earlier)
            _before.clear()
        received.close()


def _arrived(number: int, frame: object) -> None:
    for received in _receivers:
        received.arrived(number)
