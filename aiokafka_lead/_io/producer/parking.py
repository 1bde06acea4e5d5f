"""How the application's tasks, and its callbacks, wait for what becomes of records.

Compiled through ``parking.pxd`` where a compiler is.
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
    """The `Park` of one producer's outcomes. It knows nothing but its event loop: outcomes that are done keep it."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: object | None = None

    def start(self) -> None:
        """This is the producer's event loop."""
        self._loop = loop_token()

    def __call__(self, outcome: BatchOutcome, /) -> Awaitable[object]:
        """What to await until the outcome is done or divided; raises `WrongEventLoopError`.

        On asyncio it is a future itself: each coroutine around that would have to be gone through at every wake-up.
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
        """Have the event loop call this as soon as it comes to it; what it raises is logged."""
        if in_trio():
            import trio

            trio.lowlevel.current_trio_token().run_sync_soon(_call, fn, args)
        else:
            asyncio.get_running_loop().call_soon(_call, fn, args)


class _Parked:
    """The asyncio tasks that await an outcome, each by a future of its own: to cancel one is to cancel its future."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    def add(self, future: asyncio.Future[None]) -> None:
        """One more task; one that asks again and again, for a short time each, is here once."""
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
