"""Compute the tables of ``each_move``, the cost of each leader move for each client, from its traces with Spark.

    python -m benchmarks spark_moves --bootstrap localhost:9092 [--csv FILE]

Spark reads the times of all records and all moves, finds the gap at each move, and computes medians and percentiles
with 95% confidence intervals. This needs Java 17+ and the ``spark`` extra. With ``--csv``, every move is also written
to a file, from which ``pictures`` draws its picture, and which ``agree`` accepts as a run.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from .leader_gaps import CSV_FIELDS, HEADER, SETTLING_S, SHARES, TABLES
from .leader_move import CLIENTS
from .spark_traces import read_values, session
from .stats import Estimate, estimate, percentile, quantile, table
from .traces import MOVE_SCHEMA, MOVES, SCHEMA, TRACES


def read_figures(spark: SparkSession, bootstrap: str, records: str, moves: str, runs: str = "") -> DataFrame:
    """Return the times of each move in milliseconds, from both topics; see `benchmarks.leader_gaps.Figures`."""
    one = ["run", "client"]
    order = Window.partitionBy(*one).orderBy("acked_us", "record")
    acked = read_values(spark, bootstrap, records, SCHEMA).where("acked_us is not null")
    gaps = acked.withColumn("before_us", f.lag("acked_us").over(order)).where("before_us is not null")
    moved = read_values(spark, bootstrap, moves, MOVE_SCHEMA).where(f.col("run").rlike(runs))
    moved = moved.where("leaderless_us is not null and stopped_us is not null")
    ended = gaps.join(moved, one).where(
        "acked_us >= greatest(at_us, least(stopped_us, started_us)) and acked_us < until_us"
    )
    again_us = f.min(f.expr("case when acked_us >= greatest(stopped_us, started_us) then acked_us end"))
    since = ended.withColumn("again_us", again_us.over(Window.partitionBy(*one, "at_us")))
    within = since.where(f.col("before_us") <= f.col("again_us") + int(1e6 * SETTLING_S))
    gap_us = f.col("acked_us") - f.col("before_us")
    longest = f.max(f.struct(gap_us.alias("gap_us"), "acked_us", "record", "consumed_us")).alias("longest")
    move = ["condition", "backoff_ms", "at_us", "leaderless_us", "stopped_us", "started_us", "at_once_us"]
    found = within.groupBy(*one, *move).agg(longest)
    floor_us = f.greatest(f.lit(0), f.col("started_us") - f.col("stopped_us"))
    consumed_us = f.greatest(f.lit(0), f.col("longest.consumed_us") - f.col("longest.acked_us"))
    return found.select(
        *("client", "condition", "backoff_ms", "at_us"),
        (f.col("leaderless_us") / 1e3).alias("leaderless"),
        (floor_us / 1e3).alias("floor"),
        (f.col("longest.gap_us") / 1e3).alias("gap"),
        ((f.col("longest.gap_us") - floor_us) / 1e3).alias("over_floor"),
        ((f.col("longest.gap_us") - f.col("leaderless_us")) / 1e3).alias("over_leaderless"),
        ((f.col("longest.acked_us") - f.col("at_once_us")) / 1e3).alias("behind"),
        # Spark's greatest ignores missing values.
        f.when(f.col("longest.consumed_us").isNotNull(), consumed_us / 1e3).alias("consumed"),
    )


def _estimates(values: Sequence[float]) -> list[list[float]]:
    return [list(estimate(values, quantile(share))) for share in SHARES]


def _median(values: Sequence[float]) -> float:
    return percentile(sorted(values), 0.5)


def rows(figures: DataFrame, condition: str, field: str) -> list[list[Any]]:
    """Return the rows of a table for a condition: client, number of moves, the brokers' medians, and the estimates."""
    estimates, median = (
        f.udf(function, kind, useArrow=False)  # Spark's conversion with Arrow would need pandas
        for function, kind in ((_estimates, "array<array<double>>"), (_median, "double"))
    )
    there = figures.where(f.col("condition") == condition)
    summed = there.groupBy("backoff_ms", "client").agg(
        f.count(field).alias("moves"),
        f.collect_list("leaderless").alias("leaderless"),
        f.collect_list("floor").alias("floor"),
        f.collect_list(field).alias("values"),
    )
    found = summed.where("moves > 0").select(
        "backoff_ms",
        "client",
        "moves",
        median("leaderless").alias("leaderless"),
        median("floor").alias("floor"),
        estimates("values").alias("estimates"),
    )
    return [
        [f"{CLIENTS[row.client]}, backoff {row.backoff_ms} ms", row.moves, row.leaderless, row.floor,
         *(Estimate(*each) for each in row.estimates)]
        for row in found.orderBy("backoff_ms", "client").collect()
    ]  # fmt: skip


def write_csv(figures: DataFrame, path: Path) -> None:
    """Write every move in milliseconds, sorted by condition, client and time."""
    kept = figures.orderBy("condition", "backoff_ms", "client", "at_us").select(*CSV_FIELDS.values())
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_FIELDS)
        writer.writerows([[round(v, 2) if isinstance(v, float) else v for v in row] for row in kept.collect()])


def main(arguments: list[str]) -> None:
    """Read the traces, and print the tables."""
    parser = argparse.ArgumentParser(
        "benchmarks spark_moves", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--runs", default="", metavar="REGEX", help="include only runs whose names contain a match")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="file to which every move is written")
    options = parser.parse_args(arguments)
    spark = session("moves")
    figures = read_figures(spark, options.bootstrap, TRACES, MOVES, options.runs).cache()
    for (condition,) in figures.select("condition").distinct().orderBy("condition").collect():
        for field, title in TABLES.items():
            print(f"\nTime of a leader move, {condition}: {title}; ms [95% interval]\n")
            print(table(HEADER, rows(figures, condition, field)))
    if options.csv is not None:
        write_csv(figures, options.csv)
    spark.stop()
