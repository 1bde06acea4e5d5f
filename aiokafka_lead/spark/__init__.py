"""Kafka topics as PySpark sources and sinks, without a JAR: ``format("aiokafka_lead")``. Needs the ``spark`` extra.

If the package is installed in the Python environments of the driver and the executors, PySpark finds the format
automatically; in other sessions, call `register`. A DataFrame reads the records present at its first action; `refresh`
makes it read again. `lag` returns a streaming query's lag.
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
    """Make `FORMAT` known to this session, classic or Spark Connect.

    Also makes Spark hide ``kafka.ssl.keystore.key``, ``kafka.ssl.keydata``, ``kafka.proxy.url`` and passphrases in
    plans, the UI and event logs, as it hides passwords: adds them to the session's
    ``spark.sql.redaction.options.regex``.

    If the package comes from a zip of ``--py-files``, this also sets ``PYTHONPATH`` in the session's
    ``SparkContext.environment``: Spark gives the zip to tasks, but not to the driver's process of a streaming query.
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
    """Return a DataFrame of the same query, which reads the current content of its topics when it runs.

    Spark plans a Python data source's partitions once, and keeps the plan with the result of ``load()``. This call
    makes Spark plan again for the returned frame, and for later queries of every frame, view and stream created from
    the same ``load()``. The scans of one query still read the same data. Cached data (`DataFrame.cache`) is unchanged.

    Includes the relations in subqueries. Works in classic sessions only: it uses Spark's internal objects, because
    PySpark has no API for this. Raises RuntimeError in Spark Connect, and if Spark's internals have changed; call
    ``load()`` again there.
    """
    classic: Any = frame
    try:
        plan = classic._jdf.queryExecution().analyzed()
        for part in (plan, *_items(plan.subqueriesAll())):
            for leaf in _items(part.collectLeaves()):
                # The table has the name given to format(), in any case.
                if leaf.getClass().getSimpleName() == "DataSourceV2Relation" and leaf.table().name().lower() == FORMAT:
                    source = leaf.table().getClass().getDeclaredField("ds")
                    source.setAccessible(True)
                    source.get(leaf.table()).setReadInfo(None)
    except Exception as error:  # Py4J's errors, and PySpark's own for features missing in Connect
        raise RuntimeError(f"this session cannot refresh a DataFrame, load() again: {type(error).__name__}") from None
    return frame.select("*")


def _items(found: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [found.apply(at) for at in range(found.size())]


def lag(progress: StreamingQueryProgress) -> dict[TopicPartition, int]:
    """Return the number of unread offsets of a streaming query after a micro-batch, by partition.

    ``progress`` is a query's ``lastProgress``, or the ``event.progress`` of a `StreamingQueryListener`. If several of
    its sources read a partition, the largest number counts. A partition created since then counts from offset 0.
    Sources that have read nothing, and sources other than topics, are left out.
    """
    found: dict[TopicPartition, int] = {}
    for source in progress.sources:
        reached = source.endOffset or source.startOffset
        if not reached:
            continue  # it has read nothing, and where it starts is not in the progress
        done = _offsets(reached)
        for tp, end in _offsets(source.latestOffset).items():
            found[tp] = max(found.get(tp, 0), end - done.get(tp, 0))
    return found


def _offsets(text: str | None) -> Mapping[TopicPartition, int]:
    """Return the offsets in a progress; empty for sources of other kinds, whose offsets have other forms."""
    from .source.progress import Progress

    try:
        return Progress.from_json(json.loads(text or "{}")).offsets
    except (AttributeError, TypeError, ValueError):
        return {}
