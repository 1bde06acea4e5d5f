"""CPU time, wall time and memory of this process."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from types import TracebackType
from typing import Any, Self


class Meter:
    """Measures a ``with`` block: CPU time of all threads (user and system), wall time, and load of the machine."""

    def __init__(self, records: int, *, ticks: bool = False) -> None:
        """Create a meter. With ``ticks``, it also measures pauses of asyncio's event loop."""
        self.records = records
        self._ticks = Ticks() if ticks else None
        self.cpu_s = 0.0
        self.wall_s = 0.0
        self.machine_busy = 0.0
        """Share of the time of all cores that was in use. If it is near 1, the machine was the bottleneck."""

    def __enter__(self) -> Self:
        if self._ticks is not None:
            self._ticks.start()
        self._machine = _machine_times()
        self._wall_s = time.perf_counter()
        self._cpu_s = _cpu_s()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ticks is not None:
            self._ticks.running = False
        self.cpu_s = _cpu_s() - self._cpu_s
        self.wall_s = time.perf_counter() - self._wall_s
        busy, total = (now - then for now, then in zip(_machine_times(), self._machine, strict=True))
        self.machine_busy = busy / total if total else 0.0

    def figures(self) -> dict[str, Any]:
        """Return the figures for the report."""
        return {
            "records": self.records,
            "cpu_us": self.cpu_s / self.records * 1e6,
            "wall_s": self.wall_s,
            "per_second": self.records / self.wall_s,
            "machine_busy": self.machine_busy,
            "pause_ms": 0.0 if self._ticks is None else self._ticks.longest_s * 1000,
        }


class Ticks:
    """Reads a clock in each iteration of asyncio's event loop.

    The clock is the CPU time of the thread, so other programs on the machine have no effect.
    """

    def __init__(self) -> None:
        self.running = False
        self.longest_s = 0.0
        self._last_s = 0.0

    def start(self) -> None:
        """Read the clock in each iteration until ``running`` is False."""
        self.running = True
        self._last_s = time.thread_time()
        asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        now_s = time.thread_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        if self.running:
            asyncio.get_running_loop().call_soon(self._tick)


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _machine_times() -> tuple[float, float]:
    """Return the busy and total times of all cores since boot in ticks, or zeros if the system does not report them."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(part) for part in file.readline().split()[1:9]]
    except OSError:
        return 0.0, 0.0
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
