"""A TCP proxy in front of brokers, in a separate thread: the base of proxies that disturb traffic."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

TIMEOUT_S = 10.0


class TcpProxy:
    """Listens while used as a context manager. Subclasses start its servers, and copy bytes in its pumps."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []
        self._pumps: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_S)

    async def _start(self) -> None:
        """Listen. Runs in the proxy's thread."""
        raise NotImplementedError

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}  # also those that are still connecting to a broker
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, pump: Coroutine[Any, Any, None], sink: asyncio.StreamWriter) -> None:
        """Run a pump, which copies one direction of a connection, until it ends or the proxy does; close its sink."""
        task = asyncio.create_task(pump)
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)
        task.add_done_callback(lambda _: sink.close())  # a task that is cancelled at once never runs
