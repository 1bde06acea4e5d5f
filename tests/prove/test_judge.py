"""The judge finds violations, without false alarms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.transactions.history import Value

from .elle import cycles
from .judge import Stored, judge_copies, judge_lists, judge_readers, judge_sharers, judge_writers


def journal(folder: Path, name: str, *lines: tuple[Any, ...]) -> Path:
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '["sent", 9')  # the last line is incomplete
    return path


SENT = [("sent", n, 0) for n in range(3)]
ACKNOWLEDGED = [("stored", 0, 0, 0), ("failed", 1, "TimeoutError: late"), ("stored", 2, 0, 2)]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["w/0", "w/1", "w/2"], set()),
        (["w/0", "w/1"], {"lost"}),
        (["w/0", "w/1", "w/2", "w/0"], {"twice", "out of order"}),
        (["w/1", "w/0", "w/2"], {"out of order", "elsewhere"}),
        (["w/0", "w/1", "w/2", "w/7"], {"never sent"}),
    ],
)
def test_writers(tmp_path: Path, values: list[str], found: set[str]) -> None:
    verdict = judge_writers([journal(tmp_path, "w", *SENT, *ACKNOWLEDGED)], {0: list(enumerate(values))})
    assert {kind for kind, findings in verdict.findings.items() if findings} == found
    assert verdict.clean == (not found)
    assert verdict.counts["acknowledged"] == 2


@pytest.mark.parametrize(
    ("outcome", "values", "found"),
    [
        ("committed", ["1/1/0", "1/1/1"], set()),
        ("committed", ["1/1/0"], {"lost write"}),
        ("aborted", ["1/1/0"], {"aborted read"}),
        ("unknown", ["1/1/0"], {"torn"}),
        ("unknown", [], set()),
    ],
)
def test_lists(tmp_path: Path, outcome: str, values: list[str], found: set[str]) -> None:
    lines = [("append", 1, 0, 0), ("append", 1, 0, 1), ("end", 1, outcome)]
    verdict = judge_lists({1: journal(tmp_path, "lists-1", *lines)}, {0: list(enumerate(values))})
    assert {kind for kind, findings in verdict.findings.items() if findings} == found


def test_cycles() -> None:
    a, b = (1, 1), (2, 1)
    apart = {0: [Value(*a, 0), Value(*b, 0)], 1: [Value(*a, 1), Value(*b, 1)]}
    crossed = {0: [Value(*a, 0), Value(*b, 0)], 1: [Value(*b, 1), Value(*a, 1)]}
    assert cycles(apart, {}) == ([], [], [])
    assert [sorted(group) for group in cycles(crossed, {}).g0] == [[a, b]]
    assert cycles(crossed, {}).g1c == []
    with_a_read = cycles(apart, {a: [Value(*b, 0)]})
    assert (with_a_read.g0, [sorted(group) for group in with_a_read.g1c]) == ([], [[a, b]])
    assert with_a_read.of_reads == []
    circular = cycles(apart, {a: [Value(*b, 0)], b: [Value(*a, 0)]})
    assert [sorted(group) for group in circular.of_reads] == [[a, b]]


def test_a_long_chain_is_no_cycle() -> None:
    values = [Value(n % 7, n, 0) for n in range(20_000)]
    assert cycles({0: values}, {}) == ([], [], [])


STORED: Stored = {0: [(0, "w/0"), (1, "w/1")]}


@pytest.mark.parametrize(("got", "found"), [([0, 1, 1], set()), ([0], {"lost"}), ([0, 1, 2], {"never stored"})])
def test_readers(tmp_path: Path, got: list[int], found: set[str]) -> None:
    verdict = judge_readers([journal(tmp_path, "r", ("got", 0, got))], STORED)
    assert {kind for kind, findings in verdict.findings.items() if findings} == found


@pytest.mark.parametrize(
    ("done", "found"),
    [(["w/0", "w/1"], set()), (["w/0"], set()), (["w/0", "w/0"], {"accepted twice"}), (["w/5"], {"never stored"})],
)
def test_sharers(tmp_path: Path, done: list[str], found: set[str]) -> None:
    verdict = judge_sharers([journal(tmp_path, "s", ("begun", ["w/0", "w/1"]), ("done", done))], STORED)
    assert {kind for kind, findings in verdict.findings.items() if findings} == found


def test_records_that_no_sharer_has_had_are_lost(tmp_path: Path) -> None:
    assert judge_sharers([journal(tmp_path, "s", ("begun", ["w/0"]))], STORED).findings["lost"] == ["w/1"]


@pytest.mark.parametrize(
    ("copies", "found"),
    [
        (["w/0", "w/1"], set()),
        (["w/0"], {"lost"}),
        (["w/0", "w/1", "w/1"], {"twice"}),
        (["w/1", "w/0"], {"out of order"}),
        (["w/0", "w/1", "w/2"], {"never there"}),
    ],
)
def test_copies(copies: list[str], found: set[str]) -> None:
    verdict = judge_copies(STORED, {0: list(enumerate(copies))})
    assert {kind for kind, findings in verdict.findings.items() if findings} == found
