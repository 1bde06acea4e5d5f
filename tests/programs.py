"""A Python program that a test runs in a separate process, and its output."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[1]
PATIENCE_S = 90
"""Longest wait, in seconds, for a line or for the end of a program on a slow machine."""


class Program:
    """A program that runs during a ``with`` block. If the block fails, the error shows the program's output."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.lines: list[str] = []
        self._arguments = arguments
        self._changed = threading.Condition()
        self._has_ended = False
        self._position = 0
        # A separate session, so that killing the group also kills remaining children.
        self._process = subprocess.Popen(
            [sys.executable, "-u", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read_lines)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if error is not None:
            error.add_note(f"{' '.join(self._arguments)} said:\n{self.output}")

    @property
    def output(self) -> str:
        """Return the output so far."""
        return "".join(self.lines)

    @property
    def is_running(self) -> bool:
        """Return True until the process ends."""
        return self._process.poll() is None

    def read_until(self, pattern: str) -> re.Match[str]:
        """Wait for the next line that contains the text, after the line found last."""
        found: list[re.Match[str]] = []

        def is_there() -> bool:
            while self._position < len(self.lines) and not found:
                match = re.search(pattern, self.lines[self._position])
                self._position += 1
                found.extend([match] if match is not None else [])
            return bool(found) or self._has_ended

        with self._changed:
            self._changed.wait_for(is_there, PATIENCE_S)
        assert found, f"no line with {pattern!r} came"
        return found[0]

    def send_signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal to the program."""
        self._process.send_signal(number)

    def children(self, having: str) -> list[int]:
        """Return the process ids of children whose command line contains the text (Linux)."""
        pid = self._process.pid
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found = []
        for child in listed:
            with suppress(FileNotFoundError):  # ended meanwhile
                if having in Path(f"/proc/{child}/cmdline").read_text():
                    found.append(int(child))
        return found

    def wait(self) -> int:
        """Wait until the program ends by itself; return its exit status."""
        status = self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the program with a signal; return its exit status."""
        self.send_signal(number)
        return self.wait()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
