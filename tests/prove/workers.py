"""The clients' processes. Each has a journal for every start."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.kafka.harness.processes import freeze

__all__ = ["Worker", "Workers"]

END_S = 150.0
"""Seconds for an orderly end of a process after SIGTERM: its last records may take up to their delivery timeout."""


class Worker:
    """A process, and the processes that replace it."""

    def __init__(self, role: str, module: str, number: int, folder: Path, options: dict[str, Any]) -> None:
        """Create a worker. Each start adds its name, number and journal to ``options``, the module's options."""
        self._role = role
        self._module = module
        self.journals: dict[int, Path] = {}
        """Journals by the number of the start, which is unique within this role."""
        self.options = options
        self._number = number
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._is_frozen = False

    def start(self) -> None:
        """Start a process."""
        life = self._number * 1000 + len(self.journals) + 1
        name = f"{self._role}-{life}"
        self.journals[life] = self._folder / f"{name}.jsonl"
        options = {**self.options, "name": name, "writer": life, "journal": str(self.journals[life])}
        options["id"] = f"{self._role}-{self._number}"
        with (self._folder / f"{self._role}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, json.dumps(options)], stdout=log, stderr=log
            )

    @property
    def ended(self) -> bool:
        """Return True if the process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    @property
    def failure(self) -> str | None:
        """Return a description of a process that has ended by itself and in error; None if it ended properly."""
        status = None if self._process is None else self._process.poll()
        return f"{self._role}-{self._number} ended with status {status}, see {self._role}.log" if status else None

    def freeze(self) -> None:
        """Suspend the process until `thaw`."""
        if self._process is not None and not self.ended:
            self._is_frozen = True
            freeze(self._process)

    def thaw(self) -> None:
        """Resume the process."""
        if self._process is not None and self._is_frozen:
            self._is_frozen = False
            self._process.send_signal(signal.SIGCONT)

    def end(self, sig: signal.Signals) -> bool:
        """End the process with a signal; return True if it ended properly."""
        assert self._process is not None
        self.thaw()
        self._process.send_signal(sig)
        try:
            status = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return status in (0, -sig)  # without a handler, the signal itself ends the process

    def kill(self) -> None:
        """Kill the process if it is still running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Workers:
    """All processes of a run, and their faults."""

    def __init__(self, seed: int) -> None:
        self.all: list[Worker] = []
        self.done: Counter[str] = Counter()
        """Numbers of faults, and of processes that ended by themselves."""
        self.failures: list[str] = []
        """Processes that ended by themselves in error."""
        self._rng = random.Random(seed)

    def add(self, workers: Iterable[Worker]) -> None:
        """Add these workers, and start them."""
        for worker in workers:
            self.all.append(worker)
            worker.start()

    def strike(self) -> None:
        """Cause a fault of one process; block while it lasts."""
        self.revive()
        worker = self._rng.choice(self.all)
        kind = self._rng.choice(["SIGKILL", "SIGTERM", "SIGSTOP"])
        self.done[kind] += 1
        if kind == "SIGSTOP":
            worker.freeze()
            try:
                time.sleep(self._rng.uniform(0.5, 8))
            finally:
                worker.thaw()
            return
        if not worker.end(signal.Signals[kind]):
            self.done[f"did not end properly at {kind}"] += 1
        worker.start()

    def revive(self) -> None:
        """Restart the processes that have ended by themselves."""
        for worker in self.all:
            if worker.ended:
                self._ended(worker)
                worker.start()

    def stop(self, workers: Iterable[Worker]) -> None:
        """Stop these workers one by one, each with SIGTERM."""
        for worker in workers:
            if worker.ended:
                self._ended(worker)
            elif not worker.end(signal.SIGTERM):
                self.done["did not end properly at the last SIGTERM"] += 1

    def _ended(self, worker: Worker) -> None:
        self.done["ended by itself"] += 1
        if worker.failure is not None:
            self.failures.append(worker.failure)

    def kill(self) -> None:
        """Kill all processes that still run."""
        for worker in self.all:
            worker.kill()
