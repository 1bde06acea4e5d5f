"""A consumer as a service, which stops on a signal and answers an orchestrator's probes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import anyio

from ..._core.run.options import HandlingConfig
from ..._options.logs import client_log
from ..._signals import receiving
from ...errors import IllegalStateError
from .probes import Page, json_page, serve_pages


class Health(Protocol):
    """The result of `health()` (see `ConsumerHealth`)."""

    @property
    def problems(self) -> tuple[str, ...]: ...

    @property
    def healthy(self) -> bool: ...

    @property
    def live(self) -> bool: ...


class Service:
    """The signals and probes of a run."""

    def __init__(
        self,
        config: HandlingConfig,
        stop: Callable[[], Awaitable[object]],
        health: Callable[[], Health],
        client_id: str,
    ) -> None:
        self._config = config
        self._stop = stop
        self._health = health
        self._log = client_log("consumer", client_id)
        self._tasks = anyio.create_task_group()
        self._stopping = False
        self._stopped = anyio.Event()

    async def attend(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` until it ends or a signal has stopped the consumer."""
        config, failure = self._config, None
        if config.stop_on_signals and threading.current_thread() is not threading.main_thread():
            raise IllegalStateError("stop_on_signals needs the main thread, because only that thread receives signals")
        try:
            async with self._tasks as tasks:
                if config.health_port is not None:
                    await tasks.start(self._serve, config.health_host, config.health_port)
                if config.stop_on_signals:
                    await tasks.start(self._watch)
                try:
                    await work()
                except Exception as error:
                    failure = error  # kept here, because the task group would wrap it
                if self._stopping:
                    await self._stopped.wait()
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise _alone(group) from None
        if failure is not None:
            raise failure

    async def _watch(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Stop the consumer in an orderly way at the first signal, and at once at the second one."""
        with receiving() as signals:
            task_status.started()
            while True:
                number = await signals.next()
                if self._stopping:
                    self._log.warning(
                        "%s again: stopping at once; unfinished records will be delivered again", number.name
                    )
                    self._tasks.cancel_scope.cancel()
                    return
                self._log.info("%s: stopping the consumer", number.name)
                self._stopping = True
                self._tasks.start_soon(self._stop_it, name="kafka stop at a signal")

    async def _stop_it(self) -> None:
        try:
            await self._stop()
        finally:
            self._stopped.set()

    async def _serve(self, host: str | None, port: int, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        pages = {"/health/live": self._live, "/health/ready": self._ready}
        await serve_pages(host, port, pages, self._log.warning, task_status=task_status)

    def _live(self) -> Page:
        """Return status 503 if the process must be restarted.

        During a stop, returns 200, so that the process is not killed.
        """
        health = self._health()
        return json_page(200 if health.live or self._stopping else 503, _content(health))

    def _ready(self) -> Page:
        health = self._health()
        return json_page(200 if health.live and not self._stopping else 503, _content(health))


_OF_CONSUMERS = ("reachable", "since_fetch_ms", "since_heartbeat_ms")


def _content(health: Health) -> Mapping[str, object]:
    content: dict[str, object] = {"healthy": health.healthy, "problems": list(health.problems)}
    content.update((name, getattr(health, name)) for name in _OF_CONSUMERS if hasattr(health, name))
    return content


def _alone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
