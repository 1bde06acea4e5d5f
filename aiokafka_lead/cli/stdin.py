"""Standard input, line by line, without holding up the event loop, and without holding up the end of the program."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from threading import Thread

import anyio
from anyio.from_thread import BlockingPortal

__all__ = ["lines"]

_CHUNK_BYTES = 65_536


async def lines() -> AsyncIterator[list[bytes]]:
    """The lines that have come, as soon as there are some, each without its end; the last one may have had none."""
    # A daemon: a read that waits for a terminal must not keep the program from ending.
    sending, receiving = anyio.create_memory_object_stream[bytes | OSError](4)
    async with BlockingPortal() as portal, sending, receiving:
        Thread(target=_read, args=(portal, sending), daemon=True, name="stdin").start()
        rest = b""
        try:
            async for chunk in receiving:
                if isinstance(chunk, OSError):
                    raise chunk
                if not chunk:
                    break
                *whole, rest = (rest + chunk).split(b"\n")
                if whole:
                    yield whole
            if rest:
                yield [rest]
        finally:
            receiving.close()
            await portal.stop(cancel_remaining=True)


def _read(portal: BlockingPortal, sending: anyio.abc.ObjectSendStream[bytes | OSError]) -> None:
    chunk: bytes | OSError = b"-"
    while chunk and not isinstance(chunk, OSError):
        try:
            chunk = sys.stdin.buffer.read1(_CHUNK_BYTES)  # type: ignore[union-attr]
        except OSError as error:
            chunk = error
        try:
            portal.call(sending.send, chunk)
        except Exception:
            return  # nobody listens any more
