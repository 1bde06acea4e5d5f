"""Compute the tables of KIP-951 from traces: p50, p99, p99.9 and maximum for each phase and client.

    python -m benchmarks spark_traces --bootstrap localhost:9092 --topic traces

Spark reads a topic that `benchmarks.traces.write_traces` has written, and reduces it to a few hundred figures, whatever
its size. ``spark-submit --master ... -m benchmarks`` does the same on a cluster. The program prints the tables, and
draws pictures of latency over time. It needs Java 17+ and the ``spark`` extra.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from aiokafka_lead import spark as kafka

from .stats import latency_picture, table
from .traces import SCHEMA

LATENCIES = {"acked": "send to acknowledgement", "consumed": "send to delivery"}
_SHARES = (0.5, 0.99, 0.999)
_ACCURACY = 100_000
"""Accuracy of percentiles for Spark: the relative error of ranks is the reciprocal of this number."""
_SLICES = 400
"""Number of time slices of a run in a picture. Each slice has three dots for every client."""


EVERYTHING = "the whole run"
"""Name of the row for all phases together."""


def session(name: str) -> SparkSession:
    """Return a Spark session with this client's format."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName(name).config("spark.ui.showConsoleProgress", "false").getOrCreate()
    kafka.register(spark)
    return spark


def read_values(spark: SparkSession, bootstrap: str, topic: str, schema: str) -> DataFrame:
    """Return the contents of a topic that `benchmarks.traces.write_traces` wrote."""
    reader = spark.read.format(kafka.FORMAT).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    values = reader.load().select(f.from_json(f.col("value").cast("string"), schema).alias("trace"))
    return values.select("trace.*").where("run is not null")


def read_traces(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Return the traces of a topic, with latencies in milliseconds and the time of each record since the start."""
    traces = read_values(spark, bootstrap, topic, SCHEMA)
    starts = traces.groupBy("run", "client").agg(f.min("sent_us").alias("start_us"))
    return traces.join(f.broadcast(starts), ["run", "client"]).select(
        "run",
        "client",
        "phase",
        ((f.col("sent_us") - f.col("start_us")) / 1e6).alias("second"),
        ((f.col("acked_us") - f.col("sent_us")) / 1e3).alias("acked"),
        ((f.col("consumed_us") - f.col("sent_us")) / 1e3).alias("consumed"),
    )


def latency_rows(traces: DataFrame, latency: str) -> list[list[Any]]:
    """Return phase, client, p50, p99, p99.9, max, number of records, and number of records that never arrived.

    Phases are sorted by their beginning. If there are several, the last row combines them.
    """
    both = traces.withColumn("phase", f.explode(f.array("phase", f.lit(EVERYTHING))))
    summed = both.groupBy("phase", "client").agg(
        f.percentile_approx(latency, f.array(*map(f.lit, _SHARES)), _ACCURACY).alias("shares"),
        f.max(latency).alias("highest"),
        f.count("*").alias("records"),
        (f.count("*") - f.count(latency)).alias("missing"),
        f.min("second").alias("began"),
    )
    rows = summed.orderBy("began", "phase", "client").collect()
    phases = {row.phase: None for row in rows if row.phase != EVERYTHING}
    if len(phases) > 1:
        phases[EVERYTHING] = None
    return [
        [row.phase, row.client, *(row.shares or [float("nan")] * 3), _number(row.highest), row.records, row.missing]
        for phase in phases
        for row in sorted((r for r in rows if r.phase == phase), key=lambda r: str(r.client))
    ]


def picture(traces: DataFrame, latency: str, title: str) -> str:
    """Return an SVG of latency over time: p50, p99 and maximum in each slice of time, over all runs of a client."""
    reached = traces.where(f.col(latency).isNotNull())
    phases = reached.groupBy("phase").agg(f.min("second").alias("begin"), f.max("second").alias("end")).collect()
    width = max((row.end for row in phases), default=1.0) / _SLICES
    slices = reached.groupBy("client", f.floor(f.col("second") / width).alias("slice")).agg(
        f.percentile_approx(latency, f.array(f.lit(0.5), f.lit(0.99), f.lit(1.0)), 1000).alias("dots")
    )
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in sorted(slices.collect(), key=lambda row: (row.client, row.slice)):
        series[row.client] += [(row.slice * width, ms) for ms in row.dots]
    return latency_picture(title, series, [row.begin for row in phases])


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def main(arguments: list[str]) -> None:
    """Read the traces, print the tables, and draw the pictures."""
    parser = argparse.ArgumentParser(
        "benchmarks spark_traces", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--runs", default="", metavar="REGEX", help="include only runs whose names contain a match")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    options = parser.parse_args(arguments)
    spark = session("traces")
    traces = read_traces(spark, options.bootstrap, options.topic).where(f.col("run").rlike(options.runs)).cache()
    print("Runs: " + ", ".join(row.run for row in traces.select("run").distinct().orderBy("run").collect()))
    options.out.mkdir(parents=True, exist_ok=True)
    for latency, title in LATENCIES.items():
        rows = latency_rows(traces, latency)
        print(f"\n{title}, ms\n")
        print(table(["phase", "client", "p50", "p99", "p99.9", "max", "records", "missing"], rows))
        path = options.out / f"traces_{latency}.svg"
        path.write_text(picture(traces, latency, f"{options.topic}: {title}"))
        print(f"\nSee {path}")
    spark.stop()
