"""Cancellation, where asyncio's own ``Task.cancel`` is not what a scope of anyio or trio does.

A shield holds off scopes alone, and a scope cancels at each await until it is left, ``Task.cancel`` once.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from .deadline import Deadline
from .loop import Waiter, in_trio

__all__ = [
    "Waits",
    "cancellation_of_task",
    "cancelled_by_scope",
    "face_cancellation",
    "outlast_cancellation",
    "outlives_cancellation",
    "to_the_end",
]

T = TypeVar("T")


class Waits:
    """Bounded waits that are given less time when the client is being stopped."""

    def __init__(self) -> None:
        self._scopes: list[anyio.CancelScope] = []
        """Of those that are under way."""

    @contextmanager
    def within(self, timeout_s: float) -> Iterator[anyio.CancelScope]:
        """A wait of ``timeout_s`` at most; ``cancelled_caught`` of the scope says whether that was too short."""
        with anyio.move_on_after(timeout_s) as scope:
            self._scopes.append(scope)
            try:
                yield scope
            finally:
                self._scopes.remove(scope)

    def hurry(self, until: float) -> None:
        """Those that are under way have until then, in monotonic seconds, or less if they had less."""
        for scope in self._scopes:
            scope.deadline = min(scope.deadline, anyio.current_time() + until - time.monotonic())


async def to_the_end(
    work: Callable[[], Coroutine[Any, Any, T]], name: str, on_cancel: Callable[[], None] | None = None
) -> T:
    """Return or raise what the work does, after it has ended, however often the caller is cancelled meanwhile.

    The caller's cancellation is raised afterwards; ``on_cancel`` is called when it comes. The work has to be bounded.
    On asyncio it runs in a task of its own, since ``Task.cancel`` passes a shield.
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
    raise AssertionError("nothing cancels this scope, so that it swallows nothing")


async def _watched(work: Callable[[], Coroutine[Any, Any, T]], on_cancel: Callable[[], None]) -> T:
    ended = False

    async def watch() -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            if ended:
                raise
            on_cancel()  # and end: the caller's next checkpoint raises this cancellation again

    outcome: Waiter[T] = Waiter()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            outcome.set_result(await _shielded(work))
        except BaseException as error:  # raised below, and so not as part of an exception group
            outcome.set_error(error)
        ended = True
        tasks.cancel_scope.cancel()
    await anyio.lowlevel.checkpoint_if_cancelled()
    return outcome.result()


async def _in_own_task(
    work: Callable[[], Coroutine[Any, Any, T]], name: str, on_cancel: Callable[[], None] | None
) -> T:
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
        del cancellation  # it holds this frame


async def outlast_cancellation(waiter: Waiter[None], timeout_s: float) -> bool:
    """Whether the waiter was done in time; however often the caller is cancelled meanwhile, which is raised afterwards.

    For what another task does. Raises the waiter's error.
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
        del cancellation  # it holds this frame
    return waiter.done


def cancelled_by_scope() -> bool:
    """Whether a scope that this task is in has been cancelled."""
    return anyio.current_effective_deadline() == -math.inf


async def outlives_cancellation() -> bool:
    """Whether the ``asyncio.CancelledError`` that was just caught is none of a scope's, and the task may go on.

    For tasks in which the application's code runs: what it awaited was cancelled, or it, or a registry of its tasks,
    has cancelled the task that it found itself in. That means the code, and not the task around it.
    """
    if cancelled_by_scope():
        return False
    _forget_cancellations()
    try:
        # Something that cancels all tasks has cancelled the scope's own one, too: it needs this to say so.
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        _forget_cancellations()
    return not cancelled_by_scope()


async def face_cancellation() -> None:
    """Raise the ``Task.cancel`` of asyncio that was not raised yet; forget those that were raised and caught."""
    task = None if in_trio() else asyncio.current_task()
    if task is not None and task.cancelling() and not cancelled_by_scope():
        await asyncio.sleep(0)
        _forget_cancellations()


def _forget_cancellations() -> None:
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass


def cancellation_of_task() -> Callable[[], bool]:
    """Tells, later, whether the task that calls this now has been cancelled since.

    On trio as far as others can see: it has ended, and its nursery's scope was cancelled.
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
    # A task that swallows a cancellation, and goes on, is counted as cancelled for ever after.
    before = task.cancelling()
    return lambda: task.cancelling() > before


def _no() -> bool:
    return False
