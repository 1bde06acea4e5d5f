"""Lets a consumer run as a service, which waits for brokers, stops after a signal, and answers probes."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
from anyio.abc import ByteStream, Listener

from ..._core.run.options import HandlingConfig
from ..._core.run.refusals import REFUSALS, Refusals
from ..._options.logs import client_log
from ..._signals import receiving
from ..._values import NamedTuple
from ...errors import IllegalStateError, KafkaConnectionError, KafkaTimeoutError, RequestTimedOutError

if TYPE_CHECKING:
    from ..client import Client

T = TypeVar("T")

AGAIN_S = 1.0
"""Pause in seconds before a step is repeated."""


async def reached(client: Client) -> bool:
    """Wait without a time limit until a broker has responded. Return False if the client is being stopped."""
    metadata = client.metadata
    with client.beginnings.within(math.inf):
        while not metadata.full_answers:
            with suppress(RequestTimedOutError):
                await metadata.wait_newer(metadata.snapshot.generation, client.config.request_timeout_ms)
    return not client.stopping


class Steps:
    """Takes the steps that begin a run. Failures that a run would tolerate later are retried here as well."""

    def __init__(self, client: Client, config: HandlingConfig) -> None:
        self._log = client_log("consumer", client.config.client_id)
        self._refusals = Refusals(config.refusal_patience_ms, client.config, self._log)

    async def take(self, step: Callable[[], Awaitable[T]]) -> T:
        """Call ``step`` until it succeeds, and return its result. Outages, and refusals for a limited time, are
        retried.

        Raises all other errors.
        """
        outages = 0
        while True:
            try:
                return await step()
            except REFUSALS as error:
                await anyio.sleep(self._refusals.bear(error, time.monotonic()))
            except (KafkaConnectionError, KafkaTimeoutError) as error:
                outages += 1
                if outages == 1:
                    self._log.warning("run() waits for brokers before its first record: %s", error)
                await anyio.sleep(AGAIN_S)


REQUEST_MAX_BYTES = 8192
"""Maximum size in bytes of the head of a request. Probes send a few hundred bytes."""

ACCEPT_AGAIN_S = 1.0
"""Pause in seconds after a connection could not be accepted."""

REQUEST_WITHIN_S = 5.0
"""Time limit of a request in seconds. Slower clients are disconnected, because probes try again."""


class Page(NamedTuple):
    """The HTTP response to a probe."""

    status: int
    content_type: str
    body: bytes


def json_page(status: int, content: Mapping[str, object]) -> Page:
    """Return a response with JSON content. ``status`` is the HTTP status."""
    return Page(status, "application/json", json.dumps(content).encode())


async def serve(
    listener: Listener[Any], handle: Callable[[Any], Awaitable[object]], warn: Callable[[str, object], object]
) -> None:
    """Handle connections until cancelled.

    Continue if one cannot be accepted, for example because of too many open files. ``warn`` logs the reason.
    """
    while True:
        try:
            await listener.serve(handle)
        except* (OSError, anyio.BrokenResourceError) as failures:
            error: BaseException = failures
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            warn("a connection could not be accepted: %s", error.__cause__ or error)
        await anyio.sleep(ACCEPT_AGAIN_S)


async def serve_pages(
    host: str | None,
    port: int,
    pages: Mapping[str, Callable[[], Page]],
    warn: Callable[[str, object], object],
    *,
    task_status: anyio.abc.TaskStatus[None],
) -> None:
    """Answer GET and HEAD requests for these paths until cancelled. Raises OSError if the address cannot be bound."""
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on port {port}: {error.strerror or error}") from error
    async with listener:
        task_status.started()

        async def handle(stream: ByteStream) -> None:
            async with stream:
                with anyio.move_on_after(REQUEST_WITHIN_S):
                    try:
                        await stream.send(_answer(await _head(stream), pages))
                    except (anyio.BrokenResourceError, anyio.EndOfStream):
                        return

        await serve(listener, handle, warn)


async def _head(stream: ByteStream) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and len(received) < REQUEST_MAX_BYTES:
        received += await stream.receive(REQUEST_MAX_BYTES)
    return received


def _answer(head: bytes, pages: Mapping[str, Callable[[], Page]]) -> bytes:
    """Return the bytes of the HTTP response to a request, given its head."""
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
    found = pages.get(path)
    if method not in (b"GET", b"HEAD"):
        page = json_page(405, {"detail": "GET or HEAD"})
    elif found is None:
        page = json_page(404, {"detail": "one of " + ", ".join(pages)})
    else:
        page = found()
    lines = (
        f"HTTP/1.1 {page.status} {_REASONS.get(page.status, '')}",
        f"content-type: {page.content_type}",
        f"content-length: {len(page.body)}",
        "cache-control: no-store",
        "connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if method == b"HEAD" else page.body)


_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Health(Protocol):
    """The attributes that probes need of a consumer's `health()` (see `ConsumerHealth`)."""

    @property
    def problems(self) -> tuple[str, ...]: ...

    @property
    def healthy(self) -> bool: ...

    @property
    def live(self) -> bool: ...


class Service:
    """Runs a consumer as a service: stops it at a signal, and answers health probes by HTTP."""

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
        """Return the response to the liveness probe: 503 if the process must be restarted, otherwise 200.

        During a stop, it is 200, so that the process is not killed.
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
