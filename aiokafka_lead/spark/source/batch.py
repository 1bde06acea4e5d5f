"""Reader for batch queries (``spark.read``), which read the records between two bounds."""

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
    """Plans a query on the driver, and reads records in tasks, to which Spark sends copies."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema, options)
        self.options = dict(options)
        self.parsed: SourceOptions = batch_options(options)
        self.schema = schema

    def partitions(self) -> list[RangePartition]:
        """Plan the Spark partitions from the current state of the cluster. Spark calls this on the driver."""
        from .cluster_view import find_ranges

        return partitions_of(*find_ranges(self.options, self.parsed), self.parsed)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a Spark partition. Spark calls this in a task."""
        from .task import read_ranges

        # If `partitions` returns none, PySpark passes a partition of its own.
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_ranges(self.options, self.parsed, self.schema, partition.ranges, partition.topic_ids)
