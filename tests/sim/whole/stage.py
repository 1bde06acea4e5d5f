"""Runs coroutines on virtual time, each in a separate process, and reports everything that they leave behind."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import sys
import traceback
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NoReturn, TypeVar

from . import plain
from .loop import VirtualLoop

T = TypeVar("T")


class _Lines(logging.Handler):
    """Keeps the lines of the log that report a defect."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info is not None or "internal error" in text or "defect" in text:
            self.found.append(logging.Formatter().format(record))


def on_virtual_time(seed: int, play: Callable[[int], Awaitable[T]]) -> T:
    """Return what ``play`` returns for the seed. Raises AssertionError for tasks left behind and unhandled errors."""
    plain.seed(seed)
    loop = VirtualLoop(seed)
    troubles: list[str] = []
    lines = _Lines()
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: troubles.append(repr(unraisable))
    loop.set_exception_handler(lambda _, context: troubles.append(repr(context)))
    logging.getLogger().addHandler(lines)
    asyncio.set_event_loop(loop)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = loop.run_until_complete(_awaited(play, seed))
        left = [task.get_name() for task in asyncio.all_tasks(loop)]
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        logging.getLogger().removeHandler(lines)
        sys.unraisablehook = hook
        asyncio.set_event_loop(None)
        loop.close()
    assert not left, f"tasks are left behind: {left}"
    assert not troubles, troubles
    assert not lines.found, lines.found
    return found


def each_alone(seeds: Iterable[int], play: Callable[[int], T]) -> Iterator[tuple[int, T | None, str]]:
    """Yield each seed with its result, or None and the traceback.

    A process does nothing but fork a child for each seed, while this process reads the results from a pipe. So no seed
    depends on an earlier one.
    """
    come, go = os.pipe()
    if not os.fork():
        os.close(come)
        for seed in seeds:
            if not os.fork():
                _play_and_exit(seed, play, go)
            os.wait()
        os._exit(0)
    os.close(go)
    with os.fdopen(come, "rb") as results:
        while True:
            try:
                yield pickle.load(results)
            except EOFError:
                break
    os.wait()


def _play_and_exit(seed: int, play: Callable[[int], T], go: int) -> NoReturn:
    found, error = None, ""
    try:
        found = play(seed)
    except BaseException:
        error = traceback.format_exc(limit=-6)
    content = memoryview(pickle.dumps((seed, found, error)))
    while content:
        content = content[os.write(go, content) :]
    os._exit(0)


async def _awaited(play: Callable[[int], Awaitable[T]], seed: int) -> T:
    return await play(seed)
