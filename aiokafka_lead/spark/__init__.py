"""Kafka topics as PySpark sources and sinks, without a JAR: ``format("aiokafka_lead")``. Needs the ``spark`` extra.

If the package is installed in the Python environments of the driver and the executors, PySpark finds the format
automatically. `register` is for other sessions. A DataFrame reads the records present at its first action; `refresh`
makes it read again.
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
    """Return the same query, which reads the content of its topics at the time it runs.

    Spark asks a Python data source for its partitions once, and keeps the answer as long as a DataFrame's relation
    lives. This makes Spark ask again: for the returned frame, and for later queries of every frame, view and stream
    created from the same ``load()``. The scans of one query still read the same data. Cached data (`DataFrame.cache`)
    is unchanged.

    For classic sessions: it uses Spark's internal objects, because PySpark has no call for it. Raises RuntimeError in
    Spark Connect, and in a Spark with other internals: use ``load()`` again there.
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
    except Exception as error:  # Py4J's errors, and PySpark's own for features missing in Connect
        raise RuntimeError(f"this session cannot refresh a DataFrame, load() again: {type(error).__name__}") from None
    return frame.select("*")
