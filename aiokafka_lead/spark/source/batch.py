"""``spark.read``: the records of a topic between two bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .options import SourceOptions, batch_options
from .ranges import RangePartition, partitions_of
from .schema import check_schema

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaBatchReader(DataSourceReader):
    """Plans on the driver, and reads in tasks, which get copies. Each side imports its part on demand."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema, options)
        self.options = dict(options)
        self.parsed: SourceOptions = batch_options(options)
        self.schema = schema

    def partitions(self) -> list[RangePartition]:
        """Return the tasks, from the cluster's current state."""
        from .batch_plan import find_ranges

        return partitions_of(*find_ranges(self.options, self.parsed), self.parsed)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of a task."""
        from .task import read_ranges

        # Spark invents a partition if there is none.
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_ranges(self.options, self.parsed, self.schema, partition.ranges, partition.topic_ids)
