"""Lets the application's tasks and callbacks wait for the outcomes of records.

Compiled through ``parking.pxd`` if a compiler is available.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ..._core.producer.outcome import BatchOutcome
from ...errors import WrongEventLoopError
from ..loop import Waiter, in_trio, loop_token

_log = logging.getLogger(__name__)


class Parking:
    """The `Park` of one producer's outcomes. It refers only to its event loop, since done outcomes keep it alive."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: object | None = None

    def start(self) -> None:
        """Remember the current event loop as the producer's."""
        self._loop = loop_token()

    def __call__(self, outcome: BatchOutcome, /) -> Awaitable[object]:
        """Return an awaitable for the end or division of the outcome; raises `WrongEventLoopError`.

        On asyncio it is a future itself, because each coroutine around it would cost time at every wake-up.
        """
        waiter: Any = outcome.waiter
        if in_trio():
            if loop_token() is not self._loop:
                raise WrongEventLoopError
            if waiter is None:
                waiter = outcome.waiter = Waiter()
            waiting: Awaitable[object] = waiter.wait()
            return waiting
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise WrongEventLoopError
        future = loop.create_future()
        if waiter is None:
            waiter = outcome.waiter = _Parked()
        waiter.add(future)
        return future

    def soon(self, fn: Callable[..., object], /, *args: Any) -> None:
        """Let the event loop call this soon; errors are logged."""
        if in_trio():
            import trio

            trio.lowlevel.current_trio_token().run_sync_soon(_call, fn, args)
        else:
            asyncio.get_running_loop().call_soon(_call, fn, args)


class _Parked:
    """The asyncio tasks awaiting an outcome, each by its own future, since cancelling a task cancels its future."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    def add(self, future: asyncio.Future[None]) -> None:
        """Add a task; one that asks repeatedly, for a short time each, is added once."""
        futures = self._futures
        while futures and futures[-1].done():
            futures.pop()
        futures.append(future)

    def set_result(self, value: None, /) -> None:
        """Wake them."""
        for future in self._futures:
            if not future.done():
                future.set_result(None)


def _call(fn: Callable[..., object], args: tuple[Any, ...]) -> None:
    try:
        fn(*args)
    except Exception:
        _log.exception("a callback of a delivery has failed")
