"""``spark.read``: what a topic holds between two bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from ...admin import AdminClient
from ..client_loop import client_loop
from ..kafka_options import boolean
from .cluster_view import ClusterView
from .options import SourceOptions, batch_options
from .pushdown import Narrowing, from_offsets
from .ranges import OffsetRange, plan_tasks
from .schema import check_schema
from .task import RangePartition, admin_maker, client_key, read_committed, read_ranges

__all__ = ["FilteringBatchReader", "KafkaBatchReader", "batch_reader"]


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
            ranges = loop.run(self._plan, admin)
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

    async def _plan(self, admin: AdminClient) -> list[OffsetRange]:
        return await self._ranges(ClusterView(admin, self.parsed, read_committed=read_committed(self.options)))

    async def _ranges(self, view: ClusterView) -> list[OffsetRange]:
        starts = await view.at(self.parsed.starting, starting=True)
        ends = await view.at(self.parsed.ending, starting=False)
        both = starts.offsets.keys() & ends.offsets.keys()
        return [OffsetRange(*tp, starts.offsets[tp], ends.offsets[tp]) for tp in sorted(both)]


class FilteringBatchReader(KafkaBatchReader):
    """The same with filters pushed down.

    A class of its own, since Spark refuses to read by one that takes filters while
    ``spark.sql.python.filterPushdown.enabled`` is false, which is its default.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._narrowing = Narrowing()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (PySpark's name)
        """Take what says which offsets to read; give back what Spark has to check row by row."""
        return [found for found in filters if not self._narrowing.add(found)]

    async def _ranges(self, view: ClusterView) -> list[OffsetRange]:
        ranges = self._narrowing.apply(await super()._ranges(view))
        if self._narrowing.not_before_ms is None:
            return ranges
        first = await view.at_times(dict.fromkeys((found.tp for found in ranges), self._narrowing.not_before_ms))
        return from_offsets(ranges, first)


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """The reader for these options."""
    kind = FilteringBatchReader if boolean(options, "pushFilters", False) else KafkaBatchReader
    return kind(options, schema)
