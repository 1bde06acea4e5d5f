"""A user's program for Spark Connect: ``python connect_program.py BOOTSTRAP TOPIC``.

It is a separate program, since a process has either a classic session or a Spark Connect one.
"""

from __future__ import annotations

import sys
import tempfile

from pyspark.sql import SparkSession


def main(bootstrap: str, topic: str) -> None:
    """Write ten rows, and copy them in a stream, exactly once."""
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if type(spark).__module__ != "pyspark.sql.connect.session":
        sys.exit("this is no Spark Connect session")
    servers = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.range(10).selectExpr("concat('v', id) value", "cast(0 as int) partition")
    rows.write.format("aiokafka_lead").options(**servers, topic=topic).mode("append").save()
    stream = spark.readStream.format("aiokafka_lead").options(**servers, subscribe=topic, startingOffsets="earliest")
    with tempfile.TemporaryDirectory() as checkpoint:
        copy = stream.load().select("key", "value").writeStream.format("aiokafka_lead")
        query = copy.options(**servers, topic=f"{topic}-copy", checkpointLocation=checkpoint, exactlyOnce="true")
        if not query.trigger(availableNow=True).start().awaitTermination(60):
            sys.exit("the stream has not ended")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
