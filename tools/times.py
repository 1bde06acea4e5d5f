"""Show where the tests' time goes, as a plugin of pytest: ``python -m pytest -p tools.times``.

The table has the seconds by folder (``--times-by file`` or ``test`` for more detail): in fixtures, in the tests themselves,
and how much of both passed while this process and the children that it has reaped used no processor. A long-lived child,
such as a broker, counts when it ends. On a busy machine a test also waits for its turn, so that figures are taken on an
idle one, with ``--numprocesses=0``.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import PurePath

import pytest
from _pytest.terminal import TerminalReporter

CPU = "cpu_seconds"
SHOWN = 100


@dataclass
class Spent:
    tests: int = 0
    setup: float = 0.0
    call: float = 0.0
    waiting: float = 0.0
    cpu: float = 0.0

    def add(self, report: pytest.TestReport) -> None:
        cpu: float = dict(report.user_properties)[CPU]
        if report.when == "call":
            self.tests += 1
            self.call += report.duration
        else:
            self.setup += report.duration
        self.cpu += cpu
        self.waiting += max(0.0, report.duration - cpu)


@dataclass(eq=False)
class Times:
    """In a worker of pytest-xdist it measures, in the process that has the reports it adds up."""

    by: str
    spent: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    last_cpu: float = field(default_factory=lambda: _cpu())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _cpu()
        report.user_properties.append((CPU, now - self.last_cpu))
        self.last_cpu = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.spent[self._key(report.nodeid)].add(report)

    def _key(self, test: str) -> str:
        path = test.partition("::")[0]
        folder = "/".join(PurePath(path).parts[:2]) if path.count("/") > 1 else "tests"
        return {"folder": folder, "file": path, "test": test}[self.by]

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        rows = sorted(self.spent.items(), key=lambda row: -(row[1].setup + row[1].call))
        terminalreporter.write_line(f"| {self.by} | tests | fixtures, s | calls, s | waiting, s | CPU, s |")
        terminalreporter.write_line("|---|--:|--:|--:|--:|--:|")
        for name, its in rows[:SHOWN]:
            seconds = " | ".join(f"{value:.1f}" for value in (its.setup, its.call, its.waiting, its.cpu))
            terminalreporter.write_line(f"| {name} | {its.tests} | {seconds} |")


def _cpu() -> float:
    return sum(os.times()[:4])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times-by", choices=["folder", "file", "test"], default="folder", help="rows of the table of times")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times(config.getoption("times_by")))
