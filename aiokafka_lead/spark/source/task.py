"""The reading part of a task, in a process that Spark uses for many tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..client_loop import client_loop, freeze_imports
from .bad_records import DeadLetters, send_dead_letters
from .clients import task_consumer, task_producer
from .columns import ArrowColumns
from .options import SourceOptions
from .range_reader import RangeReader
from .ranges import OffsetRange
from .typed import batch_reader_of

__all__ = ["read_ranges"]

SIGN_OF_LIFE_S = 0.5
"""Spark gets an empty batch after this long a silence: it kills a cancelled task that does not notice for a second."""


def read_ranges(
    options: Mapping[str, str], parsed: SourceOptions, schema: StructType, ranges: tuple[OffsetRange, ...]
) -> Iterator[pa.RecordBatch]:
    """Return the records of a task's ranges, as Arrow batches."""
    freeze_imports()
    loop = client_loop()
    typed = batch_reader_of(options, schema, parsed.bad_records.mode)
    dead_letter_topic = parsed.bad_records.topic

    def bury(letters: DeadLetters) -> None:
        assert dead_letter_topic is not None
        with task_producer(loop, options) as producer:
            loop.run(send_dead_letters, producer, dead_letter_topic, letters)

    columns = ArrowColumns(
        to_arrow_schema(schema, timezone="UTC"),
        None if typed is None else lambda batch, count: loop.run(typed, batch, count),
        None if dead_letter_topic is None else bury,
    )
    with task_consumer(loop, options, parsed.read_timeout_ms) as consumer:
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
