"""Event loop in a separate thread, for the Kafka clients that Spark's synchronous callbacks use.

Spark uses a Python process for many tasks. The loop keeps running between them, so clients keep their connections,
refresh their metadata, and stop when they are idle.
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
"""Seconds after which an idle client is stopped; longer than the usual pause between two micro-batches."""

STOP_TIMEOUT_MS = 1000
"""Time limit in ms for stopping a client. Spark kills the process of a cancelled task soon after this time."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
"""First and maximum delay in seconds between attempts to start a client; the delay doubles each time."""

TLS_PROBE_S = 3.0

_TLS_HINT = re.compile(r"(\[[^\]\s]+\]|[^\s:]+):([0-9]+): [^;]*; if this listener uses TLS")
"""Matches a bootstrap server in the text of an error that suggests a TLS listener."""

SAY_AGAIN_S = 60.0

PARENT_CHECK_S = 1.0
"""Seconds between the checks by `ClientLoop.run` that the parent process is alive."""

_log = logging.getLogger("aiokafka_lead.spark")
_connections = logging.getLogger("aiokafka_lead.connection")

P = ParamSpec("P")
T = TypeVar("T")


class Client(Protocol):
    """The methods that `Producer`, `Consumer` and `AdminClient` have in common."""

    async def start(self) -> None: ...

    async def stop(self, timeout_ms: float | None = None) -> None: ...


C = TypeVar("C", bound=Client)


class ClientLoop:
    """Event loop in a daemon thread, with a cache of started clients.

    Use the clients only in functions passed to `run` or `start`, because these run in the loop's thread.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._idle: dict[Hashable, tuple[Client, asyncio.TimerHandle]] = {}
        """Idle clients by the key passed to `borrow`, each with the timer that stops it."""
        self._stopping: set[asyncio.Task[None]] = set()
        """Tasks that stop clients. The event loop has only weak references to tasks."""
        self._parent = os.getppid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka_lead", daemon=True)
        self._thread.start()

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an asynchronous function on the loop, wait in the calling thread, and return its result.

        Raises the function's error. An exception in the calling thread, such as KeyboardInterrupt, cancels the
        function. Raises SystemExit if the parent process has died, because the driver of a stream could otherwise wait
        for an unreachable cluster long after Spark's JVM has ended.
        """
        future = self.start(function, *args, **kwargs)
        try:
            while not wait([future], PARENT_CHECK_S).done:
                if os.getppid() != self._parent:
                    raise SystemExit("the parent process has died")
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Start an asynchronous function on the loop, and return the future of its result."""

        async def call() -> T:
            return await function(*args, **kwargs)

        return asyncio.run_coroutine_threadsafe(call(), self._loop)

    @contextmanager
    def borrow(self, make: Callable[[], C], key: Hashable, within_ms: float) -> Iterator[C]:
        """Provide a started client during a block: an idle client with this key, or a new client from ``make``.

        If no broker can be reached, the call retries for up to ``within_ms``. After the block, the client stays idle
        for `IDLE_S` seconds and can be reused. If the block raises an error, the client is stopped in the background.
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
        """Provide a new client from ``make`` during a block. Starts it like `borrow`; stops it in the background."""
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
        """Stop all idle clients, and wait until they have stopped."""
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
    """Provide a new client from ``make`` to code on the loop. Starts it like `ClientLoop.borrow`, and stops it."""
    client: C = await _started(make, within_ms)
    try:
        yield client
    finally:
        await _stop(client)


async def _started(make: Callable[[], Any], within_ms: float) -> Any:
    """Return a started client. Retry with a new client after a retriable error, for up to ``within_ms``."""
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
                    text = f"{server} requires TLS; set kafka.security.protocol to SSL or SASL_SSL"
                    raise SslAuthenticationError(text) from None
                if pause_s == FIRST_PAUSE_S:
                    _log.warning("cannot start a client; retrying for up to %g s: %s", within_ms / 1000, error)
            else:
                return client
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)


@contextmanager
def _seldom_said() -> Iterator[None]:
    """During a block, log each warning about connections at most once in `SAY_AGAIN_S` seconds.

    Otherwise, the new client of each attempt would repeat the warnings.
    """
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
    """Return a server that the error's text names and that closed a plaintext connection but accepts TLS, or None.

    Retries cannot solve this problem. The closed connection alone is no proof, because a starting broker also closes
    connections.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # safe, because the probe sends no data
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
    """Holds the client loop of this process.

    A forked process does not inherit its thread, so `client_loop` creates another one.
    """

    def __init__(self) -> None:
        self.pid = -1
        self.loop: ClientLoop | None = None
        self.frozen = False


_process = _Process()


def client_loop() -> ClientLoop:
    """Return the loop of this process. The first call creates it."""
    if _process.loop is None or _process.pid != os.getpid():
        _process.pid, _process.loop = os.getpid(), ClientLoop()
    return _process.loop


def freeze_imports() -> None:
    """Exclude all objects that exist now from garbage collection. Only the first call in a process has an effect.

    Spark runs the garbage collector after every Python task. Without this call it would traverse all imported modules
    each time.
    """
    if not _process.frozen:
        _process.frozen = True
        gc.freeze()
