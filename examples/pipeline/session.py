"""The Spark session of both jobs."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from aiokafka_lead import spark as kafka


def local_session(name: str) -> SparkSession:
    """Return a session with two local tasks at a time, little logging, and the ``aiokafka_lead`` format."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName(name)
    for setting, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # jobs of seconds
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    kafka.register(session)  # an installed package is found without this
    return session
