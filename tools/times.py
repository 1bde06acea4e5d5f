"""pytest plugin that shows the time taken by tests: ``python -m pytest -p tools.times``.

The table has seconds by folder (by file or test with ``--times-by``): in fixtures, in the tests themselves, and the
part of both during which neither this process nor its children used a processor, or (on Linux) waited for a processor.
On Linux, running children such as brokers are counted continuously, elsewhere when they end. Figures are larger on a
busy machine.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

CPU, QUEUED = "cpu_seconds", "queued_seconds"
SCHEDSTAT = Path("/proc/self/schedstat")
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass
class Spent:
    """Seconds of a row in the table."""

    tests: int = 0
    fixtures: float = 0.0
    calls: float = 0.0
    waiting: float = 0.0
    cpu: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        """Add a test's set-up, call or teardown."""
        measured = dict(report.user_properties)
        cpu, queued = (float(str(measured.get(name, 0.0))) for name in (CPU, QUEUED))
        if report.when == "call":
            self.tests += 1
            self.calls += report.duration
        else:
            self.fixtures += report.duration
        self.cpu += cpu
        self.waiting += max(0.0, report.duration - cpu - queued)


class Times:
    """Measures in the processes that run tests, and sums up in the process that reports."""

    def __init__(self, by: str) -> None:
        self._by = by
        self._spent: dict[str, Spent] = defaultdict(Spent)
        self._descendants = Descendants()
        self._last = self._used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = self._used()
        report.user_properties += [(name, now[name] - self._last[name]) for name in now]
        self._last = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._spent[self._row(report.nodeid)].add(report)

    def _used(self) -> dict[str, float]:
        """Return the processor time of this process and its children, and this process's wait for a processor."""
        queued = int(SCHEDSTAT.read_text().split()[1]) / 1e9 if SCHEDSTAT.exists() else 0.0
        return {CPU: sum(os.times()[:4]) + self._descendants.used(), QUEUED: queued}

    def _row(self, test: str) -> str:
        file = test.partition("::")[0]
        return {"folder": str(PurePath(*PurePath(file).parts[:2])), "file": file, "test": test}[self._by]

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        terminalreporter.write_line(f"| {self._by} | tests | fixtures, s | calls, s | waiting, s | CPU, s |")
        terminalreporter.write_line("|---|--:|--:|--:|--:|--:|")
        rows = sorted(self._spent.items(), key=lambda row: -(row[1].fixtures + row[1].calls))
        for name, spent in rows:
            seconds = (spent.fixtures, spent.calls, spent.waiting, spent.cpu)
            figures: list[Any] = [spent.tests, *(f"{value:.1f}" for value in seconds)]
            terminalreporter.write_line(f"| {name} | {' | '.join(map(str, figures))} |")


class Descendants:
    """All descendants of this process."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._looked = 0.0

    def used(self) -> float:
        """Return the seconds of processor time that they have used so far."""
        # At most once a second: a search of all threads, of which a JVM has a hundred, takes longer than most tests.
        if time.monotonic() - self._looked > 1:
            self._found = list(_started_by("self"))
            self._looked = time.monotonic()
        return sum(map(_used_by, self._found))


def _used_by(process: str) -> float:
    """Return the processor time of a running process, and of its children that have ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS


def _started_by(process: str) -> Iterator[str]:
    """Yield the ids of all descendants of a process, on Linux."""
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            for child in thread.read_text().split():
                yield child
                yield from _started_by(child)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times-by", choices=["folder", "file", "test"], default="folder", help="rows of the table")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times(str(config.getoption("times_by"))))
