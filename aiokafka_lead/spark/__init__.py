"""Kafka topics as PySpark sources and sinks, without a JAR: ``format("aiokafka_lead")``. Needs the ``spark`` extra.

Where the package is installed in the Python environments of the driver and of the executors, PySpark finds the format
by itself. `register` is for sessions that do not look for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .format import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FORMAT", "register"]


def register(spark: SparkSession) -> None:
    """Make `FORMAT` known to this session, classic or Spark Connect."""
    from .data_source import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)
