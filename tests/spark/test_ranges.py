"""Planning: distribution of offsets over tasks."""

from __future__ import annotations

import os
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead.spark.source.ranges import RECORDS_PER_TASK, OffsetRange, local_cores, pack, plan_tasks, split

RANGES = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 20)),
    st.tuples(st.integers(0, 10**6), st.integers(-5, 300_000)),
    max_size=15,
).map(lambda found: [OffsetRange(*tp, start, start + size) for tp, (start, size) in found.items()])


def _covered(tasks: list[tuple[OffsetRange, ...]]) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Return the ranges of all tasks by partition, in order, with neighbours joined."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for part in sorted(part for task in tasks for part in task):
        pieces = found[part.tp]
        if pieces and pieces[-1][1] == part.start:
            pieces[-1] = (pieces[-1][0], part.until)
        else:
            pieces.append((part.start, part.until))
    return dict(found)


@given(RANGES, st.none() | st.integers(1, 60), st.none() | st.integers(5_000, 100_000))
def test_every_offset_is_read_once(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    tasks = plan_tasks(ranges, min_partitions=min_partitions, max_records=max_records)
    assert _covered(tasks) == {found.tp: [(found.start, found.until)] for found in ranges if found.size > 0}
    assert tasks == plan_tasks(reversed(ranges), min_partitions=min_partitions, max_records=max_records)
    offsets = sum(found.size for found in ranges if found.size > 0)
    if min_partitions is not None and offsets:
        assert len(tasks) >= min(min_partitions, offsets)
    if max_records is not None:
        assert all(sum(part.size for part in task) <= max_records for task in tasks)


@given(RANGES, st.integers(1, 10))
def test_never_more_tasks_than_asked_for(ranges: list[OffsetRange], max_tasks: int) -> None:
    assert len(plan_tasks(ranges, max_tasks=max_tasks)) <= max_tasks


def test_small_ranges_share_a_task() -> None:
    ranges = [OffsetRange("t", partition, 0, 10) for partition in range(100)]
    assert plan_tasks(ranges) == [tuple(ranges)]


def test_cores_are_used_where_there_are_records_for_them() -> None:
    def tasks(partitions: int, size: int, **options: int) -> int:
        ranges = [OffsetRange("t", partition, 0, size) for partition in range(partitions)]
        return len(plan_tasks(ranges, cores=8, **options))

    assert [tasks(8, 100), tasks(1000, 100), tasks(3, 100), tasks(8, 3), tasks(8, 1)] == [8, 8, 3, 3, 1]
    assert tasks(1000, 5000) == 100, "beyond the cores, where it is worth it"
    assert [tasks(8, 100, min_partitions=1), tasks(8, 100, max_tasks=2), tasks(8, 100, min_partitions=20)] == [1, 2, 20]


@pytest.mark.parametrize(
    ("command", "cores"),
    [
        ("java -cp x org.apache.spark.deploy.SparkSubmit --conf spark.master=local[5] pyspark-shell", 5),
        ("java SparkSubmit --master local[3,2] job.py", 3),
        ("java SparkSubmit --master local job.py", 1),
        ("java SparkSubmit --master local[*] job.py", os.cpu_count()),
        ("java SparkSubmit --master local-cluster[2,1,1024] job.py", None),
        ("java SparkSubmit --master spark://host:7077 job.py", None),
        ("python -m pyspark.daemon", None),
    ],
)
def test_how_many_cores_a_local_spark_has(command: str, cores: int | None) -> None:
    assert local_cores(command.replace(" ", "\0").encode()) == cores


def test_large_ranges_are_spread_evenly() -> None:
    ranges = [OffsetRange("t", partition, 0, RECORDS_PER_TASK * (1 + partition % 2)) for partition in range(8)]
    tasks = plan_tasks(ranges, max_tasks=4)
    assert [sum(part.size for part in task) for task in tasks] == [3 * RECORDS_PER_TASK] * 4


def test_partitions_are_not_divided_unless_asked() -> None:
    whole = [OffsetRange("t", 0, 5, 10**7)]
    assert plan_tasks(whole) == [tuple(whole)]
    assert len(plan_tasks(whole, min_partitions=3)) == 3


def test_the_largest_are_divided_first() -> None:
    parts = split([OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 0, 900)], min_partitions=4)
    assert [(part.partition, part.size) for part in parts] == [(0, 100), (1, 300), (1, 300), (1, 300)]


def test_a_task_reads_few_topics() -> None:
    """The numbers of the page about clusters of this size."""
    ranges = [OffsetRange(f"t{topic:02}", number, 0, 600) for topic in range(100) for number in range(1000)]
    tasks = plan_tasks(ranges, cores=200)
    assert len(tasks) == 1200
    assert max(len({part.topic for part in task}) for task in tasks) <= 9
    assert {sum(part.size for part in task) for task in tasks} <= {48_000, 54_000}
    giant = [OffsetRange("t", 0, 0, 10**4), *(OffsetRange("t", number, 0, 1) for number in range(1, 100))]
    assert len(plan_tasks(giant, min_partitions=4)) == 4


def test_nothing_to_read_is_no_task() -> None:
    assert plan_tasks([OffsetRange("t", 0, 7, 7), OffsetRange("t", 1, 7, 3)], min_partitions=5) == []
    assert pack([], 3) == []
