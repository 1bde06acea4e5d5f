"""The streaming job: ``python -m examples.pipeline.stream BOOTSTRAP TOPIC DIRECTORY``.

Parses the events, drops duplicate orders, sums the orders by product and window of event time, and writes each window
to Parquet once it is complete. A restarted job continues from its checkpoint. The job ends with the day.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from .orders import NEXT_DAY, WINDOW
from .session import local_session

EVENT = "order_id string, product string, cents bigint, at timestamp"
LATENESS = "2 minutes"
"""Maximum lag behind the latest event; also the time for which an order is remembered."""


def takings(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """Sum orders and cents by product and window."""
    reader = spark.readStream.format("aiokafka_lead").option("kafka.bootstrap.servers", bootstrap)
    records = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
    events = records.select(f.from_json(f.col("value").cast("string"), EVENT).alias("event")).select("event.*")
    once = (
        events.where("order_id is not null")
        .withWatermark("at", LATENESS)
        .dropDuplicatesWithinWatermark(["order_id"])
    )  # fmt: skip
    window = f.window("at", f"{WINDOW.total_seconds():.0f} seconds")
    sums = once.groupBy(window, "product").agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
    return sums.select(f.col("window.start").alias("start"), "product", "orders", "cents")


def run_to_the_end_of_the_day(query: StreamingQuery) -> None:
    """Wait until every window of the day is written; raise the error of a failed query."""
    while not query.awaitTermination(timeout=1):
        progress = query.lastProgress
        watermark = progress.eventTime.get("watermark") if progress is not None else None
        if watermark is not None and datetime.fromisoformat(watermark) >= NEXT_DAY:
            query.stop()
            return


def main(bootstrap: str, topic: str, directory: Path) -> None:
    """Run the job."""
    spark = local_session("takings")
    query = (
        takings(spark, bootstrap, topic)
        .writeStream.format("parquet")
        .option("path", str(directory / "takings"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    run_to_the_end_of_the_day(query)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
