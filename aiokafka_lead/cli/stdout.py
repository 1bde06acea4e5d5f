"""Standard output, which a reader may read slowly, or not at all, and which may lack characters or room."""

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
"""All that can move a cursor, hide text or turn it around; line ends and tabs do no harm."""

_JSON_ESCAPES = "aiokafka_lead.json"


def visible(text: str) -> str:
    """Text that does nothing to a terminal: controls as escapes."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    units = (int.from_bytes(lacking[at : at + 2], "big") for at in range(0, len(lacking), 2))
    return "".join(f"\\u{unit:04x}" for unit in units), error.end


codecs.register_error(_JSON_ESCAPES, _json_escapes)


class Stdout:
    """Keeps what is written until `drain`. A thread of its own writes it, so that nobody else waits for the reader.

    A text stream for Rich, too.
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
        except OSError:  # tests have a stream without
            self._number = None

    def isatty(self) -> bool:
        return self._terminal

    def fileno(self) -> int:
        if self._number is None:
            raise OSError("no descriptor")
        return self._number

    @property
    def is_file(self) -> bool:
        """Return True if it goes to a file, where nobody sees what has come so far."""
        return self._number is not None and S_ISREG(os.fstat(self._number).st_mode)

    def encoded(self, text: str) -> bytes:
        """The bytes of a text; characters that the encoding lacks as escapes."""
        return text.encode(self.encoding, "backslashreplace")

    def write(self, text: str) -> int:
        """Keep a text."""
        self._kept += self.encoded(text)
        return len(text)

    def flush(self) -> None:
        """Nothing: see `drain`."""

    def write_bytes(self, content: bytes) -> None:
        """Keep bytes as they are."""
        self._kept += content

    def write_json(self, text: str) -> None:
        """Keep a JSON document: of another encoding than UTF-8 ASCII alone, which any parser reads."""
        if self._terminal:
            text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        self._kept += text.encode("utf-8" if self._is_utf8 else "ascii", _JSON_ESCAPES)

    async def drain(self) -> None:
        """Write what is kept, and wait until the reader has taken it.

        Raises BrokenPipeError where nobody reads any more, and `Failed` where it cannot be written.
        """
        kept, self._kept = self._kept, bytearray()
        if self._number is None or self.is_file:
            self._write(kept)
        elif kept or self._jobs is not None:  # with nothing new, too: what a cancelled call has left may be on its way
            await self._write_in_thread(kept)
        if isinstance(self._failure, BrokenPipeError):
            raise self._failure
        if self._failure is not None:
            raise Failed(f"standard output cannot be written: {self._failure.strerror}")

    async def _write_in_thread(self, content: bytearray) -> None:
        if self._jobs is None:
            self._jobs = SimpleQueue()
            # A daemon: a write that waits for its reader must not keep the program from ending.
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
                except BlockingIOError:  # who shares the descriptor has made it so
                    select.select([], [self._number], [])
        except OSError as error:
            self._failure = error
