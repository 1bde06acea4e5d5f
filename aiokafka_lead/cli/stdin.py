"""Input of records, passwords and confirmations from standard input, which does not delay the program's exit."""

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
from ..errors import ConfigError
from .failures import Failed
from .output import Output
from .signals import Interrupted, signals_raise
from .streams import visible

_CHUNK_BYTES = 65_536
_CHUNKS = 4
"""Maximum number of chunks that are read ahead."""


async def lines(longest: int) -> AsyncIterator[list[bytes]]:
    r"""Yield lists of lines as soon as they are available, without ``\n``. The last line need not end with ``\n``.

    Raises `Failed` if standard input cannot be read, or as soon as a line exceeds ``longest`` bytes.
    """
    chunks: deque[bytes | OSError] = deque()
    news = Signal()
    room = Semaphore(_CHUNKS)
    call_in_loop = loop_caller()

    def come(chunk: bytes | OSError) -> None:
        chunks.append(chunk)
        news.set()

    # A daemon thread, because a read that waits for a terminal must not prevent the program from ending.
    Thread(target=_read, args=(lambda chunk: call_in_loop(come, chunk), room), daemon=True, name="stdin").start()
    number = 1
    # Parts of an incomplete line, joined only once, because copying a long line for each chunk would be slow.
    rest: list[bytes] = []
    size = 0
    while True:
        while not chunks:
            await news.wait()
        chunk = chunks.popleft()
        room.release()
        if isinstance(chunk, OSError):
            raise Failed(f"cannot read standard input: {chunk.strerror}")
        if not chunk:
            break
        first, *others = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > longest:
            raise Failed(f"line {number} is longer than {longest:,} bytes ({size:,} so far)")
        if others:
            whole = [b"".join(rest), *others[:-1]]
            rest, size = [others[-1]], len(others[-1])
            number += len(whole)
            yield whole
    if size:
        yield [b"".join(rest)]


def answer() -> bytes:
    r"""Return the next line of standard input, with its ``\n`` unless the input ends first. Does not read beyond it."""
    read = _source()
    line = b""
    while not line.endswith(b"\n") and (byte := read(1)):
        line += byte
    return line


def password() -> str:
    """Return the next line without its line end. Raises `ConfigError` if there is no line, or it is not UTF-8."""
    line = answer()
    if not line:
        raise ConfigError("no password was given")
    try:
        return line.rstrip(b"\r\n").decode()
    except UnicodeDecodeError:
        raise ConfigError("the password is not valid UTF-8") from None


def _source() -> Callable[[int], bytes]:
    """Return a function that reads from standard input.

    It takes a maximum number of bytes, and returns as soon as any are available.
    """
    buffer = cast("BufferedReader", sys.stdin.buffer)
    try:
        number = buffer.fileno()
    except OSError:
        return buffer.read1
    # Do not use the buffer's own read. It holds a lock while it waits, and the interpreter aborts if it cannot take
    # this lock at exit.
    return partial(_read_available, number)


def _read_available(number: int, size: int) -> bytes:
    while True:
        try:
            return os.read(number, size)
        except BlockingIOError:  # another process has made the descriptor non-blocking
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
    """Ask a question on stderr. Raises `typer.Abort` if the answer is no or empty, or if the input ends."""
    await out.drain()  # print everything before the question
    try:
        with signals_raise():
            agreed: bool | None = None
            while agreed is None:
                typer.echo(f"{visible(question)} [y/N]: ", nl=False, err=True)
                line = answer()
                if not line.endswith(b"\n"):  # the cursor is still behind the question
                    typer.echo(err=True)
                agreed = _ANSWERS.get(line.strip().lower())
    except Interrupted:
        typer.echo("\nnot confirmed: nothing was changed", err=True)
        raise
    if not agreed:
        raise typer.Abort
