"""Standard output, whose reader may be slow or absent, and which may lack characters or space."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
from collections.abc import Callable
from queue import SimpleQueue
from stat import S_ISREG
from threading import Thread

from .._io.loop import Signal, loop_caller
from .failures import Failed

__all__ = ["Stdout", "visible"]

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that can move a cursor, hide text or reverse it; line ends and tabs are harmless."""

_JSON_ESCAPES = "aiokafka_lead.json"


def visible(text: str) -> str:
    """Return text with terminal controls as escapes."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(lacking[at : at + 2], "big") for at in range(0, len(lacking), 2))
    return "".join(f"\\u{unit:04x}" for unit in units), error.end


codecs.register_error(_JSON_ESCAPES, _json_escapes)


class Stdout:
    """Keeps output until `drain`. A separate thread writes it, so that no other task waits for the reader.

    It also serves Rich as a text stream.
    """

    def __init__(self) -> None:
        stream = sys.stdout
        self._buffer = stream.buffer
        self._terminal = stream.isatty()
        self.encoding = stream.encoding or "utf-8"
        self._is_utf8 = codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")
        self._kept = bytearray()
        self._failure: OSError | None = None
        self._jobs: SimpleQueue[tuple[bytearray, Callable[[], None]]] | None = None
        try:
            self._number: int | None = stream.fileno()
        except OSError:  # tests have a stream without a descriptor
            self._number = None

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        if self._number is None:
            raise OSError("no descriptor")
        return self._number

    @property
    def is_file(self) -> bool:
        """True if the output goes to a file, where intermediate output is not visible to anyone."""
        return self._number is not None and S_ISREG(os.fstat(self._number).st_mode)

    def encoded(self, text: str) -> bytes:
        """Return the bytes of a text; characters missing in the encoding become escapes."""
        return text.encode(self.encoding, "backslashreplace")

    def write(self, text: str) -> int:
        """Keep a text."""
        self._kept += self.encoded(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing: see `drain`."""

    def write_bytes(self, content: bytes) -> None:
        """Keep bytes unchanged."""
        self._kept += content

    def write_json(self, text: str) -> None:
        """Keep a JSON document: ASCII only for encodings other than UTF-8, which any parser reads."""
        if self._terminal:
            text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        self._kept += text.encode("utf-8" if self._is_utf8 else "ascii", _JSON_ESCAPES)

    async def drain(self) -> None:
        """Write the kept output, and wait until the reader has accepted it.

        Raises BrokenPipeError if the reader is gone, and `Failed` if the output cannot be written.
        """
        kept, self._kept = self._kept, bytearray()
        if self._number is None or self.is_file:
            self._write(kept)
        elif kept or self._jobs is not None:  # even without new output: the rest of a cancelled call may be in progress
            await self._write_in_thread(kept)
        if isinstance(self._failure, BrokenPipeError):
            raise self._failure
        if self._failure is not None:
            raise Failed(f"standard output cannot be written: {self._failure.strerror}")

    async def _write_in_thread(self, content: bytearray) -> None:
        if self._jobs is None:
            self._jobs = SimpleQueue()
            # A daemon thread: a write that waits for its reader must not keep the program from ending.
            Thread(target=self._work, args=(self._jobs,), daemon=True, name="stdout").start()
        written = Signal()
        call_in_loop = loop_caller()
        self._jobs.put((content, lambda: call_in_loop(written.set)))
        await written.wait()

    def _work(self, jobs: SimpleQueue[tuple[bytearray, Callable[[], None]]]) -> None:
        while True:
            content, tell = jobs.get()
            self._write(content)
            tell()

    def _write(self, content: bytearray) -> None:
        if self._failure is not None:
            return
        try:
            if self._number is None:
                self._buffer.write(content)
                return
            left = memoryview(content)
            while left:
                try:
                    left = left[os.write(self._number, left) :]
                except BlockingIOError:  # set by another user of the descriptor
                    select.select([], [self._number], [])
        except OSError as error:
            self._failure = error
