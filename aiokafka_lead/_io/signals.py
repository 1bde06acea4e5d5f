"""Signals of the process, for any number of tasks at the same time, on each event loop and platform.

An event loop has one handler for a signal: a second receiver replaces the first, and its end leaves the default behind.
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from .loop import Signal, loop_caller

STOP = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))
"""Signals that stop a service. SIGBREAK is Ctrl-Break of Windows."""


AWAKE_S = 0.5
"""Interval in which the event loop of a receiver wakes up. Python calls handlers of signals only between its own
instructions: a wait that begins just after a signal, and each wait on Windows, would delay them until its end."""


class Received:
    """Signals that have arrived, for one task."""

    def __init__(self) -> None:
        self._numbers: deque[signal.Signals] = deque()
        self._news = Signal()

    def add(self, number: signal.Signals) -> None:
        """Add a signal; called on the task's event loop."""
        self._numbers.append(number)
        self._news.set()

    async def next(self) -> signal.Signals:
        """Wait for the next signal."""
        while not self._numbers:
            await self._news.wait(AWAKE_S)
        return self._numbers.popleft()


_receivers: list[Callable[[signal.Signals], None]] = []
"""Functions for all signals received."""

_before: dict[int, Any] = {}
"""Earlier handlers of the signals received."""


@contextmanager
def receiving(numbers: Iterable[signal.Signals] = STOP) -> Iterator[Received]:
    """Receive these signals in the block, in the main thread. The end of the last block restores earlier handlers.

    Signals that other blocks request arrive here, too.
    """
    received, call = Received(), loop_caller()

    def receive(number: signal.Signals) -> None:
        call(received.add, number)

    _receivers.append(receive)
    try:
        for number in numbers:
            if number not in _before:
                _before[number] = signal.signal(number, _arrived)
        yield received
    finally:
        _receivers.remove(receive)
        if not _receivers:
            for number, earlier in _before.items():
                if signal.getsignal(number) is _arrived:
                    signal.signal(number, signal.SIG_DFL if earlier is None else earlier)
            _before.clear()


def _arrived(number: int, frame: object) -> None:
    for receive in _receivers:
        receive(signal.Signals(number))
