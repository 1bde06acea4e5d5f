"""Mutation testing of ``aiokafka_lead/_core``: changes random places, one at a time, and lists undetected changes.

``python -m tools.mutants --sample 60 --seed 1`` copies the checkout without compiled modules, and runs the tests once
with coverage.py to find out which tests run which lines. For each change, it then runs the tests that run the changed
line, the quickest first. A change with which a test fails or hangs is killed. Changes that survive are listed.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "aiokafka_lead/_core"
JUDGES = ("tests/core", "tests/leadership", "tests/sim", "tests/group/test_classic_member.py")
TESTS_EACH = 150
"""Maximum number of tests to run for a change."""
TIMEOUT_S = 300
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Continue: ast.Break, ast.Break: ast.Continue,
}  # fmt: skip


class Mutant(NamedTuple):
    """Change of a file."""

    path: str
    line: int
    number: int
    """Index among all changes of the file."""
    kind: str
    before: str


class Places(ast.NodeVisitor):
    """Collects all possible changes of a module, each with a function that makes it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[tuple[Mutant, Callable[[], None]]] = []

    def _add(self, node: ast.stmt | ast.expr, kind: str, change: Callable[[], None]) -> None:
        mutant = Mutant(self.path, node.lineno, len(self.found), kind, ast.unparse(node).partition("\n")[0][:100])
        self.found.append((mutant, change))

    def visit(self, node: ast.AST) -> None:
        """Collect the changes of a node and of its descendants, except parts that never affect decisions."""
        if isinstance(node, ast.Assert | ast.Raise) or getattr(node, "name", "") in ("__repr__", "__str__"):
            return
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        for field in ("op", "ops"):
            operators = getattr(node, field, None)
            if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare) and operators is not None:
                self._swap(node, field)
        if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, ast.Constant):
            self._add(node.test, "condition turned", self._setting(node, "test", ast.UnaryOp(ast.Not(), node.test)))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            wrong = not node.value if isinstance(node.value, bool) else node.value + 1
            self._add(node, "constant", self._setting(node, "value", wrong))
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(body, list) and not isinstance(node, ast.Module | ast.ClassDef):
                self._statements(body)
        for name, child in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases"):
                continue
            for part in child if isinstance(child, list) else [child]:
                if isinstance(part, ast.AST):
                    self.visit(part)

    def _swap(self, node: Any, field: str) -> None:
        operator = getattr(node, field)
        first = operator[0] if isinstance(operator, list) else operator
        if type(first) in SWAPPED:
            other: Any = SWAPPED[type(first)]()
            kind = f"{type(first).__name__} to {type(other).__name__}"
            self._add(node, kind, self._setting(node, field, [other, *operator[1:]] if field == "ops" else other))

    def _statements(self, body: list[ast.stmt]) -> None:
        for place, statement in enumerate(body):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.Delete) and not is_text:
                if "log" not in ast.unparse(statement).partition("(")[0]:
                    self._add(statement, "statement gone", lambda place=place: body.__setitem__(place, ast.Pass()))  # type: ignore[misc]
            elif isinstance(statement, ast.Return) and statement.value is not None:
                self._add(statement, "returns None", self._setting(statement, "value", ast.Constant(None)))
            elif type(statement) in SWAPPED:
                other: Any = SWAPPED[type(statement)]()
                self._add(statement, "loop", lambda place=place, other=other: body.__setitem__(place, other))  # type: ignore[misc]

    @staticmethod
    def _setting(node: ast.AST, field: str, value: object) -> Callable[[], None]:
        return lambda: setattr(node, field, value)


def places(source: str, path: str) -> tuple[ast.Module, list[tuple[Mutant, Callable[[], None]]]]:
    """Return the syntax tree of a module, and its possible changes."""
    tree = ast.parse(source)
    visitor = Places(path)
    visitor.visit(tree)
    return tree, visitor.found


class Recorder:
    """pytest plugin that records the running test in coverage.py, and the durations of passed tests."""

    def __init__(self, coverage: Any, durations: Path) -> None:
        self._coverage = coverage
        self._file = durations
        self._durations: dict[str, float] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._durations[report.nodeid] = report.duration

    def pytest_sessionfinish(self) -> None:
        self._file.write_text(json.dumps(self._durations))


def record(checkout: Path) -> None:
    """Run the tests in the copy, and write the coverage by test and the durations of tests."""
    import coverage

    measured = coverage.Coverage(str(checkout / ".coverage"), source=[str(checkout / PACKAGE)], config_file=False)
    measured.start()
    recorder = Recorder(measured, checkout / "durations.json")
    pytest.main(["-q", "--suite=test", "--timeout=900", *JUDGES], plugins=[recorder])
    measured.stop()
    measured.save()


def judges(checkout: Path) -> Callable[[str, int], list[str]]:
    """Return a function that returns the tests for a line of a file, the quickest first."""
    import coverage

    data = coverage.CoverageData(str(checkout / ".coverage"))
    data.read()
    durations = json.loads((checkout / "durations.json").read_text())

    def of(path: str, line: int) -> list[str]:
        tests = data.contexts_by_lineno(str(checkout / path)).get(line, [])
        return sorted((test for test in tests if test in durations), key=lambda test: durations[test])[:TESTS_EACH]

    return of


def try_one(checkout: Path, mutant: Mutant, tests: list[str]) -> str:
    """Test a change, and return the outcome: killed, hangs, survived, or not run (no test runs the line)."""
    if not tests:
        return "not run"
    path = checkout / mutant.path
    source = path.read_text()
    tree, found = places(source, mutant.path)
    found[mutant.number][1]()
    path.write_text(ast.unparse(ast.fix_missing_locations(tree)))
    chosen = checkout / "chosen.txt"
    chosen.write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", f"@{chosen}"]
    try:
        ended = subprocess.run(command, cwd=checkout, capture_output=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        path.write_text(source)
    return "survived" if ended.returncode == 0 else "killed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--after", type=int, default=0, metavar="N", help="skip the first N changes of the sample")
    parser.add_argument("--in", dest="checkout", type=Path, help="copy of an earlier run, whose record is used")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(Path.cwd())
        return
    checkout: Path = options.checkout or Path(tempfile.mkdtemp(prefix="mutants-"))
    if not (checkout / "durations.json").exists():
        ignored = shutil.ignore_patterns("*.so", "*.pyd", ".*", "build", "__pycache__")
        shutil.copytree(ROOT, checkout, ignore=ignored, dirs_exist_ok=True)
        subprocess.run([sys.executable, "-m", "tools.mutants", "--record"], cwd=checkout, check=True)
    everything = [
        mutant
        for path in sorted((checkout / PACKAGE).rglob("*.py"))
        for mutant, _ in places(path.read_text(), str(path.relative_to(checkout)))[1]
    ]
    tests_of = judges(checkout)
    ends: Counter[str] = Counter()
    print(f"{len(everything)} changes are possible; the copy is in {checkout}", flush=True)
    for mutant in random.Random(options.seed).sample(everything, options.sample)[options.after :]:
        end = try_one(checkout, mutant, tests_of(mutant.path, mutant.line))
        ends[end] += 1
        if end in ("survived", "not run"):
            print(f"{end}: {mutant.path}:{mutant.line}: {mutant.kind}: {mutant.before}", flush=True)
    print(", ".join(f"{count} {end}" for end, count in ends.most_common()))


if __name__ == "__main__":
    main()
