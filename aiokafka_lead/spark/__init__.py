"""Kafka topics as PySpark sources and sinks, without a JAR: ``format("aiokafka_lead")``. Needs the ``spark`` extra.

Where the package is installed in the Python environments of the driver and of the executors, PySpark finds the format
by itself. `register` is for sessions that do not look for it. A DataFrame reads what was there at its first action;
`refresh` makes it read anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .format import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FORMAT", "refresh", "register"]


def register(spark: SparkSession) -> None:
    """Make `FORMAT` known to this session, classic or Spark Connect."""
    from .data_source import KafkaDataSource

    spark.dataSource.register(KafkaDataSource)


def refresh(frame: DataFrame) -> DataFrame:
    """Return the same query, which reads what its topics hold when it runs.

    Spark asks a Python data source once what there is to read, and keeps the answer as long as a DataFrame's relation
    lives. This has Spark ask again: for the frame that is returned, and for later queries of every frame, view and
    stream that was made from the same ``load()``. The scans of one query still agree on what they read. What is cached
    (`DataFrame.cache`) stays as it is.

    For classic sessions: it reaches into Spark's own objects, since PySpark has no call for it. Raises RuntimeError in
    Spark Connect, and in a Spark where they are different: ``load()`` again there.
    """
    classic: Any = frame
    try:
        leaves = classic._jdf.queryExecution().analyzed().collectLeaves()
        for at in range(leaves.size()):
            leaf = leaves.apply(at)
            if leaf.getClass().getSimpleName() == "DataSourceV2Relation" and leaf.table().name() == FORMAT:
                source = leaf.table().getClass().getDeclaredField("ds")
                source.setAccessible(True)
                source.get(leaf.table()).setReadInfo(None)
    except Exception as error:  # Py4J's errors, and PySpark's own for what Connect does not have
        raise RuntimeError(f"this session cannot refresh a DataFrame, load() again: {type(error).__name__}") from None
    return frame.select("*")
