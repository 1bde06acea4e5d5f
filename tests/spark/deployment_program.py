"""A user's program for a cluster: ``spark-submit deployment_program.py BOOTSTRAP TOPIC``.

It writes, streams and reads, and prints the paths of the package in the tasks. It imports no other test.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable

from pyspark.sql import SparkSession

import aiokafka_lead.spark


def found(_: Iterable[int]) -> Iterable[str]:
    """Return the place of the package in a task."""
    import aiokafka_lead

    yield str(aiokafka_lead.__file__)


def main(bootstrap: str, topic: str) -> None:
    """Write a hundred rows, and copy them in a stream, exactly once."""
    spark = SparkSession.builder.getOrCreate()
    aiokafka_lead.spark.register(spark)
    kafka = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(100, numPartitions=2).selectExpr("cast(id as string) value", "cast(id % 2 as int) partition")
    rows.write.format("aiokafka_lead").options(**kafka, topic=topic).mode("append").save()
    stream = spark.readStream.format("aiokafka_lead").options(**kafka, subscribe=topic, startingOffsets="earliest")
    with tempfile.TemporaryDirectory() as checkpoint:
        copy = stream.load().select("key", "value").writeStream.format("aiokafka_lead")
        query = copy.options(**kafka, topic=f"{topic}-copy", checkpointLocation=checkpoint, exactlyOnce="true")
        if not query.trigger(availableNow=True).start().awaitTermination(400):
            sys.exit("the stream has not ended")
    both = spark.read.format("aiokafka_lead").options(**kafka, subscribePattern=f"{topic}.*").load()
    sys.stdout.write(f"rows: {both.count()}\n")
    for path in sorted(set(spark.sparkContext.parallelize(range(8), 8).mapPartitions(found).collect())):
        sys.stdout.write(f"package: {path}\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
