"""Filters that choose what is read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from aiokafka_lead.spark.source.batch import FilteringBatchReader, KafkaBatchReader
from aiokafka_lead.spark.source.pushdown import Narrowing
from aiokafka_lead.spark.source.ranges import OffsetRange
from aiokafka_lead.testing.thread import ClusterThread

from .support import batch_reader, fill, numbered, rows, values

RANGES = [OffsetRange("a", 0, 0, 100), OffsetRange("a", 1, 50, 150), OffsetRange("b", 0, 0, 10)]
PARTITION, OFFSET, TOPIC, TIME = ("partition",), ("offset",), ("topic",), ("timestamp",)


def _at(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


@pytest.mark.parametrize(
    ("found", "left"),
    [
        (EqualTo(PARTITION, 1), [RANGES[1]]),
        (In(PARTITION, (1, 7)), [RANGES[1]]),
        (Not(EqualTo(PARTITION, 1)), [RANGES[0], RANGES[2]]),
        (Not(In(PARTITION, (0,))), [RANGES[1]]),
        (GreaterThan(PARTITION, 0), [RANGES[1]]),
        (LessThanOrEqual(PARTITION, 0), [RANGES[0], RANGES[2]]),
        (EqualTo(TOPIC, "b"), [RANGES[2]]),
        (GreaterThan(OFFSET, 99), [OffsetRange("a", 1, 100, 150)]),
        (GreaterThanOrEqual(OFFSET, 99), [OffsetRange("a", 0, 99, 100), OffsetRange("a", 1, 99, 150)]),
        (LessThan(OFFSET, 5), [OffsetRange("a", 0, 0, 5), OffsetRange("b", 0, 0, 5)]),
        (LessThanOrEqual(OFFSET, 5), [OffsetRange("a", 0, 0, 6), OffsetRange("b", 0, 0, 6)]),
        (EqualTo(OFFSET, 7), [OffsetRange("a", 0, 7, 8), OffsetRange("b", 0, 7, 8)]),
        (IsNotNull(OFFSET), RANGES),
    ],
)
def test_filters_that_are_settled_by_what_is_read(found: Filter, left: list[OffsetRange]) -> None:
    narrowing = Narrowing()
    assert narrowing.add(found)
    assert narrowing.apply(RANGES) == left


@pytest.mark.parametrize(
    "found",
    [
        IsNull(OFFSET),
        IsNotNull(("key",)),
        EqualTo(("key",), b"k"),
        EqualTo(OFFSET, None),
        Not(EqualTo(OFFSET, 5)),
        In(OFFSET, (1, 2)),
        StringStartsWith(TOPIC, "a"),
        LessThan(TIME, _at(5)),
    ],
)
def test_filters_that_are_left_to_spark(found: Filter) -> None:
    narrowing = Narrowing()
    assert not narrowing.add(found)
    assert narrowing.apply(RANGES) == RANGES
    assert narrowing.not_before_ms is None


def test_times_say_where_to_begin_but_are_checked_by_spark() -> None:
    narrowing = Narrowing()
    assert not narrowing.add(GreaterThanOrEqual(TIME, _at(3000)))
    assert not narrowing.add(GreaterThan(TIME, _at(2000)))
    assert narrowing.not_before_ms == 3000


def test_only_the_class_for_it_takes_filters(cluster: ClusterThread) -> None:
    assert type(batch_reader(cluster, subscribe="t")) is KafkaBatchReader
    assert type(batch_reader(cluster, subscribe="t", pushFilters="true")) is FilteringBatchReader


def test_less_is_read(cluster: ClusterThread, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    for partition in range(2):
        fill(cluster, topic, numbered(10), partition=partition, timestamps_ms=[1000 * i for i in range(10)])
    reader = batch_reader(cluster, subscribe=topic, pushFilters="true")
    filters = [EqualTo(PARTITION, 1), LessThan(OFFSET, 8), GreaterThanOrEqual(TIME, _at(5500))]
    assert list(reader.pushFilters(filters)) == [filters[2]]
    assert values(rows(reader, reader.partitions())) == [b"6", b"7"]
