"""Reader for streaming queries (``spark.readStream``), which plans and reads micro-batches.

Spark keeps one reader for a query in a Python process on the driver, and sends copies to tasks, which only read
records. Spark requests the initial offset twice, does not store it, compares offsets as text, and may not call `stop`.

If Spark repeats the first micro-batch after a restart, it must begin at the same offsets as before, even if the log now
begins later. But Spark stores only the end of each micro-batch in the checkpoint, and does not tell a Python source the
location of the checkpoint. The end of the first micro-batch therefore includes its start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import AtomicType, StructType

from ...errors import KafkaError
from ...types import TopicPartition
from .options import SourceOptions, is_certain, stream_options
from .progress import Progress, between, report
from .ranges import OffsetRange, RangePartition, partitions_of
from .schema import check_schema

if TYPE_CHECKING:
    import pyarrow as pa

    from .driver import StreamDriver


SAMPLED_PARTITIONS, SAMPLED_OFFSETS = 4, 100


def capped(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Return lower end offsets, so that a micro-batch has at most ``limit`` offsets.

    Each partition's share is in proportion to its available offsets, and at least one offset. If ``limit`` is too small
    for that, partitions take turns. A partition that is not in ``starts`` keeps its end.
    """
    sizes = {tp: end - starts[tp] for tp, end in sorted(ends.items()) if tp in starts and end > starts[tp]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    if limit < len(sizes):
        # The sum of the offsets increases by the limit with each micro-batch, so the turns continue where they ended.
        first = sum(starts[tp] for tp in sizes) % len(sizes)
        turns = [*sizes][first:] + [*sizes][:first]
        shares = {tp: int(at < limit) for at, tp in enumerate(turns)}
    else:
        rest = limit - len(sizes)
        spare = total - len(sizes)
        shares = {tp: 1 + rest * (size - 1) // spare for tp, size in sizes.items()}
        left = limit - sum(shares.values())
        for tp in sorted(sizes, key=lambda tp: (shares[tp] - sizes[tp], tp)):
            extra = min(left, 1, sizes[tp] - shares[tp])
            shares[tp] += extra
            left -= extra
    return {tp: starts[tp] + shares[tp] if tp in shares else end for tp, end in ends.items()}


def samples(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> tuple[OffsetRange, ...]:
    """Return small ranges of the partitions with the most offsets, for measuring the size of records."""
    found = [OffsetRange(*tp, starts[tp], end) for tp, end in ends.items() if tp in starts and end > starts[tp]]
    largest = sorted(found, key=lambda one: (-one.size, one))[:SAMPLED_PARTITIONS]
    return tuple(one.within(0, one.start + SAMPLED_OFFSETS) for one in largest)


def waits(available: int, least: int | None, since_last_ms: float | None, longest_ms: float) -> bool:
    """Return True if the next micro-batch must wait, because fewer than ``least`` offsets are available.

    ``available`` is the number of available offsets. A micro-batch waits until at most ``longest_ms`` after the last
    one, and the first micro-batch (``since_last_ms`` is None) never waits.
    """
    return least is not None and available < least and since_last_ms is not None and since_last_ms < longest_ms


# --- the number of tasks ----------------------------------------------------------------------------------------------
#
#
# Decides if fewer tasks than cores are enough for a micro-batch.
#
# The time that the query needs for a record is unknown here. If it is short, starting tasks takes most of the time of a
# small micro-batch. If it is long, the query needs every core. The durations of the last micro-batches show which of
# these is true. This code does no I/O, and time is an argument.


WORK_S = 1.0
"""Maximum work of a task in seconds. The work of a micro-batch is its duration times its number of tasks."""

SLOWER = 1.25
"""Ratio of a micro-batch's duration, with fewer and with more tasks, above which it was slow."""

SLOWER_IN_A_ROW = 2
"""Number of slow micro-batches in a row after which the next one gets more tasks again.

The driver connects in the first micro-batch without tasks. If this one misses a trigger by a millisecond, its duration
includes a whole further interval.
"""

TRY_AGAIN_S = 60.0
"""Seconds until fewer tasks are tried again. The time doubles after each failed attempt."""


class _Timed(NamedTuple):
    """The number of offsets and the duration of a finished micro-batch."""

    tasks: int
    offsets: int
    seconds: float

    def seconds_for(self, offsets: int) -> float:
        """Return a high estimate of the time in seconds for another number of offsets."""
        return self.seconds * max(1.0, offsets / self.offsets)


class Pace:
    """Chooses the number of tasks from the durations of the last micro-batches.

    A duration includes the pause until the next trigger. A long trigger interval therefore results in many tasks, but
    then the time for starting tasks does not matter.
    """

    def __init__(self) -> None:
        self._running: tuple[int, int, float] | None = None
        """Number of tasks, number of offsets and planning time of the running micro-batch."""
        self._last: _Timed | None = None
        self._with_more: _Timed | None = None
        """Last micro-batch with more tasks, for comparison."""
        self._slower = 0
        """Number of the last micro-batches that were slower than `_with_more`."""
        self._tries_from = -math.inf
        self._pause_s = TRY_AGAIN_S

    def tasks_for(self, offsets: int, now: float) -> int | None:
        """Return how many tasks suffice for a micro-batch, or None if unknown. ``now`` is monotonic, in seconds."""
        if self._last is None or now < self._tries_from:
            return None
        enough = math.ceil(self._last.seconds_for(offsets) * self._last.tasks / WORK_S)
        if enough < self._last.tasks:
            self._with_more = self._last
        return enough

    def began(self, tasks: int, offsets: int, now: float) -> None:
        """Note that a micro-batch was planned with this many tasks. Spark may request the plan several times."""
        if tasks and self._running is None:
            self._running = tasks, offsets, now

    def ended(self, now: float) -> None:
        """Record that the running micro-batch has ended, because Spark requests the next one."""
        if self._running is None:
            return
        tasks, offsets, began_at = self._running
        self._running = None
        self._last = _Timed(tasks, offsets, now - began_at)
        more = self._with_more
        slower = more is not None and tasks < more.tasks and self._last.seconds > SLOWER * more.seconds_for(offsets)
        self._slower = self._slower + 1 if slower else 0
        if self._slower == SLOWER_IN_A_ROW:
            self._with_more = None
            self._tries_from = now + self._pause_s
            self._pause_s *= 2


try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
except ImportError:  # a private class of PySpark; without it, tasks read all micro-batches
    _SimpleStreamReaderWrapper = DataSourceStreamReader  # type: ignore[assignment, misc]


SAMPLE_EVERY_S = 60.0
"""Seconds after which the size of records is sampled again, even if all available records fit into a micro-batch."""

MOST_OFFSETS_AT_ONCE = 10_000
"""Maximum number of offsets of a micro-batch that the driver reads while planning it, without a task."""

TRY_AGAIN_AFTER_S = 60.0
"""Seconds during which tasks read all micro-batches after the driver has failed to read one."""


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, and reads records in the tasks, to which Spark sends copies."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema, options)
        self.options = dict(options)
        self.parsed: SourceOptions = stream_options(options)
        self.schema = schema
        self._driver: StreamDriver | None = None
        """The driver's part, created there on first use. None in tasks."""
        self._initial: Progress | None = None
        """Start of a query without a checkpoint, or None until it is known."""
        self._no_start: Exception | None = None
        """Error of the last request for the start, if it failed."""
        self._pins = False
        """True for ``Trigger.AvailableNow``, with which the query reads up to the ends at its first micro-batch."""
        self._pinned: Progress | None = None
        """Ends at the first micro-batch with ``Trigger.AvailableNow``."""
        self._latest: Progress | None = None
        """Last known ends, or None before the first micro-batch of this process."""
        self._triggered_at: float | None = None
        """Monotonic time at which the last micro-batch was planned, for ``maxTriggerDelay``."""
        self._record_bytes = 1000.0
        """Mean size of a record's key and value in bytes, according to the last sample."""
        self._sampled_at = -math.inf
        self._tries_from = -math.inf
        """Monotonic time from which the driver may read small micro-batches again."""
        self._pace = Pace()
        self._rows: list[pa.RecordBatch] | None = None
        """Rows of the planned micro-batch if the driver has read them, otherwise None."""

    # --- on the driver -----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (PySpark's name)
        """Return the start of a query without a checkpoint. Each call returns the same offsets.

        Spark also calls this when it repeats the first micro-batch, which does not need the result. An error, for
        example about a topic that was deleted since then, is therefore only raised when the start is used.
        """
        if self._initial is None:
            try:
                self._initial, self._no_start = replace(self._ask().start(), initial=True), None
            except (KafkaError, ValueError) as error:
                self._no_start = error
                return Progress({}, initial=True).to_json()
        return self._initial.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end at the end offsets at the time of its first micro-batch."""
        self._pins = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit in the options. With ``Trigger.Once``, Spark uses `ReadAllAvailable` instead."""
        if self.parsed.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.parsed.max_offsets_per_trigger)
        if self.parsed.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self.parsed.max_bytes_per_trigger)
        if self.parsed.min_offsets_per_trigger is not None:
            return ReadMinRows(self.parsed.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch, or ``start`` if there is none."""
        self._pace.ended(time.monotonic())
        begun = self._begun(start)
        self._ask().commit(begun)
        self._latest = ends = self._ends(begun)
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(begun, ends, limit)
        if begun.initial:
            return replace(ends, began=begun.known_to(ends)).to_json()
        if not ends.at_same_place(begun):
            return ends.to_json()
        if self._pins:
            self._ask().commit(begun, wait=True)  # the query ends now, and Spark will kill this process
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the last known ends, from which Spark computes the lag in the query's progress."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the Spark partitions of a micro-batch. The offsets are fixed; `Pace` determines the number of tasks.

        After a restart, Spark also calls this with the last known offset as both arguments, and ignores the result.
        Raises `DataLossError` if ``failOnDataLoss`` is set and data is lost, or `CheckpointError`.
        """
        if start == end:  # the end of the first micro-batch includes its start, and would be read again
            return []
        ends = Progress.from_json(end)
        begun = self._begun(start) if ends.began is None else Progress(ends.began, ends.topic_ids)
        if begun.initial and not is_certain(self.parsed.starting, begun.offsets):
            # Spark's connector planned this micro-batch, and stored the start in a file that this reader cannot find.
            unknown = "the start of the first micro-batch is unknown, so records before its end may be lost"
            report([unknown], fail=self.parsed.fail_on_data_loss)
            begun = begun.at_most(ends)
        if self._latest is None:  # the micro-batch was planned before a restart, so topics may have been recreated
            recreated = ends.recreated(self._ask().ends(ends, certain=False))
            begun, ends = begun.without(recreated), ends.without(recreated)
        if lacking := begun.lacking_in(ends):
            self._ask().check_lacking(lacking)
        ranges, losses = between(begun, ends, self._ask().earliest(begun.unknown_in(ends)))
        report(losses, fail=self.parsed.fail_on_data_loss)
        offsets = sum(found.size for found in ranges)
        enough = self._pace.tasks_for(offsets, time.monotonic())
        tasks = partitions_of(ranges, ends.topic_ids, self.parsed, at_once=enough)
        self._pace.began(len(tasks), offsets, time.monotonic())
        if len(tasks) == 1 and self._read_at_once(tasks[0]):
            self.__class__ = _ReaderWithRows
        return tasks

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the end of a finished micro-batch for the group ``commitGroupId``, so that tools can show the lag."""
        self._ask().commit(Progress.from_json(end))

    def stop(self) -> None:
        """Stop the query's clients on the driver. Spark calls this when the query ends."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _ask(self) -> StreamDriver:
        from .driver import StreamDriver

        if self._driver is None:
            self._driver = StreamDriver(self.options, self.parsed)
        return self._driver

    def _begun(self, start: dict[str, Any]) -> Progress:
        """Return the start of a micro-batch. Raises the stored error if the start of the query is unknown."""
        begun = Progress.from_json(start)
        if begun.initial and self._no_start is not None:
            raise self._no_start
        return begun

    def _ends(self, begun: Progress) -> Progress:
        # With Trigger.AvailableNow, be certain now, because there may be no later trigger that could report a loss.
        ends = self._ask().ends(begun, certain=self._pins and self._pinned is None)
        if not self._pins:
            return ends
        if self._pinned is None:
            self._pinned = ends
        elif recreated := self._pinned.recreated(ends):  # already reported; other topics keep their pinned ends
            now = {tp: end for tp, end in ends.offsets.items() if tp.topic in recreated}
            kept = self._pinned.without(recreated)
            ids = {topic: ends.topic_ids[topic] for topic in recreated}
            self._pinned = Progress({**kept.offsets, **now}, {**kept.topic_ids, **ids})
        return self._pinned

    def _read_at_once(self, task: RangePartition) -> bool:
        """Read a small micro-batch that needs one task. Return False if the task must read it."""
        # Spark does not accept rows from the driver if a column has metadata or, in older versions, a nested type.
        plain = all(isinstance(field.dataType, AtomicType) and not field.metadata for field in self.schema.fields)
        if not plain or sum(found.size for found in task.ranges) > MOST_OFFSETS_AT_ONCE:
            return False
        if time.monotonic() < self._tries_from:
            return False
        from .task import read_at_once

        self._rows = read_at_once(self.options, self.parsed, self.schema, task.ranges, task.topic_ids)
        if self._rows is None:
            self._tries_from = time.monotonic() + TRY_AGAIN_AFTER_S
        return self._rows is not None

    def _limited(self, start: Progress, ends: Progress, limit: ReadLimit) -> Progress:
        parsed = self.parsed
        starts = start.known_to(ends) | self._ask().earliest(start.unknown_in(ends))
        # A truncated partition, which ends before its start, does not make up for the offsets of others.
        available = sum(max(0, end - starts[tp]) for tp, end in ends.offsets.items() if tp in starts)
        now = time.monotonic()
        since_last_ms = None if self._triggered_at is None else (now - self._triggered_at) * 1000
        # With Trigger.AvailableNow, the end is fixed, so waiting for more offsets would never end.
        least = None if self._pinned is not None else parsed.min_offsets_per_trigger
        if waits(available, least, since_last_ms, parsed.max_trigger_delay_ms):
            return start
        self._triggered_at = now
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else available
        if parsed.max_bytes_per_trigger is not None:
            most = min(most, self._offsets_of(parsed.max_bytes_per_trigger, available, starts, ends))
        return Progress(capped(starts, ends.offsets, most), ends.topic_ids) if most < available else ends

    def _offsets_of(self, size: int, available: int, starts: Mapping[TopicPartition, int], ends: Progress) -> int:
        """Return the number of offsets, at least 1, whose keys and values add up to about ``size`` bytes."""
        now = time.monotonic()
        if available > 0 and (available * self._record_bytes > size or now > self._sampled_at + SAMPLE_EVERY_S):
            from .task import mean_bytes

            found = mean_bytes(self.options, self.parsed, samples(starts, ends.offsets))
            if found is not None:
                self._record_bytes, self._sampled_at = found, now
        return max(1, int(size / self._record_bytes))

    # --- called in tasks ---------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a Spark partition. Spark calls this in a task."""
        from .task import read_ranges

        assert isinstance(partition, RangePartition)
        return read_ranges(self.options, self.parsed, self.schema, partition.ranges, partition.topic_ids)


class _ReaderWithRows(KafkaStreamReader, _SimpleStreamReaderWrapper):  # pyright: ignore[reportGeneralTypeIssues]
    """The class of a reader that has read a small micro-batch while planning it, until `getCache` returns the rows.

    The micro-batch then needs no Python task. PySpark accepts rows from the driver only if the reader has the class of
    simple sources, which can neither limit micro-batches nor report their lag. A reader therefore changes its class for
    a moment.
    """

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch] | None:  # noqa: N802
        """Return the rows of the planned micro-batch, or None if they have already been returned."""
        self.__class__ = KafkaStreamReader  # type: ignore[assignment]
        rows, self._rows = self._rows, None
        return None if rows is None else iter(rows)
