"""The writers for Spark, batch and streaming: created on the driver, pickled into every task.

At least once: a task ends when all its records are acknowledged, and a failed task, or a micro-batch whose commit was
not recorded, is written again. Within an attempt the idempotent producer writes each record once. The package
``exactly_once`` implements the option ``exactlyOnce``.

Only tasks import the writing part, because Spark plans and commits in processes that must first import this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..._options.arguments import topic_name
from ...config import ProducerConfig
from ..kafka_options import configuration, mention_unknown, refuse_owned
from ..schemas import typed_columns
from .bulks import RecordColumns, record_columns
from .exactly_once.settings import exactly_once
from .producer_options import producer_options

if TYPE_CHECKING:
    import pyarrow as pa

_OWNED = {
    "key.serializer": "keys are written as the bytes that they are",
    "value.serializer": "values are written as the bytes that they are",
    "transactional.id": "set the options 'exactlyOnce' and 'transactionalIdPrefix'",
    "partitioner.class": "a Java class cannot run here; a column 'partition' chooses partitions",
    "interceptor.classes": "a Java class cannot run here, and could change what is written",
}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's message to the driver."""

    rows: int


class KafkaBatchWriter(DataSourceArrowWriter):
    """Writes a query's rows; there is nothing left to commit."""

    def __init__(self, options: Mapping[str, str], columns: RecordColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows. Spark calls this in each task."""
        from .task import write_rows

        return Written(write_rows(self._options, self._columns, iterator))


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of every micro-batch; there is nothing left to commit."""

    def __init__(self, options: Mapping[str, str], columns: RecordColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write a task's rows. Spark calls this in each task of each micro-batch."""
        from .task import write_rows

        return Written(write_rows(self._options, self._columns, iterator))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Return the writer for ``df.write``. Raises ValueError for unsuitable columns or options."""
    if overwrite:
        raise ValueError("mode 'overwrite' is not possible, since records are only ever appended: use mode('append')")
    columns, settings = _checked(options, schema), exactly_once(options, streaming=False)
    if settings is None:
        return KafkaBatchWriter(options, columns)
    from .exactly_once.writers import ExactBatchWriter

    return ExactBatchWriter(settings, columns)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Return the writer for ``df.writeStream``. With ``overwrite`` ("complete") the whole result is appended."""
    columns, settings = _checked(options, schema), exactly_once(options, streaming=True)
    if settings is None:
        return KafkaStreamWriter(options, columns)
    from .exactly_once.writers import ExactStreamWriter

    return ExactStreamWriter(settings, columns)


def _checked(options: Mapping[str, str], schema: StructType) -> RecordColumns:
    refuse_owned(options, _OWNED)
    mention_unknown(options)
    configuration(options, ProducerConfig, producer_options(options))
    topic = options.get("topic")
    if topic is not None:
        topic = topic_name("option 'topic'", topic.strip())
    return record_columns(schema, topic, typed_columns(options))
