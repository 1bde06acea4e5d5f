"""Handling of SIGINT, SIGTERM and SIGHUP, which cancel a command's work so that it can clean up."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import anyio
    import anyio.abc

_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(BaseException):
    """A signal requested the end of the program.

    The base class is not KeyboardInterrupt, because Typer would then choose the exit code.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.code = 128 + number
        """Exit code by the convention of shells: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP."""


def raise_at_signals() -> None:
    """Install handlers that raise `Interrupted` in the main thread."""
    for number in _heeded():
        signal.signal(number, _raise)


def ignore_signals() -> None:
    """Ignore signals until the process exits.

    Otherwise Python restores the default handlers at exit, and a signal would change the exit code.
    """
    for number in _heeded():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def signals_raise() -> Iterator[None]:
    """Raise `Interrupted` on a signal during a block that blocks the event loop.

    The event loop would handle the signals only after the block.
    """
    before = {number: signal.getsignal(number) for number in _heeded()}
    raise_at_signals()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine in an event loop. On a signal, cancel it, wait for its end, and raise `Interrupted`.

    A second Ctrl-C ends the process immediately.
    """
    import anyio  # not at the top, because `raise_at_signals` must be called before the slow imports

    seen: list[int] = []

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                if _heeded():
                    await tasks.start(_listen, scope, seen)
                await work()
            tasks.cancel_scope.cancel()

    try:
        anyio.run(main, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    except BaseExceptionGroup as group:
        if not seen and (raised := group.subgroup(Interrupted)) is not None:
            raise _first(raised) from None
        raise
    finally:
        if seen:
            raise Interrupted(seen[0])


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


async def _listen(scope: anyio.CancelScope, seen: list[int], *, task_status: anyio.abc.TaskStatus[None]) -> None:
    from .._signals import receiving  # here for the same reason as anyio in `run`

    with receiving(_heeded()) as signals:
        task_status.started()
        while True:
            number = await signals.next()
            if seen and number == signal.SIGINT:
                os._exit(128 + number)
            seen.append(number)
            scope.cancel()


def _heeded() -> list[signal.Signals]:
    """Return the signals to handle: those that the parent process does not ignore (nohup ignores SIGHUP)."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]


def _raise(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)
