"""``spark.read``: what a topic holds between two bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ..kafka_options import boolean
from .options import SourceOptions, batch_options
from .partition import RangePartition
from .pushdown import Narrowing
from .ranges import plan_tasks
from .schema import check_schema

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FilteringBatchReader", "KafkaBatchReader", "batch_reader"]


class KafkaBatchReader(DataSourceReader):
    """Plans on the driver and reads in tasks; Spark takes a copy to each. Each imports what it needs when it does."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema)
        self.options = dict(options)
        self.parsed: SourceOptions = batch_options(options)
        self.schema = schema
        self._narrowing = Narrowing()
        """What filters leave to read: everything."""

    def partitions(self) -> list[InputPartition]:
        """The tasks, from what the cluster holds now."""
        from .batch_plan import find_ranges

        parsed = self.parsed
        tasks = plan_tasks(
            find_ranges(self.options, parsed, self._narrowing),
            min_partitions=parsed.min_partitions,
            max_records=parsed.max_records_per_partition,
            max_tasks=parsed.max_tasks,
        )
        return [RangePartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        from .task import read_ranges

        # Spark makes up a partition where there is none.
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_ranges(self.options, self.parsed, self.schema, partition.ranges)


class FilteringBatchReader(KafkaBatchReader):
    """The same with filters pushed down.

    A class of its own, since Spark refuses to read by one that takes filters while
    ``spark.sql.python.filterPushdown.enabled`` is false, which is its default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (PySpark's name)
        """Take what says which offsets to read; give back what Spark has to check row by row."""
        return [found for found in filters if not self._narrowing.add(found)]


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader for these options."""
    kind = FilteringBatchReader if boolean(options, "pushFilters", False) else KafkaBatchReader
    return kind(options, schema)
