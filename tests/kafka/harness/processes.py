"""Child processes that cannot outlive the test run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

_REAPER: Final = Path(__file__).with_name("reaper.py")

REMOVED_WITHIN_S: Final = 120.0
"""Time limit for removing the thousands of files that brokers leave, on a busy machine."""


def freeze(process: subprocess.Popen[Any]) -> None:
    """SIGSTOP a child process, and wait until it has stopped.

    The signal takes effect when the thread that handles it next runs. On a busy machine the other threads continue
    until then.
    """
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


class Processes:
    """Starts processes in separate process groups, and ends them; a `reaper` ends them if this process cannot.

    Safe to use from several threads. ``folder`` is a scratch folder removed with the processes.
    """

    def __init__(self) -> None:
        self.folder: Final = Path(tempfile.mkdtemp(prefix="aiokafka-lead-kafka-"))
        self._lock: Final = threading.Lock()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._reaper: Final = subprocess.Popen(
            [sys.executable, "-S", "-E", str(_REAPER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._tell(f"dir {self.folder}")

    def start(
        self,
        command: Sequence[str],
        *,
        log: IO[bytes],
        stdin: int | None = None,
        stdout: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a command in a new process group; its output goes to ``log`` unless piped."""
        with self._lock:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=log if stdout is None else stdout,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
            self._running[process.pid] = process
            self._tell(f"+{process.pid}")
        return process

    def end(self, process: subprocess.Popen[bytes], *, sig: signal.Signals, timeout_s: float = 30) -> None:
        """Send a signal and wait for the end; send SIGKILL if the process takes longer than ``timeout_s``."""
        process.send_signal(sig)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout_s)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        with self._lock:
            if self._running.pop(process.pid, None) is not None:
                self._tell(f"-{process.pid}")

    def close(self) -> None:
        """Kill everything that still runs and remove the folder. May be called again."""
        with self._lock:
            left = list(self._running.values())
        for process in left:
            process.send_signal(signal.SIGKILL)  # all at once: each takes a while to end
        for process in left:
            self.end(process, sig=signal.SIGKILL)
        assert self._reaper.stdin is not None
        self._reaper.stdin.close()
        self._reaper.wait(REMOVED_WITHIN_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _tell(self, line: str) -> None:
        assert self._reaper.stdin is not None
        self._reaper.stdin.write(line.encode() + b"\n")
        self._reaper.stdin.flush()


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Call ``condition`` until it is true; raise TimeoutError with ``what`` if it never is."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s:g} s")
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Return True if a process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return sys.platform != "linux"
