"""Reports of the benchmarks, computed from their measurements."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import doubt
from benchmarks.agree import STATISTICS, less, main, ratio, read, rows, taken
from benchmarks.doubts.trial import ABSENT, Outcome, Row, Trial
from benchmarks.leader_gaps import Move, Round, figures
from benchmarks.stats import Estimate

CASE = "idle brokers", 100


def a_run(path: Path, seed: int, lead_ms: float, franz_go_ms: float) -> Path:
    """Return 30 moves of two clients, over a floor of 30 ms, with noise of one decimal."""
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
    published.write_text(
        "condition,client,backoff_ms,leaderless_ms,brokers_own_ms,gap_ms,behind_ms,consumed_ms\n"
        "idle brokers,lead,100,8,30.5,41,0.5,1\n"
        "idle brokers,lead,100,8,30.5,42,,\n"
    )
    assert read(published) == {CASE: {"lead": [10.5, 11.5]}}
    assert read(published, "behind") == {CASE: {"lead": [0.5]}}


def a_round(pauses: Sequence[tuple[float, float]]) -> Round:
    """A move after 1 s that takes the brokers 20 ms; one record each millisecond, except in the pauses (from, to)."""
    answers = [(ms / 1000, int(ms > 1000), ms / 1000 - 0.001) for ms in range(900, 2000) if not 1000 < ms < 1020]
    times = [ms / 1000 for ms in range(900, 2000) if not any(first < ms / 1000 < last for first, last in pauses)]
    return Round([Move(0.95, 1)], [(number, at, 0.0) for number, at in enumerate(times)], answers, answers, {})


@pytest.mark.parametrize(
    ("pauses", "gap_ms"),
    [
        pytest.param([(1.0, 1.05)], 50, id="the-move"),
        pytest.param([(1.0, 1.05), (1.1, 1.3)], 200, id="and-a-pause-right-after-it"),
        pytest.param([(1.0, 1.05), (1.4, 1.8)], 50, id="one-long-after-is-none-of-it"),
        pytest.param([(0.96, 0.99), (1.0, 1.02)], 20, id="nor-is-one-before-the-old-leader-stopped"),
        pytest.param([(0.96, 1.05)], 90, id="one-that-had-begun-before"),
    ],
)
def test_the_pause_that_belongs_to_a_move(pauses: Sequence[tuple[float, float]], gap_ms: float) -> None:
    (found,) = figures(a_round(pauses))
    assert found.gap == pytest.approx(gap_ms, abs=0.01)
    assert found.floor == pytest.approx(20, abs=0.01)


def test_a_move_after_which_nothing_was_acknowledged_is_left_out() -> None:
    assert figures(a_round([(1.0, 3.0)])) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"client": "lead"}]', '"a"'])
def test_another_file_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(SystemExit):
        main([str(path)])
    assert str(path) in capsys.readouterr().err


def test_a_trial_from_the_fault_to_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row of ``doubt`` with one client: its process, its brokers, the table and the file."""
    path = tmp_path / "doubt.csv"
    doubt.main(["--clients", "lead", "--only", "fewer partitions, KIP-848: assigned", "--csv", str(path)])
    (found,) = csv.DictReader(path.read_text().splitlines())
    assert (found["client"], found["round"], found["instead"]) == ("lead", "1", "")
    assert 0 < float(found["seconds"]) < 30
    assert "Slower than another client:\n- nowhere" in capsys.readouterr().out


def test_where_this_client_stays_longer_with_a_fault() -> None:
    async def none(_: Trial) -> Outcome:
        return ABSENT

    def row(what: str, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> tuple[Row, dict[str, list[Outcome]]]:
        return Row(what, none), {"lead": list(ours), "confluent": list(theirs), "aiokafka": [ABSENT]}

    never = Outcome(None, "> 30")
    found = dict(
        [
            row("never", [Outcome(1.0), never, never], [Outcome(2.0), Outcome(0.5), Outcome(1.0)]),
            row("later", [Outcome(1.5)], [Outcome(1.0)]),
            row("at the same time", [Outcome(1.1)], [Outcome(1.0)]),
            row("neither", [never], [never]),
            row("alone", [Outcome(20.0)], [never]),
        ]
    )
    assert doubt.slower(found) == ["never: > 30, confluent-kafka 1.00", "later: 1.50, confluent-kafka 1.00"]
