"""What Spark carries from the planner to a task."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from .ranges import OffsetRange

__all__ = ["RangePartition"]


class RangePartition(InputPartition):
    """The ranges that one Spark task reads."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges
