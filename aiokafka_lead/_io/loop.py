"""Waiting, waking and background tasks, on asyncio and trio.

The objects of this module belong to one event loop and are not thread-safe. Waking is synchronous, so that callbacks of
protocols can do it. Waits can be cancelled and have a timeout. On asyncio, a wait takes a single future, because
anyio's events are too slow to be used for each request.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, cast

import anyio.lowlevel
import anyio.to_thread
from anyio.lowlevel import RunVar

from .._cpython import running
from ..errors.base import own_copy

if TYPE_CHECKING:
    import trio

P = ParamSpec("P")
T = TypeVar("T")


class Spawn(Protocol):
    """Runs a task until the client stops. An error that the task does not catch is fatal for the client."""

    def __call__(self, fn: Callable[..., Awaitable[object]], *args: Any, name: str) -> None: ...


class Spawner(Protocol):
    """Starts tasks, in the way of anyio's TaskGroup."""

    def start_soon(self, func: Callable[..., Any], /, *args: Any, name: object = None) -> Any: ...


class _Parked(Protocol):
    """The interface of a suspended task, which asyncio.Future and `_TrioParked` share."""

    def done(self) -> bool: ...

    def set_result(self, result: bool, /) -> None: ...


class _TrioParked:
    """A suspended trio task. It needs only one flag, because trio does not abort a task that it has rescheduled."""

    __slots__ = ("_done", "_scope", "_task")

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope) -> None:
        self._task = task
        self._scope = scope
        self._done = False

    def wake_in(self, left_s: float) -> None:
        import trio

        self._scope.deadline = min(self._scope.deadline, trio.current_time() + left_s)

    def done(self) -> bool:
        return self._done

    def set_result(self, result: bool, /) -> None:
        import outcome
        import trio

        self._done = True
        trio.lowlevel.reschedule(self._task, outcome.Value(result))


def in_trio() -> bool:
    """Return True if trio runs this code. asyncio may be running as well, because trio may be its guest."""
    module = sys.modules.get("trio")
    return module is not None and bool(module.lowlevel.in_trio_run())


def _expire(parked: _Parked) -> None:
    if not parked.done():
        parked.set_result(False)


async def _park(queue: list[_Parked], timeout_s: float | None) -> bool:
    """Suspend until `_wake_all` takes the queue (return True) or the timeout passes (return False)."""
    if in_trio():
        return await _park_trio(queue, timeout_s)
    loop = asyncio.get_running_loop()
    parked: asyncio.Future[bool] = loop.create_future()
    queue.append(parked)
    timer = None if timeout_s is None else loop.call_later(timeout_s, _expire, parked)
    woken = False
    try:
        woken = await parked
    finally:
        if timer is not None:
            timer.cancel()
        if not woken and parked in queue:
            queue.remove(parked)
    return woken


async def _park_trio(queue: list[_Parked], timeout_s: float | None) -> bool:
    import trio

    scope = trio.move_on_after(math.inf if timeout_s is None else max(0.0, timeout_s))
    parked = _TrioParked(trio.lowlevel.current_task(), scope)

    def abort(_: object) -> trio.lowlevel.Abort:
        queue.remove(parked)
        return trio.lowlevel.Abort.SUCCEEDED

    queue.append(parked)
    with scope:
        return cast(bool, await trio.lowlevel.wait_task_rescheduled(abort))
    return False


def _wake_all(queue: list[_Parked]) -> None:
    parked_tasks = queue.copy()
    queue.clear()
    for parked in parked_tasks:
        if not parked.done():
            parked.set_result(True)


