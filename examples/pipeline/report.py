"""The batch job: ``python -m examples.pipeline.report BOOTSTRAP TOPIC DIRECTORY``.

Compares what the streaming job has written with what the producers say that they sent, prints a table, and publishes
the takings to ``TOPIC-takings``. Its exit status is 1 where an order is missing, or counted twice.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from .session import local_session

TAKINGS = "start timestamp, product string, orders bigint, cents bigint"


def compare(found: DataFrame, sent: DataFrame) -> DataFrame:
    """Both, side by side, by window and product."""
    ours = found.select("start", "product", f.col("orders").alias("counted"), f.col("cents").alias("cents_counted"))
    theirs = sent.select("start", "product", f.col("orders").alias("sent"), f.col("cents").alias("cents_sent"))
    return theirs.join(ours, ["start", "product"], "full").na.fill(0)


def publish(found: DataFrame, bootstrap: str, topic: str) -> None:
    """Write the takings to a topic, keyed by product."""
    rows = found.select(f.col("product").alias("key"), f.to_json(f.struct("*")).alias("value"))
    writer = rows.write.format("aiokafka_lead").option("kafka.bootstrap.servers", bootstrap)
    writer.option("topic", topic).mode("append").save()


def count(spark: SparkSession, bootstrap: str, topic: str) -> int:
    """How many records the topic holds."""
    reader = spark.read.format("aiokafka_lead").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).load().count()


def main(bootstrap: str, topic: str, directory: Path) -> int:
    """Run; whether the report is exact is the exit status."""
    spark = local_session("report")
    found = spark.read.parquet(str(directory / "takings")).cache()
    both = compare(found, spark.read.schema(TAKINGS).json(str(directory / "sent.json"))).cache()
    windows = both.groupBy("start").agg(
        *(f.sum(name).alias(name) for name in ("sent", "counted", "cents_sent", "cents_counted"))
    )
    windows.orderBy("start").show(1000, truncate=False)
    # Compared by product: sums of windows could hide an order that was lost beside one that was counted twice.
    lost, repeated, wrong = both.agg(
        f.sum(f.greatest(f.col("sent") - f.col("counted"), f.lit(0))),
        f.sum(f.greatest(f.col("counted") - f.col("sent"), f.lit(0))),
        f.count_if(f.col("cents_sent") != f.col("cents_counted")),
    ).collect()[0]
    orders, rows = both.agg(f.sum("sent"), f.count("*")).collect()[0]
    publish(found, bootstrap, f"{topic}-takings")
    published = count(spark, bootstrap, f"{topic}-takings")
    print(f"{count(spark, bootstrap, topic):,} events in the topic are {orders:,} orders in {rows} rows")
    print(f"lost: {lost}, repeated: {repeated}, wrong sums: {wrong}; {published} rows published to {topic}-takings")
    spark.stop()
    return int(bool(lost or repeated or wrong) or published != rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
