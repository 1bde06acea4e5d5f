"""The number of tasks that a stream's micro-batches need."""

from __future__ import annotations

from collections.abc import Callable

from aiokafka_lead.spark.source.stream import Pace

Duration = Callable[[int, int], float]
"""Seconds of a micro-batch with this many tasks and offsets."""


def _tasks(pace: Pace, duration: Duration, offsets: int, cores: int, *, batches: int, now: float = 0) -> list[int]:
    """Run a stream; return the number of tasks of each micro-batch."""
    found = []
    for _ in range(batches):
        tasks = min(cores, pace.tasks_for(offsets, now) or cores)
        pace.began(tasks, offsets, now)
        now += duration(tasks, offsets)
        pace.ended(now)
        found.append(tasks)
    return found


def test_cheap_records_come_to_one_task() -> None:
    assert _tasks(Pace(), lambda tasks, _: 0.1 + 0.05 * tasks, 600, 2, batches=3) == [2, 1, 1]
    many = _tasks(Pace(), lambda tasks, _: 0.1 + 0.01 * tasks, 600, 60, batches=20)
    assert many[0] == 60
    assert many[-1] == 1


def test_records_that_need_cores_keep_them() -> None:
    def slow(tasks: int, offsets: int) -> float:
        return 0.2 + 0.01 * offsets / tasks

    assert _tasks(Pace(), slow, 800, 8, batches=3) == [8, 8, 8]
    few = _tasks(Pace(), slow, 60, 8, batches=200)
    assert max(slow(tasks, 60) for tasks in few) <= 1.0, "no trial takes long"
    assert few.count(8) > 190, "trials are rare if they are no gain"


def test_more_records_get_more_tasks() -> None:
    pace = Pace()
    assert _tasks(pace, lambda *_: 0.2, 100, 8, batches=3)[-1] == 1
    assert _tasks(pace, lambda *_: 0.2, 5_000, 8, batches=1, now=10) == [8]


def test_a_machine_that_became_slow_gets_its_tasks_back() -> None:
    pace = Pace()
    assert _tasks(pace, lambda tasks, _: 0.1 + 0.05 * tasks, 600, 2, batches=5)[-1] == 1
    assert _tasks(pace, lambda tasks, _: 1.5 / tasks, 600, 2, batches=2, now=10) == [1, 2]


def test_one_slow_micro_batch_does_not_bring_tasks_back() -> None:
    pace = Pace()
    assert _tasks(pace, lambda *_: 0.2, 600, 2, batches=1) == [2]
    assert _tasks(pace, lambda *_: 0.4, 600, 2, batches=1, now=1) == [1], "the driver connects, and misses a trigger"
    assert _tasks(pace, lambda *_: 0.2, 600, 2, batches=5, now=2) == [1] * 5


def test_two_slow_micro_batches_bring_tasks_back() -> None:
    pace = Pace()
    assert _tasks(pace, lambda *_: 0.2, 600, 2, batches=1) == [2]
    assert _tasks(pace, lambda *_: 0.4, 600, 2, batches=3, now=1) == [1, 1, 2]


def test_plans_that_are_asked_for_again_are_one_micro_batch() -> None:
    pace = Pace()
    pace.began(0, 0, 0)
    pace.ended(100)
    assert pace.tasks_for(10, 100) is None, "a plan without records tells nothing"
    pace.began(2, 10, 100)
    pace.began(2, 10, 100.9)
    pace.ended(101.5)
    pace.ended(500)
    assert pace.tasks_for(10, 500) == 3
