"""Standard input, line by line, without holding up the event loop, and without holding up the end of the program."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from io import BufferedReader
from threading import Semaphore, Thread
from typing import cast

from .._io.loop import Signal, loop_caller

__all__ = ["lines"]

_CHUNK_BYTES = 65_536
_CHUNKS = 4
"""So many are read ahead."""


async def lines() -> AsyncIterator[list[bytes]]:
    """The lines that have come, as soon as there are some, each without its end; the last one may have had none."""
    chunks: deque[bytes | OSError] = deque()
    news = Signal()
    room = Semaphore(_CHUNKS)
    call_in_loop = loop_caller()

    def come(chunk: bytes | OSError) -> None:
        chunks.append(chunk)
        news.set()

    # A daemon: a read that waits for a terminal must not keep the program from ending.
    Thread(target=_read, args=(lambda chunk: call_in_loop(come, chunk), room), daemon=True, name="stdin").start()
    rest = b""
    while True:
        while not chunks:
            await news.wait()
        chunk = chunks.popleft()
        room.release()
        if isinstance(chunk, OSError):
            raise chunk
        if not chunk:
            break
        *whole, rest = (rest + chunk).split(b"\n")
        if whole:
            yield whole
    if rest:
        yield [rest]


def _source() -> Callable[[int], bytes]:
    """What reads the next bytes, as soon as there are some."""
    buffer = cast("BufferedReader", sys.stdin.buffer)
    try:
        number = buffer.fileno()
    except OSError:
        return buffer.read1
    # Past the buffer: a read that waits holds its lock, and an interpreter that ends must have that, or aborts.
    return lambda size: os.read(number, size)


def _read(give: Callable[[bytes | OSError], None], room: Semaphore) -> None:
    read = _source()
    chunk: bytes | OSError = b"-"
    while chunk and not isinstance(chunk, OSError):
        room.acquire()
        try:
            chunk = read(_CHUNK_BYTES)
        except OSError as error:
            chunk = error
        give(chunk)
