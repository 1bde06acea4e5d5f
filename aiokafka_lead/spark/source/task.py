"""Reading in a Spark task, or on the driver for a small micro-batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from ...errors import KafkaError
from ..client_loop import client_loop, freeze_imports
from .bad_records import BadRecords, DeadLetters, OnBadRecord, send_dead_letters
from .clients import task_consumer, task_producer
from .columns import ArrowColumns
from .options import SourceOptions
from .range_reader import RangeReader
from .ranges import OffsetRange
from .schema import batch_reader_of

SIGN_OF_LIFE_S = 0.5
"""Seconds without records after which a task returns an empty batch.

A task notices its cancellation only when it returns a batch, and Spark kills it if that takes longer than 1 s.
"""

AT_ONCE_S = 0.5
"""Maximum time in seconds that the driver reads a small micro-batch while it plans. Otherwise a task reads it."""

AT_ONCE_BYTES = 4 * 1024 * 1024
"""Maximum bytes of rows that the driver reads while it plans. It keeps them in memory until the next micro-batch."""

_CONTENT = StructType([StructField(name, BinaryType()) for name in ("key", "value")])

_log = logging.getLogger("aiokafka_lead.spark")


def read_at_once(
    options: Mapping[str, str],
    parsed: SourceOptions,
    schema: StructType,
    ranges: tuple[OffsetRange, ...],
    topic_ids: Mapping[str, str],
) -> list[pa.RecordBatch] | None:
    """Return all records of the ranges, or None after an error or beyond the limits. A task must then read them."""
    # Losses raise an error here, because only a task can wait until they are certain.
    found, complete = _first_records(options, replace(parsed, fail_on_data_loss=True), schema, ranges, topic_ids)
    return found if complete else None


def mean_bytes(options: Mapping[str, str], parsed: SourceOptions, ranges: tuple[OffsetRange, ...]) -> float | None:
    """Return the mean size of keys and values in these ranges in bytes per offset, or None if it is unknown."""
    raw = replace(parsed, bad_records=BadRecords(OnBadRecord.FAIL, None))
    found, complete = _first_records(options, raw, _CONTENT, ranges)
    if not found:
        return None
    # If a limit was reached, the number of offsets read is unknown, so gaps between records are ignored.
    offsets = sum(one.size for one in ranges) if complete else sum(batch.num_rows for batch in found)
    return float(max(1, sum(batch.nbytes for batch in found))) / offsets


def _first_records(
    options: Mapping[str, str],
    parsed: SourceOptions,
    schema: StructType,
    ranges: tuple[OffsetRange, ...],
    topic_ids: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[pa.RecordBatch], bool]:
    """Return the first records of the ranges, and True if these are all.

    The second item is False if an error, the time limit `AT_ONCE_S` or the size limit `AT_ONCE_BYTES` ended the read.
    """
    quick = replace(parsed, read_timeout_ms=AT_ONCE_S * 1000, data_loss_timeout_ms=0)
    deadline, size = time.monotonic() + AT_ONCE_S, 0
    found: list[pa.RecordBatch] = []
    try:
        with closing(read_ranges(options, quick, schema, ranges, topic_ids)) as batches:
            for batch in batches:
                size += batch.get_total_buffer_size()
                if batch.num_rows:
                    found.append(batch)
                if size > AT_ONCE_BYTES or time.monotonic() > deadline:
                    return found, False
    except (KafkaError, RuntimeError, TimeoutError) as error:
        _log.debug("the driver could not read a small micro-batch, so a task will read it: %s", error)
        return found, False
    return found, True


def read_ranges(
    options: Mapping[str, str],
    parsed: SourceOptions,
    schema: StructType,
    ranges: tuple[OffsetRange, ...],
    topic_ids: Mapping[str, str],
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the records of ranges as Arrow batches, and empty batches while no records arrive."""
    freeze_imports()
    loop = client_loop()
    typed = batch_reader_of(options, schema, parsed.bad_records.mode)
    dead_letter_topic = parsed.bad_records.topic

    def bury(letters: DeadLetters) -> None:
        assert dead_letter_topic is not None
        try:
            with task_producer(loop, options) as producer:
                loop.run(send_dead_letters, producer, dead_letter_topic, letters)
        except KafkaError as error:
            text = f"{len(letters)} bad records could not be written to deadLetterTopic '{dead_letter_topic}': {error}"
            raise RuntimeError(text) from None

    columns = ArrowColumns(
        to_arrow_schema(schema, timezone="UTC"),
        None if typed is None else lambda batch, count: loop.run(typed, batch, count),
        None if dead_letter_topic is None else bury,
    )
    with task_consumer(loop, options, parsed.read_timeout_ms) as consumer:
        reader = RangeReader(
            consumer,
            ranges,
            topic_ids,
            fail_on_data_loss=parsed.fail_on_data_loss,
            timeout_ms=parsed.read_timeout_ms,
            loss_timeout_ms=parsed.data_loss_timeout_ms,
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
