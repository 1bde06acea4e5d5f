"""``spark.read``: what a topic holds between two bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ...admin import AdminClient
from ..client_loop import client_loop
from ..kafka_options import kafka_settings
from .cluster_view import ClusterView
from .options import SourceOptions, batch_options
from .ranges import OffsetRange, plan_tasks
from .schema import check_schema
from .task import RangePartition, admin_maker, client_key, read_ranges

__all__ = ["KafkaBatchReader", "batch_reader"]


class KafkaBatchReader(DataSourceReader):
    """Plans on the driver and reads in tasks; Spark takes a copy to each."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema)
        self.options = dict(options)
        self.parsed: SourceOptions = batch_options(options)
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """The tasks, from what the cluster holds now."""
        loop = client_loop()
        with loop.borrow(lambda: admin_maker(self.options), client_key("admin", self.options)) as admin:
            ranges = loop.run(self._ranges, admin)
        parsed = self.parsed
        tasks = plan_tasks(
            ranges,
            min_partitions=parsed.min_partitions,
            max_records=parsed.max_records_per_partition,
            max_tasks=parsed.max_tasks,
        )
        return [RangePartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        # Spark makes up a partition where there is none.
        if not isinstance(partition, RangePartition):
            return iter(())
        return read_ranges(self.options, self.parsed, self.schema, partition.ranges)

    async def _ranges(self, admin: AdminClient) -> list[OffsetRange]:
        view = ClusterView(admin, self.parsed, read_committed=_read_committed(self.options))
        starts = await view.at(self.parsed.starting, starting=True)
        ends = await view.at(self.parsed.ending, starting=False)
        both = starts.offsets.keys() & ends.offsets.keys()
        return [OffsetRange(*tp, starts.offsets[tp], ends.offsets[tp]) for tp in sorted(both)]


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader for these options."""
    return KafkaBatchReader(options, schema)


def _read_committed(options: Mapping[str, str]) -> bool:
    return kafka_settings(options).get("isolation.level", "").strip().lower() == "read_committed"
