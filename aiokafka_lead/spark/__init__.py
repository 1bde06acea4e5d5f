"""Kafka topics as PySpark sources and sinks, without a JAR: ``format("aiokafka_lead")``. Needs the ``spark`` extra.

    orders = (
        spark.read.format("aiokafka_lead")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "orders")
        .load()
    )

PySpark finds the format automatically if this package is installed in the Python environments of the driver and the
executors. In other sessions, call `register` first. A DataFrame reads the records that exist at its first action;
`refresh` makes it read again. `lag` returns the lag of a streaming query.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..types import TopicPartition
from .format import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress

__all__ = ["FORMAT", "lag", "refresh", "register"]

_REDACTION = "spark.sql.redaction.options.regex"
_HIDDEN = r"(?i:ssl\.keystore\.key|ssl\.keydata|passphrase|proxy\.url)"
"""Matches names of options with secrets. By default, Spark hides URLs but no keys."""


def register(spark: SparkSession) -> None:
    """Register the format in a session, classic or Spark Connect.

    The call also adds ``kafka.ssl.keystore.key``, ``kafka.ssl.keydata``, ``kafka.proxy.url`` and passphrases to the
    session's ``spark.sql.redaction.options.regex``. Spark then hides them in plans, the UI and event logs, as it hides
    passwords.

    If the package comes from a zip of ``--py-files``, this call also adds the zip to ``PYTHONPATH`` in the session's
    ``SparkContext.environment``. Spark passes the zip to tasks, but not to the Python process that plans a streaming
    query.
    """
    from .data_source import RegisteredDataSource

    hidden = spark.conf.get(_REDACTION) or ""
    if _HIDDEN not in hidden:
        spark.conf.set(_REDACTION, f"{hidden}|{_HIDDEN}" if hidden else _HIDDEN)
    archive = Path(__file__).parents[2]
    context = getattr(spark, "sparkContext", None)  # not in Spark Connect
    if archive.is_file() and context is not None:
        paths = [str(archive), context.environment.get("PYTHONPATH", "")]
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    spark.dataSource.register(RegisteredDataSource)


def refresh(frame: DataFrame) -> DataFrame:
    """Return a DataFrame of the same query that reads the current content of its topics.

    Spark plans the partitions of a Python data source once, and keeps the plan with the result of ``load()``. This call
    discards the plan. It therefore affects the returned frame and all later queries of frames, views and streams that
    come from the same ``load()``, including subqueries. Data cached with `DataFrame.cache` stays unchanged.

    PySpark has no API for this, so the function uses Spark's internal objects. Raises RuntimeError in Spark Connect, or
    if Spark's internals have changed. In this case, call ``load()`` again.
    """
    classic: Any = frame
    try:
        plan = classic._jdf.queryExecution().analyzed()
        for part in (plan, *_items(plan.subqueriesAll())):
            for leaf in _items(part.collectLeaves()):
                # The table has the name that was passed to format(), which is not case-sensitive.
                if leaf.getClass().getSimpleName() == "DataSourceV2Relation" and leaf.table().name().lower() == FORMAT:
                    source = leaf.table().getClass().getDeclaredField("ds")
                    source.setAccessible(True)
                    source.get(leaf.table()).setReadInfo(None)
    except Exception as error:  # errors of Py4J, and PySpark's errors for features that Connect lacks
        raise RuntimeError(
            f"cannot refresh a DataFrame in this session; call load() again: {type(error).__name__}"
        ) from None
    return frame.select("*")


def _items(found: Any) -> list[Any]:
    """Return the items of a Scala sequence as a list."""
    return [found.apply(at) for at in range(found.size())]


def lag(progress: StreamingQueryProgress | None) -> dict[TopicPartition, int]:
    """Return the lag of a streaming query after a micro-batch: the number of unread offsets in each partition.

    ``progress`` is the query's ``lastProgress``, or ``event.progress`` in a `StreamingQueryListener`. If several
    sources of the query read a partition, the result contains the largest lag. A partition created after the
    micro-batch counts from offset 0. The result ignores sources that have not read anything yet, and sources other than
    Kafka topics. It is empty if ``progress`` is None, as before a query's first micro-batch.
    """
    found: dict[TopicPartition, int] = {}
    for source in () if progress is None else progress.sources:
        reached = source.endOffset or source.startOffset
        if not reached:
            continue  # it has not read anything yet, and the progress does not contain its start
        done = _offsets(reached)
        for tp, end in _offsets(source.latestOffset).items():
            found[tp] = max(found.get(tp, 0), end - done.get(tp, 0))
    return found


def _offsets(text: str | None) -> Mapping[TopicPartition, int]:
    """Return the offsets in a source's progress, or an empty mapping if the source has another format."""
    from .source.progress import Progress

    try:
        return Progress.from_json(json.loads(text or "{}")).offsets
    except (AttributeError, TypeError, ValueError):
        return {}
