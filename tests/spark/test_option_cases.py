"""This package treats the options of Spark's connector as the connector does.

Reads run without a JVM, since only Python matters; `beside_connector` runs everything on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from aiokafka_lead.errors import KafkaError
from aiokafka_lead.spark import FORMAT
from aiokafka_lead.spark.sink.task import WriteError
from aiokafka_lead.spark.source.progress import DataLossError
from aiokafka_lead.testing.thread import ClusterThread

from .option_cases import CASES, REFUSED, STRICTER, Case, offsets_read
from .option_cluster import options, prepare
from .option_runs import new_sink, outcome
from .support import Query, read, stream_reader, table, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READS = [*(case for case in CASES if not case.rows), *STRICTER]
REFUSALS = (ValueError, KafkaError, DataLossError, WriteError)
PLAIN = [case for case in CASES if (case.kind, case.rows, case.mode) == ("write", "'v' value", "append")]
"""Writes of one value, which need no JVM either. Spark ends them as Python does."""
WRITES = [
    pytest.param(
        case,
        marks=pytest.mark.suite(
            "all" if case in PLAIN[1:] or (case.outcome == REFUSED and case.kind == "write stream") else "test"
        ),
    )
    for case in CASES
    if case.rows
]


@pytest.fixture(scope="module")
def filled(cluster: ClusterThread) -> ClusterThread:
    prepare(cluster)
    return cluster


@pytest.mark.parametrize("case", READS, ids=str)
def test_reads(filled: ClusterThread, case: Case) -> None:
    run = _batch if case.kind == "batch" else _available_now
    given = options(filled, case)
    if case.outcome == REFUSED:
        with pytest.raises(REFUSALS):
            run(filled, given)
    else:
        assert offsets_read(run(filled, given)) == case.outcome


def _batch(cluster: ClusterThread, given: dict[str, str]) -> list[dict[str, Any]]:
    return read(cluster, **given)


def _available_now(cluster: ClusterThread, given: dict[str, str]) -> list[dict[str, Any]]:
    query = Query(stream_reader(cluster, **given))
    query.reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
    try:
        while query.plan():
            query.run()
        return query.rows
    finally:
        query.reader.stop()


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_writes_of_one_value(filled: ClusterThread, case: Case) -> None:
    given: dict[str, Any] = options(filled, case)
    rows = table(pa.schema([("value", pa.string())]), value=["v"])
    new_sink(filled)
    if case.outcome == REFUSED:
        with pytest.raises(REFUSALS):
            write(filled, rows, **given)
    else:
        assert str(write(filled, rows, **given)) == case.outcome
        assert [record.value for record in filled.records("sink")] == [b"v"]


@pytest.mark.parametrize("case", WRITES, ids=str)
def test_writes(spark: SparkSession, filled: ClusterThread, case: Case) -> None:
    found = outcome(spark, filled, FORMAT, case)
    assert found.text == case.outcome, found.error
