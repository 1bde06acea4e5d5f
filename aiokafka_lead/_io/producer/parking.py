"""How the application's tasks, and its callbacks, wait for what becomes of records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ..._core.producer.outcome import BatchOutcome
from ...errors import WrongEventLoopError
from ..loop import Waiter, in_trio, loop_token

__all__ = ["Parking"]

_log = logging.getLogger(__name__)


class Parking:
    """The `Park` of one producer's outcomes. It knows nothing but its event loop: outcomes that are done keep it."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: object | None = None

    def start(self) -> None:
        """This is the producer's event loop."""
        self._loop = loop_token()

    async def __call__(self, outcome: BatchOutcome, /) -> None:
        """Wait until the outcome is done or divided; raises `WrongEventLoopError`."""
        if loop_token() is not self._loop:
            raise WrongEventLoopError
        if outcome.waiter is None:
            outcome.waiter = Waiter()
        await outcome.waiter.wait()

    def soon(self, fn: Callable[..., object], /, *args: Any) -> None:
        """Have the event loop call this as soon as it comes to it; what it raises is logged."""
        if in_trio():
            import trio

            trio.lowlevel.current_trio_token().run_sync_soon(_call, fn, args)
        else:
            asyncio.get_running_loop().call_soon(_call, fn, args)


def _call(fn: Callable[..., object], args: tuple[Any, ...]) -> None:
    try:
        fn(*args)
    except Exception:
        _log.exception("a callback of a delivery has failed")
