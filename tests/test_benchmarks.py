"""What the benchmarks make of what they have measured."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks.agree import STATISTICS, less, main, ratio, read, rows, taken
from benchmarks.stats import Estimate

CASE = "idle brokers", 100


def a_run(path: Path, seed: int, lead_ms: float, franz_go_ms: float) -> Path:
    """30 moves of two clients, over a floor of 30 ms, with one decimal's noise."""
    chance = random.Random(seed)
    moves = [
        {
            "condition": f"idle brokers, Metadata takes {seed} ms",
            "client": client,
            "backoff_ms": 100,
            "leaderless": 8.0,
            "floor": 30.0,
            "gap": 30 + over_ms + chance.uniform(-2, 2),
            "consumed": None,
        }
        for client, over_ms in (("lead", lead_ms), ("franz-go", franz_go_ms))
        for _ in range(30)
    ]
    path.write_text(json.dumps(moves))
    return path


def test_runs_that_agree_and_one_that_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [a_run(tmp_path / f"{number}.json", number, lead_ms, 20) for number, lead_ms in enumerate((5, 5, 8))]
    runs = [read(path) for path in paths]
    for seen, agree in ((runs[:2], "yes"), (runs, "NO")):
        found = {str(row[0]): row[1:] for row in rows(seen, CASE, taken)}
        *figures, verdict, whole = found["aiokafka_lead, mean"]
        assert figures == [taken(run[CASE], "lead", STATISTICS["mean"]) for run in seen]
        assert verdict == agree
        assert isinstance(whole, Estimate)
        assert found["franz-go, mean"][-2] == "yes"
    main([str(path) for path in paths])
    assert capsys.readouterr().out.count("franz-go, p90") == 3  # in each of the tables


def test_what_one_client_takes_beside_another(tmp_path: Path) -> None:
    moves = read(a_run(tmp_path / "run.json", 1, 5, 20))[CASE]
    for statistic in STATISTICS.values():
        ours, theirs = (taken(moves, client, statistic) for client in ("lead", "franz-go"))
        times, ms = ratio(moves, "franz-go", statistic), less(moves, "franz-go", statistic)
        assert ours is not None
        assert theirs is not None
        assert times is not None
        assert ms is not None
        assert times.value == ours.value / theirs.value
        assert ours.low / theirs.high <= times.low <= times.value <= times.high <= ours.high / theirs.low
        assert ms.value == theirs.value - ours.value
        assert theirs.low - ours.high <= ms.low <= ms.value <= ms.high <= theirs.high - ours.low
        assert ratio(moves, "lead", statistic) is None


def test_there_is_no_multiple_of_what_may_be_nothing(tmp_path: Path) -> None:
    moves = read(a_run(tmp_path / "run.json", 1, 5, 0))[CASE]
    assert ratio(moves, "franz-go", STATISTICS["mean"]) is None
    difference = less(moves, "franz-go", STATISTICS["mean"])
    assert difference is not None
    assert difference.high < 0


def test_published_moves_are_read_as_those_of_a_run(tmp_path: Path) -> None:
    published = tmp_path / "run.csv"
    published.write_text("client,backoff_ms,leaderless_ms,brokers_own_ms,gap_ms,consumed_ms\nlead,100,8,30.5,41,1\n")
    assert read(published) == {CASE: {"lead": [10.5]}}


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"client": "lead"}]', '"a"'])
def test_another_file_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(SystemExit):
        main([str(path)])
    assert str(path) in capsys.readouterr().err