class Waiter(Generic[T]):
    """A result or an error for which tasks can wait. It is set once. Later results and errors are ignored.

    An error for which no task waits is dropped without a warning.
    """

    __slots__ = ("_error", "_queue", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._queue: list[_Parked] = []

    def set_result(self, value: T) -> None:
        """Set the value, and wake all tasks that are waiting."""
        if not self.done:
            self.done = True
            self._value = value
            if self._queue:
                _wake_all(self._queue)

    def set_error(self, error: BaseException) -> None:
        """Set the error, which every `wait` and `result` raises."""
        if not self.done:
            self.done = True
            self._error = error
            if self._queue:
                _wake_all(self._queue)

    def result(self) -> T:
        """Return the value or raise the error. Raises RuntimeError if there is neither."""
        if self._error is not None:
            raise own_copy(self._error)
        if not self.done:
            raise RuntimeError("not done yet")
        value: T = self._value
        return value

    async def wait(self, timeout_s: float | None = None) -> T:
        """Wait for the value, or raise the error. Raises TimeoutError. Does not suspend if the result is already there.

        Any number of tasks may wait. If one of them is cancelled or times out, the rest are not affected. On a busy
        event loop, a result may arrive after the timeout but before the task runs again. Such a result is returned.
        """
        if not self.done and not await _park(self._queue, timeout_s) and not self.done:
            raise TimeoutError
        return self.result()

    async def done_within(self, timeout_s: float | None) -> bool:
        """Wait until there is a result. Return False if the timeout passes first. Raises the error, if that is set."""
        try:
            await self.wait(timeout_s)
        except TimeoutError:
            return False
        return True


class Signal:
    """Wakes the task that waits for it. Setting it several times before a wait has the effect of setting it once.

    A wait does not suspend if the signal is set. A loop that may set its own signal in each iteration must let other
    tasks run elsewhere.
    """

    __slots__ = ("_queue", "_set", "_timer")

    def __init__(self) -> None:
        self._set = False
        self._queue: list[_Parked] = []
        self._timer: asyncio.TimerHandle | None = None  # set by `wake_by`, on asyncio

    def set(self) -> None:
        """Wake the task that is waiting. If there is none, the next wait returns at once."""
        self._set = True
        if self._queue:
            _wake_all(self._queue)

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the signal is set, and clear it. Return False if the timeout passes first."""
        if not self._set:
            try:
                await _park(self._queue, timeout_s)
            finally:
                if self._timer is not None:
                    self._timer.cancel()
        # If the wait is cancelled while being woken, the signal stays set for the next wait.
        was_set, self._set = self._set, False
        return was_set

    def wake_by(self, at: float) -> None:
        """End the current wait no later than this time (``time.monotonic()``)."""
        for parked in self._queue:
            left_s = max(0.0, at - time.monotonic())
            if isinstance(parked, _TrioParked):
                parked.wake_in(left_s)
            else:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = asyncio.get_running_loop().call_later(left_s, _expire, parked)


class News:
    """Wakes all tasks that wait for the next event. Costs little if no task is waiting."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: Waiter[None] | None = None

    def tell(self) -> None:
        """Wake all tasks that are waiting now."""
        waiter, self._next = self._next, None
        if waiter is not None:
            waiter.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the next event. Raises TimeoutError."""
        if self._next is None:
            self._next = Waiter()
        await self._next.wait(timeout_s)


def in_task() -> bool:
    """Return True if called by a task. Return False if called by a callback of asyncio's event loop."""
    return in_trio() or asyncio.current_task() is not None


def loop_token() -> object:
    """Return an object that identifies the running event loop. Raises RuntimeError if no loop is running."""
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop()


def loop_probe() -> tuple[Callable[[], object], object]:
    """Return a function, and its result while this event loop is running in this thread.

    On another event loop, the function returns another object or raises RuntimeError. It is faster than `loop_token` on
    Python 3.11, where asyncio requests the process id from the operating system.
    """
    if in_trio():
        import trio

        return trio.lowlevel.current_trio_token, trio.lowlevel.current_trio_token()
    return asyncio.get_running_loop().is_running, True


def loop_thread() -> tuple[dict[str, object], str] | None:
    """Return a dict and a key. While this event loop is running in this thread, the key's value is the thread's id.

    asyncio's ``is_running`` reads the same value, but takes ten times as long. Returns None for other event loops.
    """
    if in_trio():
        return None
    return running.thread_entry(asyncio.get_running_loop())


def loop_caller() -> Callable[..., None]:
    """Return a function that makes a call on this event loop from any thread, unless the loop has ended."""
    if in_trio():
        import trio

        submit: Callable[..., Any] = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        submit = asyncio.get_running_loop().call_soon_threadsafe

    def call(fn: Callable[..., object], *args: Any) -> None:
        try:
            submit(fn, *args)
        except RuntimeError:  # the loop is closed (asyncio), or trio.RunFinishedError, a subclass
            pass

    return call


async def sleep_until(deadline: float) -> None:
    """Sleep until ``time.monotonic()`` reaches the deadline."""
    await anyio.sleep(max(0.0, deadline - time.monotonic()))


SLICE_S = 0.004
"""Seconds after which `in_slices` lets other tasks run."""


async def in_slices(work: Generator[None, None, T]) -> T:
    """Run a generator to its end and return its result. Other tasks run every `SLICE_S`."""
    until = time.perf_counter() + SLICE_S
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast(T, end.value)
        if time.perf_counter() >= until:
            await anyio.lowlevel.checkpoint()
            until = time.perf_counter() + SLICE_S


_ANYIO_PARTS = ("CancelScope", "Event", "TypedAttributeSet", "create_memory_object_stream", "connect_tcp")


async def import_anyio() -> None:
    """Import the modules of anyio one by one, letting other tasks run in between.

    anyio imports them when they are first used. Importing all at once would block the event loop for 25 ms.
    """
    for part in _ANYIO_PARTS:
        getattr(anyio, part)
        if in_trio():
            import trio

            await trio.lowlevel.checkpoint()
        else:
            await asyncio.sleep(0)
    anyio.get_cancelled_exc_class()  # imports the backend for this event loop


class Host:
    """A task that outlives the call that started it: an asyncio task or a trio system task.

    An exception of a system task would end the whole trio run, so it is stored in ``error`` instead.
    """

    def __init__(self, fn: Callable[[], Awaitable[object]], name: str) -> None:
        self.name = name
        self.error: BaseException | None = None
        """The error raised by ``fn``, or None. Cancellation is not stored."""
        self._fn = fn
        self._ended: Waiter[None] = Waiter()
        self._scope = anyio.CancelScope()
        self._task: Any = None

    @property
    def ended(self) -> bool:
        """True once the task has returned, raised an error or been cancelled."""
        return self._ended.done

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the task has ended. Return False if the timeout passes first."""
        return await self._ended.done_within(timeout_s)

    def cancel(self) -> None:
        """Cancel the task at every await, until it has ended."""
        self._scope.cancel()

    def _start(self) -> None:
        _hosts.add(self)
        if in_trio():
            import trio

            context = contextvars.copy_context()
            self._task = trio.lowlevel.spawn_system_task(self._run, name=self.name, context=context)
        else:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    async def _run(self) -> None:
        """Run the function and store its error. Raise only errors that the event loop itself must see."""
        cancelled = anyio.get_cancelled_exc_class()
        try:
            with self._scope:
                await self._fn()
        except BaseExceptionGroup as group:
            foreign, self.error = group.split(cancelled)
            # This task was cancelled at the end of the event loop, which expects the cancellation to be raised.
            if foreign is not None:
                raise foreign from None
        except Exception as error:
            self.error = error
        except BaseException as error:
            if not isinstance(error, cancelled):
                self.error = error
            ends_asyncio = isinstance(error, KeyboardInterrupt | SystemExit) and not in_trio()
            if isinstance(error, cancelled) or ends_asyncio:
                raise
        finally:
            _hosts.discard(self)
            self._ended.set_result(None)


_hosts: set[Host] = set()
"""The running hosts. They are kept here because asyncio holds only weak references to tasks."""


async def _uninterrupted(fn: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    return await fn(*args, **kwargs)


class _LateCoroutine(Coroutine[Any, Any, T]):
    """A coroutine that calls the coroutine function in its first step.

    When ``asyncio.run`` ends, it cancels all remaining tasks, even those that have not started. anyio drops the
    coroutine of such a task, so Python would warn that it "was never awaited". This class creates the coroutine only
    when the task starts.
    """

    __slots__ = ("_begin", "_begun")

    def __init__(self, fn: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> None:
        self._begin = partial(fn, *args, **kwargs)
        self._begun: Coroutine[Any, Any, T] | None = None

    def _coroutine(self) -> Coroutine[Any, Any, T]:
        if self._begun is None:
            self._begun = self._begin()
        return self._begun

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine().__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine().send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine().throw(*error)

    def close(self) -> None:
        if self._begun is not None:
            self._begun.close()


def uninterrupted(fn: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap the function of a background task, to protect it from KeyboardInterrupt and from the end of the loop.

    trio raises KeyboardInterrupt in whichever task is running. In a background task, it would end that task and be
    lost. With this wrapper, it is raised in the main task, as on asyncio. For the end of the loop, see
    `_LateCoroutine`.
    """
    if not in_trio():
        return partial(_LateCoroutine, fn)
    import trio

    return partial(trio.lowlevel.enable_ki_protection(_uninterrupted), fn)


def spawn_host(fn: Callable[[], Awaitable[object]], name: str) -> Host:
    """Run ``fn`` in a task on the running event loop that is independent of the caller's task groups."""
    host = Host(fn, name)
    host._start()
    return host


PROCESSORS = os.cpu_count() or 1
"""Number of threads of each kind of `CodecThreads`."""


class CodecThreads:
    """Compresses or decompresses in threads, one per processor. All clients of an event loop share them.

    The threads have a separate limiter. The application also uses anyio's default limiter, and its threads may be
    waiting for a client.
    """

    def __init__(self, work: str) -> None:
        self._limiter: RunVar[anyio.CapacityLimiter] = RunVar(f"aiokafka_lead {work}")

    async def run(self, call: Callable[..., None], *args: object) -> None:
        """Make the call in a thread. A cancelled caller still waits for the end of the call."""
        try:
            limiter = self._limiter.get()
        except LookupError:
            limiter = anyio.CapacityLimiter(PROCESSORS)
            self._limiter.set(limiter)
        await anyio.to_thread.run_sync(call, *args, limiter=limiter)
