"""Traces of a benchmark: what Spark says of them is what plain Python says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

from aiokafka_lead.testing.thread import ClusterThread
from benchmarks.spark_traces import latency_rows, picture, read_traces
from benchmarks.stats import percentile
from benchmarks.traces import Trace, write_traces


def some_traces() -> Iterator[Trace]:
    """Two runs of two clients; leaders move in the second half, which the one without hints takes badly."""
    chance = random.Random(951)
    for run in ("first", "second"):
        for client, worst in (("lead", 5), ("lead-no-hints", 200)):
            for record in range(1000):
                moving = record >= 500
                acked = 1_000 * chance.randint(1, worst if moving else 3)
                yield Trace(
                    run,
                    client,
                    "leaders move" if moving else "steady",
                    record,
                    10**15 + record * 1_000,
                    10**15 + record * 1_000 + acked if record else None,
                    10**15 + record * 1_000 + acked + 500 if record else None,
                )


def test_tables_and_picture(spark: SparkSession, cluster: ClusterThread, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    assert asyncio.run(write_traces(cluster.bootstrap_servers, topic, some_traces())) == 4000
    traces = read_traces(spark, cluster.bootstrap_servers, topic).cache()
    rows = latency_rows(traces, "acked")
    assert [row[:2] for row in rows] == [
        ["steady", "lead"], ["steady", "lead-no-hints"], ["leaders move", "lead"], ["leaders move", "lead-no-hints"],
    ]  # fmt: skip
    for phase, client, p50, p99, p999, highest, records, missing in rows:
        mine = [t for t in some_traces() if (t.phase, t.client) == (phase, client)]
        times = sorted((t.acked_us - t.sent_us) / 1000 for t in mine if t.acked_us is not None)
        assert (records, missing, highest) == (len(mine), len(mine) - len(times), times[-1])
        expected = [percentile(times, share) for share in (0.5, 0.99, 0.999)]
        # A rank that falls between two values may be either's.
        assert all(abs(ms - other) <= 2 for ms, other in zip((p50, p99, p999), expected, strict=True))
    drawn = picture(traces, "consumed", "latency")
    assert drawn.startswith("<svg")
    assert drawn.count("<path") == 2
