"""Standard output and standard error, written in threads so that a slow reader does not block the event loop."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
from collections.abc import Callable
from queue import SimpleQueue
from stat import S_ISREG
from threading import Event, Thread
from typing import TextIO

from .._io.loop import Signal, loop_caller
from .failures import Failed

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that can move the cursor, hide text or reverse it. Newlines and tabs are allowed."""

JSON_ESCAPES = "aiokafka_lead.json"
"""Name of a codec error handler that writes JSON escapes, even for halves of surrogate pairs."""


_ELLIPSIS = "\u2026"
"""Rich's mark at the end of a truncated cell."""


def visible(text: str) -> str:
    """Return the text with terminal control characters as escapes."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(lacking[at : at + 2], "big") for at in range(0, len(lacking), 2))
    return "".join(f"\\u{unit:04x}" for unit in units), error.end


codecs.register_error(JSON_ESCAPES, _json_escapes)


class _Descriptor:
    """A file descriptor that is written in a thread, so that a slow reader does not block the event loop."""

    def __init__(self, number: int) -> None:
        self.failure: OSError | None = None
        self._number = number
        self._jobs: SimpleQueue[tuple[bytes | bytearray, Callable[[], object]]] | None = None

    @property
    def is_file(self) -> bool:
        """True for a regular file, which has no slow reader."""
        return S_ISREG(os.fstat(self._number).st_mode)

    @property
    def is_abandoned(self) -> bool:
        """True if the reader is gone. Without this check, only the next write would show it."""
        if not hasattr(select, "poll"):  # on Windows
            return False
        state = select.poll()
        state.register(self._number, 0)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in state.poll(0))

    def put(self, content: bytes | bytearray, written: Callable[[], object]) -> None:
        """Queue bytes for writing. ``written`` is called in the thread once they are written."""
        if self._jobs is None:
            self._jobs = SimpleQueue()
            # A daemon thread, because a write that waits for its reader must not prevent the program from ending.
            Thread(target=self._work, args=(self._jobs,), daemon=True, name="output").start()
        self._jobs.put((content, written))

    def wait(self, timeout_s: float | None) -> None:
        """Wait until everything has been written, without an event loop. None means no time limit."""
        if self._jobs is not None:
            written = Event()
            self.put(b"", written.set)
            written.wait(timeout_s)

    async def write_in_thread(self, content: bytes | bytearray) -> None:
        """Write bytes, and wait until the reader has accepted them."""
        if not content and self._jobs is None:
            return
        written = Signal()
        call_in_loop = loop_caller()
        self.put(content, lambda: call_in_loop(written.set))
        await written.wait()

    def write(self, content: bytes | bytearray) -> None:
        """Write bytes in the calling thread.

        After a failure, which is kept in `failure`, further calls have no effect.
        """
        if self.failure is not None:
            return
        left = memoryview(content)
        try:
            while left:
                try:
                    left = left[os.write(self._number, left) :]
                except BlockingIOError:  # another process has made the descriptor non-blocking
                    select.select([], [self._number], [])
        except OSError as error:
            self.failure = error

    def _work(self, jobs: SimpleQueue[tuple[bytes | bytearray, Callable[[], object]]]) -> None:
        while True:
            content, written = jobs.get()
            self.write(content)
            written()


def _descriptor(stream: TextIO) -> _Descriptor | None:
    """Return the stream's descriptor, or None if it has none, as in tests."""
    try:
        return _Descriptor(stream.fileno())
    except OSError:
        return None


class Stdout:
    """Standard output, buffered until `drain`. It has the methods of a text stream that Rich needs."""

    def __init__(self) -> None:
        stream = sys.stdout
        self._buffer = stream.buffer
        self._terminal = stream.isatty()
        self.encoding = stream.encoding or "utf-8"
        self._is_utf8 = codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")
        self._lacks_ellipsis = not _ELLIPSIS.encode(self.encoding, "ignore")
        self._kept = bytearray()
        self._descriptor = _descriptor(stream)

    def isatty(self) -> bool:
        return self._terminal

    @property
    def is_file(self) -> bool:
        """True if the output goes to a regular file."""
        return self._descriptor is not None and self._descriptor.is_file

    @property
    def is_abandoned(self) -> bool:
        """True if the reader is gone."""
        return self._descriptor is not None and self._descriptor.is_abandoned

    def encoded(self, text: str) -> bytes:
        """Encode text. Characters that the encoding cannot represent become escapes."""
        return text.encode(self.encoding, "backslashreplace")

    def write(self, text: str) -> int:
        """Buffer text until `drain`."""
        if self._lacks_ellipsis:  # an escape is longer than the ellipsis, so the row would exceed the terminal's width
            text = text.replace(_ELLIPSIS, "~")
        self._kept += self.encoded(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing; see `drain`."""

    def write_bytes(self, content: bytes) -> None:
        """Buffer bytes, unchanged, until `drain`."""
        self._kept += content

    def write_json(self, text: str) -> None:
        """Buffer a JSON document. If the encoding is not UTF-8, the document is ASCII with escapes."""
        if self._terminal:
            text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        self._kept += text.encode("utf-8" if self._is_utf8 else "ascii", JSON_ESCAPES)

    async def drain(self) -> None:
        """Write the buffered output, and wait until the reader has accepted it.

        Raises BrokenPipeError if the reader has closed the pipe, and `Failed` if the output cannot be written.
        """
        kept, self._kept = self._kept, bytearray()
        if self._descriptor is None:
            self._buffer.write(kept)
            return
        if self._descriptor.is_file:
            self._descriptor.write(kept)
        else:
            await self._descriptor.write_in_thread(kept)
        failure = self._descriptor.failure
        if isinstance(failure, BrokenPipeError):
            raise failure
        if failure is not None:
            raise Failed(f"cannot write to standard output: {failure.strerror}")


class Stderr:
    """Standard error, written without waiting for the reader. Errors are ignored, because no output is left for them.

    It has the methods of a text stream that Rich and `logging` need.
    """

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._descriptor = _descriptor(self._stream)
        self.encoding = self._stream.encoding or "utf-8"

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Queue text for the writing thread."""
        if self._descriptor is None:
            self._stream.write(text)
        else:
            self._descriptor.put(text.encode(self.encoding, "backslashreplace"), _nothing)
        return len(text)

    def flush(self) -> None:
        """Do nothing; see `drain`."""

    async def drain(self) -> None:
        """Wait until the reader has accepted all queued text."""
        if self._descriptor is not None:
            await self._descriptor.write_in_thread(b"")

    def close(self, timeout_s: float | None) -> None:
        """Wait as `drain` does, but without an event loop, at the end of the program. None waits without a limit."""
        if self._descriptor is not None:
            self._descriptor.wait(timeout_s)


def _nothing() -> None:
    """Do nothing after a text has been written."""
