"""Helpers for cancellation by asyncio's ``Task.cancel``, and by cancel scopes of anyio or trio.

A scope cancels at each await until it is left, and ``Task.cancel`` cancels once. A shield protects only against scopes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.lowlevel

from .deadline import Deadline
from .loop import Host, Waiter, in_trio, spawn_host

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

T = TypeVar("T")


class Waits:
    """Limits waits to a time, and shortens them when the client is stopped."""

    def __init__(self) -> None:
        self._scopes: list[anyio.CancelScope] = []
        """The scopes of the current waits."""

    @contextmanager
    def within(self, timeout_s: float, *, shield: bool = False) -> Iterator[anyio.CancelScope]:
        """Limit a wait to ``timeout_s`` seconds. If the time runs out, ``cancelled_caught`` of the scope is True.

        If ``shield`` is True, outer scopes do not end the wait.
        """
        with anyio.move_on_after(timeout_s, shield=shield) as scope:
            self._scopes.append(scope)
            try:
                yield scope
            finally:
                self._scopes.remove(scope)

    def hurry(self, until: float) -> None:
        """End all current waits by the time ``until`` (``time.monotonic()``), because the client is being stopped."""
        for scope in self._scopes:
            scope.deadline = min(scope.deadline, anyio.current_time() + until - time.monotonic())


async def to_the_end(
    work: Callable[[], Coroutine[Any, Any, T]], name: str, on_cancel: Callable[[], None] | None = None
) -> T:
    """Run ``work`` to its end, even if the caller is cancelled. Return its result or raise its error.

    If the caller is cancelled, ``on_cancel`` is called. The cancellation is raised once ``work`` has ended, so ``work``
    must have a time limit. On asyncio, it runs in a separate task, because a shield does not stop ``Task.cancel``.
    """
    if on_cancel is not None and cancelled_by_scope():
        on_cancel()
        on_cancel = None
    if not in_trio():
        return await _in_own_task(work, name, on_cancel)
    if on_cancel is None:
        return await _shielded(work)
    return await _watched(work, on_cancel)


async def _shielded(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with anyio.CancelScope(shield=True):
        return await work()
    raise AssertionError("this scope is never cancelled")


async def _watched(work: Callable[[], Coroutine[Any, Any, T]], on_cancel: Callable[[], None]) -> T:
    """Run ``work`` shielded from cancel scopes. Call ``on_cancel`` as soon as a scope around it is cancelled."""
    ended = False

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            if ended:
                raise
            on_cancel()  # the caller's next checkpoint will raise this cancellation again

    outcome: Waiter[T] = Waiter()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            outcome.set_result(await _shielded(work))
        except BaseException as error:  # raised below, so that it is not wrapped in an exception group
            outcome.set_error(error)
        ended = True
        tasks.cancel_scope.cancel()
    await anyio.lowlevel.checkpoint_if_cancelled()
    return outcome.result()


async def _in_own_task(
    work: Callable[[], Coroutine[Any, Any, T]], name: str, on_cancel: Callable[[], None] | None
) -> T:
    """Run ``work`` in a task of its own on asyncio, and wait for it despite cancellations of the caller."""
    task = asyncio.create_task(work(), name=name)
    cancellation: asyncio.CancelledError | None = None
    if on_cancel is not None:
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancellation = error
            on_cancel()
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError as error:
                cancellation = error
    if cancellation is None:
        return task.result()
    try:
        raise cancellation from None if task.cancelled() else task.exception()
    finally:
        del cancellation  # break the reference cycle between the exception and this frame


async def outlast_cancellation(waiter: Waiter[None], timeout_s: float) -> bool:
    """Wait for another task's work, even if the caller is cancelled. Return True if the waiter has finished in time.

    If the caller is cancelled, the cancellation is raised afterwards. Raises the waiter's error.
    """
    deadline = Deadline(timeout_s * 1000)
    cancellation: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not waiter.done:
            try:
                await waiter.wait(deadline.left_s())
            except TimeoutError:
                break
            except asyncio.CancelledError as error:
                cancellation = error
    try:
        if cancellation is not None:
            raise cancellation
    finally:
        del cancellation  # break the reference cycle between the exception and this frame
    return waiter.done


def cancelled_by_scope() -> bool:
    """Return True if a cancel scope around this task has been cancelled."""
    return anyio.current_effective_deadline() == -math.inf


async def outlives_cancellation() -> bool:
    """Return True if the task may continue after the ``CancelledError`` that it has just caught.

    For tasks that run application code. The task may continue if the error does not come from a cancel scope. In this
    case, either the object that the code awaited was cancelled, or the code has cancelled the current task and meant
    only itself.
    """
    if cancelled_by_scope():
        return False
    _forget_cancellations()
    try:
        # If all tasks are cancelled, so is the task that owns the scope. It needs this iteration to cancel the scope.
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        _forget_cancellations()
    return not cancelled_by_scope()


async def face_cancellation() -> None:
    """Raise a pending ``Task.cancel`` of asyncio, and forget cancellations that were already raised and caught."""
    task = None if in_trio() else asyncio.current_task()
    if task is not None and task.cancelling() and not cancelled_by_scope():
        await asyncio.sleep(0)
        _forget_cancellations()


def _forget_cancellations() -> None:
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass


def cancellation_of_task() -> Callable[[], bool]:
    """Return a function that returns True once the calling task has been cancelled.

    On trio, this means that the task has ended and the scope of its nursery has been cancelled.
    """
    if in_trio():
        import trio

        trio_task = trio.lowlevel.current_task()
        nursery = trio_task.parent_nursery
        if nursery is None:
            return _no
        return lambda: nursery.cancel_scope.cancel_called and trio_task not in nursery.child_tasks
    task = asyncio.current_task()
    if task is None:
        return _no
    # A task that suppresses a cancellation and continues counts as cancelled.
    before = task.cancelling()
    return lambda: task.cancelling() > before


def _no() -> bool:
    return False


@asynccontextmanager
async def tasks_of_block() -> AsyncIterator[TaskGroup]:
    """Provide a task group that cancels its tasks if the block fails, and raises the block's error unchanged.

    anyio's task group would raise it in an exception group.
    """
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            failure = error
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def host_tasks() -> AsyncIterator[Callable[[Callable[[], Awaitable[None]], str], None]]:
    """Provide a function that runs another function in a separate task. The end of the block waits for all tasks.

    It raises their first error. After an error in the block, the tasks are cancelled first. This is not a task group,
    which must be left in the task that has entered it. A lifespan that is used in an async fixture of pytest-asyncio
    begins and ends in two tasks.
    """
    hosts: list[Host] = []
    try:
        yield lambda fn, name: hosts.append(spawn_host(fn, name))
        for host in hosts:
            await host.wait()
            if host.error is not None:
                raise host.error
    except BaseException:
        for host in hosts:
            host.cancel()
        for host in hosts:
            await to_the_end(host.wait, "end of a host task")
        raise
