"""Apache Kafka's own command-line tools, by class name."""

from __future__ import annotations

import base64
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import java
from .processes import Processes
from .releases import Release

_HOST: Final = Path(__file__).with_name("ToolHost.java")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Exit status and output of a tool."""

    status: int
    stdout: str
    stderr: str


class ToolError(Exception):
    """A tool failed or took too long."""


class Tools:
    """Runs tools in one JVM that stays warm: a call costs milliseconds instead of the seconds of a new JVM.

    One call at a time; further callers wait. The JVM starts with the first call.
    """

    def __init__(self, release: Release, processes: Processes, plugin: Path | None = None) -> None:
        """``plugin`` is the brokers': tools that read a broker's configuration load the classes that it names."""
        self._release: Final = release
        self._plugin: Final = plugin
        self._processes: Final = processes
        self._lock: Final = threading.Lock()
        self._host: subprocess.Popen[bytes] | None = None

    def run(self, name: str, *arguments: str, stdin: bytes = b"", timeout_s: float = 150) -> str:
        """Run a tool and return its stdout; raise `ToolError` if it does not end with status 0."""
        result = self.call(name, *arguments, stdin=stdin, timeout_s=timeout_s)
        if result.status != 0:
            raise ToolError(f"{name} {' '.join(arguments)}: {result.status}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def call(self, name: str, *arguments: str, stdin: bytes = b"", timeout_s: float = 150) -> ToolResult:
        """Run a tool, ignoring its status; raise `ToolError` if it takes longer than ``timeout_s``."""
        words = [name, *(base64.b64encode(word).decode() for word in (stdin, *map(str.encode, arguments)))]
        with self._lock:
            host = self._host if self._host is not None else self._start()
            assert host.stdin is not None
            assert host.stdout is not None
            watch = threading.Timer(timeout_s, host.kill)
            watch.start()
            try:
                host.stdin.write(" ".join(words).encode() + b"\n")
                host.stdin.flush()
                reply = host.stdout.readline().split(b" ")
            finally:
                watch.cancel()
            if len(reply) != 3:
                self._host = None
                raise ToolError(f"{name} {' '.join(arguments)}: no answer within {timeout_s:g} s, or the JVM ended")
        out, err = (base64.b64decode(part).decode(errors="replace") for part in reply[1:])
        return ToolResult(int(reply[0]), out, err)

    def _start(self) -> subprocess.Popen[bytes]:
        jars = java.class_path(self._release, self._plugin)
        classes = java.compile_class(_HOST, jars)
        flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        flags += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        with (self._processes.folder / "tools.log").open("ab") as log:
            self._host = self._processes.start(
                ["java", *flags, "-cp", f"{classes}:{jars}", "ToolHost"],
                log=log,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._host
