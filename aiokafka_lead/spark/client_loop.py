"""The event loop of this process's clients, in a separate thread, used from Spark's synchronous callbacks.

Spark calls a reader or writer from one thread per Python process, and uses a process for many tasks. The loop keeps
running between the calls, so that clients keep their connections, refresh their metadata, and close when unused.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future, wait
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, ParamSpec, Protocol, TypeVar

from ..errors import KafkaError, SslAuthenticationError

IDLE_S = 3.0
"""Time in seconds after which an idle client is stopped. Longer than the pause between two micro-batches."""

STOP_TIMEOUT_MS = 1000
"""Time limit of stopping a client: Spark kills a cancelled task's process soon after that."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
"""Delays between attempts to start a client: the first, and the maximum to which they grow."""

TLS_PROBE_S = 3.0

_TLS_HINT = re.compile(r"(\[[^\]\s]+\]|[^\s:]+):([0-9]+): [^;]*; if this listener uses TLS")
"""A bootstrap server in an error text that says it closed the connection like a TLS listener."""

SAY_AGAIN_S = 60.0

PARENT_CHECK_S = 1.0
"""Interval in seconds of checks for the parent process, while an answer is awaited."""

_log = logging.getLogger("aiokafka_lead.spark")
_connections = logging.getLogger("aiokafka_lead.connection")

P = ParamSpec("P")
T = TypeVar("T")


class Client(Protocol):
    """The common interface of `Producer`, `Consumer` and `AdminClient`."""

    async def start(self) -> None: ...

    async def stop(self, timeout_ms: float | None = None) -> None: ...


C = TypeVar("C", bound=Client)


class ClientLoop:
    """An event loop in a daemon thread, and its idle started clients.

    Clients are used only in the loop's thread: in functions passed to `run`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._idle: dict[Hashable, tuple[Client, asyncio.TimerHandle]] = {}
        """Idle started clients, by purpose, each with the timer that will stop it."""
        self._stopping: set[asyncio.Task[None]] = set()
        """References that keep the tasks alive."""
        self._parent = os.getppid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka_lead", daemon=True)
        self._thread.start()

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an asynchronous function and return its result; the calling thread waits.

        Raises its error. Interrupting the thread cancels it. Raises SystemExit if the parent process has died: a
        stream's driver would otherwise outlive Spark's JVM for the rest of an outage.
        """
        future = self.start(function, *args, **kwargs)
        try:
            while not wait([future], PARENT_CHECK_S).done:
                if os.getppid() != self._parent:
                    raise SystemExit("the process that asked has died")
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start an asynchronous function, and return a future of its result."""

        async def call() -> T:
            return await function(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(call(), self._loop)

    @contextmanager
    def borrow(self, make: Callable[[], C], key: Hashable, within_ms: float) -> Iterator[C]:
        """Provide a started client: an idle client with this key, else a new client from ``make``.

        If no broker can be reached, retries for ``within_ms``, like a client started before the outage. After the block
        the client is kept for `IDLE_S`, or after an error stopped in the background.
        """
        client: C = self.run(self._take, make, key, within_ms)
        try:
            yield client
        except BaseException:
            self._loop.call_soon_threadsafe(self._drop, client)
            raise
        self._loop.call_soon_threadsafe(self._keep, key, client)

    @contextmanager
    def started(self, make: Callable[[], C], within_ms: float) -> Iterator[C]:
        """Provide a separate client, started as in `borrow`, and stopped in the background at the end."""
        client: C = self.run(_started, make, within_ms)
        try:
            yield client
        finally:
            self._loop.call_soon_threadsafe(self._drop, client)

    async def _take(self, make: Callable[[], Any], key: Hashable, within_ms: float) -> Any:
        if key in self._idle:
            client, timer = self._idle.pop(key)
            timer.cancel()
            return client
        return await _started(make, within_ms)

    def _keep(self, key: Hashable, client: Client) -> None:
        if key in self._idle:
            self._drop(client)
        else:
            self._idle[key] = client, self._loop.call_later(IDLE_S, self._expire, key)

    def _expire(self, key: Hashable) -> None:
        client, _ = self._idle.pop(key)
        self._drop(client)

    def _drop(self, client: Client) -> None:
        task = self._loop.create_task(_stop(client))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def close_idle(self) -> None:
        """Stop the idle clients, and wait until they have stopped."""
        self.run(self._close_idle)

    async def _close_idle(self) -> None:
        idle = list(self._idle.values())
        self._idle.clear()
        for client, timer in idle:
            timer.cancel()
            self._drop(client)
        if self._stopping:
            await asyncio.wait(self._stopping)


@asynccontextmanager
async def running(make: Callable[[], C], within_ms: float) -> AsyncIterator[C]:
    """Provide a separate client on the loop, started as in `ClientLoop.borrow`, and stopped at the end."""
    client: C = await _started(make, within_ms)
    try:
        yield client
    finally:
        await _stop(client)


async def _started(make: Callable[[], Any], within_ms: float) -> Any:
    """Return a started client. After each retriable failure, try again with a new client until time is up."""
    deadline = time.monotonic() + within_ms / 1000
    pause_s = FIRST_PAUSE_S
    with _seldom_said():
        while True:
            client = make()
            try:
                await client.start()
            except KafkaError as error:
                if not error.retriable or time.monotonic() + pause_s > deadline:
                    raise
                if server := await _server_with_tls(str(error)):
                    text = f"{server} speaks TLS: set kafka.security.protocol to SSL or SASL_SSL"
                    raise SslAuthenticationError(text) from None
                if pause_s == FIRST_PAUSE_S:
                    _log.warning("trying again for %g s: %s", within_ms / 1000, error)
            else:
                return client
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)


@contextmanager
def _seldom_said() -> Iterator[None]:
    """Log each warning about connections once in `SAY_AGAIN_S`, although the new client of every attempt repeats it."""
    said_at: dict[str, float] = {}

    def is_due(record: logging.LogRecord) -> bool:
        text, now = re.sub("[0-9]+", "0", record.getMessage()), time.monotonic()
        due = now - said_at.get(text, -SAY_AGAIN_S) >= SAY_AGAIN_S
        if due:
            said_at[text] = now
        return due

    _connections.addFilter(is_due)
    try:
        yield
    finally:
        _connections.removeFilter(is_due)


async def _server_with_tls(text: str) -> str | None:
    """Return a server in the error's text that closed a plaintext connection and accepts TLS, or None.

    A retry cannot fix that. A closed connection alone is no proof, because a starting server also closes connections.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the identity does not matter: no data is sent
    for host, port in dict.fromkeys(_TLS_HINT.findall(text)):
        try:
            async with asyncio.timeout(TLS_PROBE_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context)
            writer.close()
        except (OSError, TimeoutError):
            continue
        return f"{host}:{port}"
    return None


async def _stop(client: Client) -> None:
    with suppress(KafkaError):
        await client.stop(timeout_ms=STOP_TIMEOUT_MS)


class _Process:
    """This process's loop. A forked process does not inherit the thread, and needs another loop."""

    def __init__(self) -> None:
        self.pid = -1
        self.loop: ClientLoop | None = None
        self.frozen = False


_process = _Process()


def client_loop() -> ClientLoop:
    """Return this process's loop, created on first use."""
    if _process.loop is None or _process.pid != os.getpid():
        _process.pid, _process.loop = os.getpid(), ClientLoop()
    return _process.loop


def freeze_imports() -> None:
    """Exclude everything imported so far from garbage collection, once per process.

    Spark collects garbage after every Python task, which would traverse each object of these modules again.
    """
    if not _process.frozen:
        _process.frozen = True
        gc.freeze()
