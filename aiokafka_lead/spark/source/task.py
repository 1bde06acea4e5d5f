"""What planner and tasks share: the partitions that Spark carries from one to the other, and how a task reads one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ...admin import AdminClient
from ...config import AdminConfig, ConsumerConfig
from ...consumer import Consumer
from ..client_loop import client_loop, freeze_imports
from ..kafka_options import bootstrap_servers, client_options, kafka_settings
from .columns import ArrowColumns
from .options import SourceOptions
from .range_reader import RangeReader
from .ranges import OffsetRange

__all__ = ["RangePartition", "admin_maker", "client_key", "consumer_maker", "read_committed", "read_ranges"]

SIGN_OF_LIFE_S = 0.5
"""After a silence as long Spark gets an empty batch: it kills a cancelled task that does not notice for a second."""


class RangePartition(InputPartition):
    """The ranges that one Spark task reads."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


def client_key(kind: str, options: Mapping[str, str]) -> tuple[Any, ...]:
    """What tells this query's clients from others in the same process."""
    return (kind, *sorted(kafka_settings(options).items()))


def admin_maker(options: Mapping[str, str]) -> AdminClient:
    """The planner's client, not yet started."""
    return AdminClient(bootstrap_servers(options), **client_options(options, AdminConfig))


def consumer_maker(options: Mapping[str, str]) -> Consumer:
    """A task's client, not yet started. It belongs to no group, whatever ``kafka.group.id`` says."""
    given = client_options(options, ConsumerConfig)
    for name in ("group_id", "group_instance_id", "max_poll_records"):
        given.pop(name, None)
    given.update(auto_offset_reset="none", enable_auto_commit=False)
    return Consumer(bootstrap_servers=bootstrap_servers(options), **given)


def read_committed(options: Mapping[str, str]) -> bool:
    """Whether records of open and aborted transactions stay unseen."""
    return kafka_settings(options).get("isolation.level", "").strip().lower() == "read_committed"


def read_ranges(
    options: Mapping[str, str], parsed: SourceOptions, schema: StructType, ranges: tuple[OffsetRange, ...]
) -> Iterator[pa.RecordBatch]:
    """The records of a task's ranges, as Arrow batches."""
    freeze_imports()
    columns = ArrowColumns(to_arrow_schema(schema, timezone="UTC"))
    loop = client_loop()
    with loop.borrow(lambda: consumer_maker(options), client_key("consumer", options)) as consumer:
        reader = RangeReader(
            consumer, ranges, fail_on_data_loss=parsed.fail_on_data_loss, timeout_ms=parsed.read_timeout_ms
        )
        loop.run(reader.begin)
        spoke_at = time.monotonic()
        while (pieces := loop.run(reader.chunk)) is not None:
            if pieces:
                yield from columns.batches(pieces)
            elif time.monotonic() > spoke_at + SIGN_OF_LIFE_S:
                yield columns.empty()
            else:
                continue
            spoke_at = time.monotonic()
        loop.run(reader.end)
