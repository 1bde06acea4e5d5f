"""Histories of transactions under faults are valid, and the checker detects invalid ones."""

from __future__ import annotations

import pytest

from ..suites import crossed
from .history import History, Value, Written
from .trouble import trouble

A, B, C = Value(1, 1, 0), Value(1, 1, 1), Value(1, 2, 0)


def history(outcome: str | None, *reads: dict[int, list[Value]]) -> History:
    """Return a writer's history: a transaction of two values in partition 0, then a committed one of one value."""
    written = {(1, 1): Written([(0, A), (0, B)], outcome), (1, 2): Written([(0, C)], "committed")}
    return History(written, list(reads))


def test_what_is_right() -> None:
    assert history("committed", {0: [A, B]}, {0: [A, B, C]}).findings() == []
    assert history("aborted", {0: [C]}).findings() == []
    for seen in ([C], [A, B, C]):
        assert history(None, {0: seen}).findings() == []


@pytest.mark.parametrize(
    ("outcome", "reads", "found"),
    [
        ("aborted", [{0: [A, B, C]}], "aborted read"),
        ("committed", [{0: [A, C]}], "lost write"),
        ("committed", [{0: [C]}], "lost write"),
        (None, [{0: [B, C]}], "torn"),
        ("committed", [{0: [B, A, C]}], "internal order"),
        ("committed", [{0: [C, A, B]}], "internal order"),
        ("committed", [{0: [A, A, B, C]}], "seen 2 times"),
        ("committed", [{0: [B]}, {0: [A, B, C]}], "differ"),
        ("committed", [{0: [A, B, C], 1: [Value(9, 9, 9)]}], "never written"),
    ],
)
def test_what_is_wrong_is_found(outcome: str | None, reads: list[dict[int, list[Value]]], found: str) -> None:
    assert any(found in text for text in history(outcome, *reads).findings())


@pytest.mark.both_loops
@pytest.mark.anyio
@pytest.mark.parametrize(("version", "pipelines"), crossed([(2, True), (1, False), (2, False), (1, True)], first=2))
async def test_under_trouble(version: int, pipelines: bool) -> None:
    """`tests.kafka.long_transactions` has more seeds."""
    run = await trouble(1, 20, version, pipelines=pipelines)
    assert run.findings() == []
    assert sum(written.outcome == "committed" for written in run.written.values()) > 10
