"""The batch job: ``python -m examples.pipeline.report BOOTSTRAP TOPIC DIRECTORY``.

Compares the output of the streaming job with the producers' counts, writes its findings to ``report.json``, and
publishes the takings to ``TOPIC-takings``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from .result import Report, Window
from .session import local_session

TAKINGS = "start timestamp, product string, orders bigint, cents bigint"


def compare(found: DataFrame, sent: DataFrame) -> DataFrame:
    """Join the counted and the sent sums by window and product."""
    ours = found.select("start", "product", f.col("orders").alias("counted"), f.col("cents").alias("cents_counted"))
    theirs = sent.select("start", "product", f.col("orders").alias("sent"), f.col("cents").alias("cents_sent"))
    return theirs.join(ours, ["start", "product"], "full").na.fill(0)


def publish(found: DataFrame, bootstrap: str, topic: str) -> None:
    """Write the takings to a topic, keyed by product."""
    rows = found.select(f.col("product").alias("key"), f.to_json(f.struct("*")).alias("value"))
    writer = rows.write.format("aiokafka_lead").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).mode("append").save()


def count(spark: SparkSession, bootstrap: str, topic: str) -> int:
    """Return the number of records in the topic."""
    reader = spark.read.format("aiokafka_lead").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).load().count()


def main(bootstrap: str, topic: str, directory: Path) -> None:
    """Run the job, and write its findings to ``report.json`` in the directory."""
    spark = local_session("report")
    found = spark.read.parquet(str(directory / "takings")).cache()
    both = compare(found, spark.read.schema(TAKINGS).json(str(directory / "sent.json"))).cache()
    sums = [f.sum(name).alias(name) for name in ("sent", "counted", "cents_sent", "cents_counted")]
    windows = both.groupBy(f.date_format("start", "yyyy-MM-dd HH:mm").alias("start")).agg(*sums).orderBy("start")
    # Compared by product, because in a window's sum a lost order and a doubly counted order would cancel out.
    lost, repeated, wrong, rows = both.agg(
        f.sum(f.greatest(f.col("sent") - f.col("counted"), f.lit(0))),
        f.sum(f.greatest(f.col("counted") - f.col("sent"), f.lit(0))),
        f.count_if(f.col("cents_sent") != f.col("cents_counted")),
        f.count("*"),
    ).collect()[0]
    publish(found, bootstrap, f"{topic}-takings")
    report = Report(
        events=count(spark, bootstrap, topic),
        lost=lost,
        repeated=repeated,
        wrong=wrong,
        rows=rows,
        published=count(spark, bootstrap, f"{topic}-takings"),
        windows=[Window(**row.asDict()) for row in windows.collect()],
    )
    (directory / "report.json").write_text(report.to_json())
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
