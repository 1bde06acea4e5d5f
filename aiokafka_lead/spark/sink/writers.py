"""Writers for batch and streaming queries, which Spark creates on the driver and pickles for the tasks.

Delivery is at least once. A task succeeds when all its records are acknowledged. Spark repeats a failed task, and a
micro-batch whose commit it has not recorded. Records are then written again. Within an attempt, the idempotent producer
writes each record once. The package ``exactly_once`` implements the option ``exactlyOnce``.

Only tasks import `task`, because Spark also plans and commits in new processes, which should import little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..._options.arguments import topic_name
from ...config import ProducerConfig
from ..kafka_options import configuration, mention_unknown, producer_options, refuse_owned
from ..schemas import typed_columns
from .bulks import RecordColumns, record_columns
from .exactly_once.settings import exactly_once

if TYPE_CHECKING:
    import pyarrow as pa

_OWNED = {
    "key.serializer": "the bytes of keys are written unchanged",
    "value.serializer": "the bytes of values are written unchanged",
    "transactional.id": "use the options 'exactlyOnce' and 'transactionalIdPrefix'",
    "partitioner.class": "it names a Java class; use a column 'partition' to choose partitions",
    "interceptor.classes": "it names Java classes, which could change the written records",
}


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """Message of a successful task to the driver."""

    rows: int


class KafkaBatchWriter(DataSourceArrowWriter):
    """Writer for batch queries. It needs no commit, because rows are written as soon as tasks send them."""

    def __init__(self, options: Mapping[str, str], columns: RecordColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task. Spark calls this in each task."""
        from .task import write_rows

        return Written(write_rows(self._options, self._columns, iterator))


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writer for streaming queries. It needs no commit, because rows are written as soon as tasks send them."""

    def __init__(self, options: Mapping[str, str], columns: RecordColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task. Spark calls this in each task of each micro-batch."""
        from .task import write_rows

        return Written(write_rows(self._options, self._columns, iterator))


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """Return the writer for ``df.write``. Raises ValueError for invalid columns or options."""
    if overwrite:
        raise ValueError("mode 'overwrite' is not supported, because Kafka only appends records; use mode('append')")
    columns, settings = _checked(options, schema), exactly_once(options, streaming=False)
    if settings is None:
        return KafkaBatchWriter(options, columns)
    from .exactly_once.writers import ExactBatchWriter

    return ExactBatchWriter(settings, columns)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """Return the writer for ``df.writeStream``. Raises ValueError for invalid columns or options.

    ``overwrite``, from output mode "complete", has no effect: the whole result is appended each time.
    """
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
