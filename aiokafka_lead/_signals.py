"""Signals of the process, for any number of tasks at the same time, on each event loop and platform.

An event loop has one handler for a signal: a second receiver replaces the first, and its end leaves the default behind.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio

STOP = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))
"""Signals that stop a service. SIGBREAK is Ctrl-Break on Windows."""

LOOK_EVERY_S = 0.1
"""Interval at which receivers look for signals. A handler of Python's ``signal`` does not end the wait of each event
loop."""


class Received:
    """Signals that have arrived, for one task."""

    def __init__(self) -> None:
        self.numbers: deque[signal.Signals] = deque()
        """Signals in order of their arrival; the handler appends to it."""

    async def next(self) -> signal.Signals:
        """Wait for the next signal."""
        while not self.numbers:  # noqa: ASYNC110 (see `LOOK_EVERY_S`)
            await anyio.sleep(LOOK_EVERY_S)
        return self.numbers.popleft()


_receivers: list[Received] = []

_before: dict[int, Any] = {}
"""Earlier handlers of the received signals."""


@contextmanager
def receiving(numbers: Iterable[signal.Signals] = STOP) -> Iterator[Received]:
    """Receive these signals in the block, in the main thread. The end of the last block restores earlier handlers.

    Signals that other blocks request arrive here, too.
    """
    received = Received()
    _receivers.append(received)
    try:
        for number in numbers:
            if number not in _before:
                _before[number] = signal.signal(number, _arrived)
        yield received
    finally:
        _receivers.remove(received)
        if not _receivers:
            for changed, earlier in _before.items():
                if signal.getsignal(changed) is _arrived:
                    signal.signal(changed, signal.SIG_DFL if earlier is None else earlier)
            _before.clear()


def _arrived(number: int, frame: object) -> None:
    for received in _receivers:
        received.numbers.append(signal.Signals(number))
