"""Reads standard input by lines, without blocking the event loop or the end of the program; asks for confirmation."""

from __future__ import annotations

import os
import select
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from io import BufferedReader
from threading import Semaphore, Thread
from typing import cast

import typer

from .._io.loop import Signal, loop_caller
from .failures import Failed
from .output import Output
from .signals import Interrupted, signals_raise
from .streams import visible

_CHUNK_BYTES = 65_536
_CHUNKS = 4
"""Number of chunks read ahead."""


async def lines(longest: int) -> AsyncIterator[list[bytes]]:
    """Yield lists of lines, without line ends, as soon as they are available. The last line needs no line end.

    Raises `Failed` once a line is longer than ``longest`` bytes, without reading the rest of it.
    """
    chunks: deque[bytes | OSError] = deque()
    news = Signal()
    room = Semaphore(_CHUNKS)
    call_in_loop = loop_caller()

    def come(chunk: bytes | OSError) -> None:
        chunks.append(chunk)
        news.set()

    # A daemon thread: a read that waits for a terminal must not keep the program from ending.
    Thread(target=_read, args=(lambda chunk: call_in_loop(come, chunk), room), daemon=True, name="stdin").start()
    number = 1
    rest: list[
        bytes
    ] = []  # parts of an incomplete line: joined once, because copying long lines repeatedly would be slow
    size = 0
    while True:
        while not chunks:
            await news.wait()
        chunk = chunks.popleft()
        room.release()
        if isinstance(chunk, OSError):
            raise Failed(f"standard input cannot be read: {chunk.strerror}")
        if not chunk:
            break
        first, *others = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > longest:
            raise Failed(f"line {number} has more than {longest:,} bytes without an end ({size:,} so far)")
        if others:
            whole = [b"".join(rest), *others[:-1]]
            rest, size = [others[-1]], len(others[-1])
            number += len(whole)
            yield whole
    if size:
        yield [b"".join(rest)]


def answer() -> bytes:
    """Return the next line, with its line end unless the input ends first. Reads nothing beyond the line."""
    read = _source()
    line = b""
    while not line.endswith(b"\n") and (byte := read(1)):
        line += byte
    return line


def _source() -> Callable[[int], bytes]:
    """Return a function that reads the next available bytes."""
    buffer = cast("BufferedReader", sys.stdin.buffer)
    try:
        number = buffer.fileno()
    except OSError:
        return buffer.read1
    # Bypasses the buffer: a waiting read holds its lock, which the interpreter needs at exit, or it aborts.
    return partial(_read_available, number)


def _read_available(number: int, size: int) -> bytes:
    while True:
        try:
            return os.read(number, size)
        except BlockingIOError:  # set by another user of the descriptor
            select.select([number], [], [])


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


_ANSWERS = {b"y": True, b"yes": True, b"n": False, b"no": False, b"": False}


async def confirm(out: Output, question: str) -> None:
    """Ask at the terminal; raise `typer.Abort` unless the answer is yes, also at the end of input."""
    await out.drain()  # print everything before the question
    try:
        with signals_raise():
            agreed: bool | None = None
            while agreed is None:
                typer.echo(f"{visible(question)} [y/N]: ", nl=False, err=True)
                line = answer()
                if not line.endswith(b"\n"):  # the line of the question has no end yet
                    typer.echo(err=True)
                agreed = _ANSWERS.get(line.strip().lower())
    except Interrupted:
        typer.echo("\nnot confirmed: nothing was changed", err=True)
        raise
    if not agreed:
        raise typer.Abort
