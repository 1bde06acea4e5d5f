"""``spark.readStream``: a topic's records, micro-batch by micro-batch.

The driver keeps one reader for a query, in a separate process; tasks get copies that only read. Pitfalls: Spark does
not store the initial offset and asks for it twice; it compares offsets as text; `stop` may never be called.

A first micro-batch that is repeated after a restart must begin at the same offsets as before, even if the log now
begins later. Spark does not give a Python source the location of its checkpoint. All that it stores there for the
source is the end of each micro-batch, before the micro-batch runs. The first micro-batch's end therefore includes its
start.
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
from .bounds import is_certain
from .options import SourceOptions, stream_options
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
    """Return ends with at most ``limit`` offsets in total, in proportion to the available offsets.

    Every partition gets a share if the limit allows that; otherwise partitions take turns. Partitions that ``starts``
    lacks keep their end.
    """
    sizes = {tp: end - starts[tp] for tp, end in sorted(ends.items()) if tp in starts and end > starts[tp]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    if limit < len(sizes):
        # The offsets read so far advance by the limit with each batch, and the turns with them.
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
    """Return the first offsets of the partitions with the most offsets, as a sample of the size of records."""
    found = [OffsetRange(*tp, starts[tp], end) for tp, end in ends.items() if tp in starts and end > starts[tp]]
    largest = sorted(found, key=lambda one: (-one.size, one))[:SAMPLED_PARTITIONS]
    return tuple(one.within(0, one.start + SAMPLED_OFFSETS) for one in largest)


def waits(available: int, least: int | None, since_last_ms: float | None, longest_ms: float) -> bool:
    """Return True if a micro-batch should wait: for ``least`` offsets, or ``longest_ms`` since the last micro-batch.

    ``since_last_ms`` is None before the first micro-batch, which never waits.
    """
    return least is not None and available < least and since_last_ms is not None and since_last_ms < longest_ms


# --- the number of tasks ----------------------------------------------------------------------------------------------
#
# Decides if fewer tasks than cores suffice for a stream's micro-batches. Pure: time is an argument.
#
# The query's cost of a record is unknown here. If it is low, starting tasks is most of a small micro-batch; if it is
# high, every core is needed. The durations of the last micro-batches show it.


WORK_S = 1.0
"""Maximum work of a task in seconds. The work of the last micro-batch is its duration times its number of tasks."""

SLOWER = 1.25
"""Fewer tasks are given up if a micro-batch takes this many times as long as with more tasks."""

TRY_AGAIN_S = 60.0
"""Seconds until fewer tasks are tried again; doubles each time."""


class _Timed(NamedTuple):
    """A finished micro-batch."""

    tasks: int
    offsets: int
    seconds: float

    def seconds_for(self, offsets: int) -> float:
        """Return the maximum time for another number of offsets."""
        return self.seconds * max(1.0, offsets / self.offsets)


class Pace:
    """Derives the number of tasks from the durations of a stream's micro-batches.

    The durations include the pause until the next trigger, so they are short only if triggers are short. In other
    streams the number of tasks does not matter.
    """

    def __init__(self) -> None:
        self._running: tuple[int, int, float] | None = None
        """The tasks and offsets of the running micro-batch, and the time of its plan."""
        self._last: _Timed | None = None
        self._with_more: _Timed | None = None
        """The last micro-batch with more tasks, for comparison."""
        self._tries_from = -math.inf
        self._pause_s = TRY_AGAIN_S

    def tasks_for(self, offsets: int, now: float) -> int | None:
        """Return the number of tasks that is enough for a micro-batch; None if it is unknown."""
        if self._last is None or now < self._tries_from:
            return None
        enough = math.ceil(self._last.seconds_for(offsets) * self._last.tasks / WORK_S)
        if enough < self._last.tasks:
            self._with_more = self._last
        return enough

    def began(self, tasks: int, offsets: int, now: float) -> None:
        """Note that a micro-batch is planned; Spark may ask for the same plan several times."""
        if tasks and self._running is None:
            self._running = tasks, offsets, now

    def ended(self, now: float) -> None:
        """Note that Spark asks for the next micro-batch."""
        if self._running is None:
            return
        tasks, offsets, began_at = self._running
        self._running = None
        self._last = _Timed(tasks, offsets, now - began_at)
        more = self._with_more
        if more is not None and tasks < more.tasks and self._last.seconds > SLOWER * more.seconds_for(offsets):
            self._with_more = None
            self._tries_from = now + self._pause_s
            self._pause_s *= 2


try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
except ImportError:  # it is private to PySpark: without it, tasks read everything
    _SimpleStreamReaderWrapper = DataSourceStreamReader  # type: ignore[assignment, misc]


SAMPLE_EVERY_S = 60.0
"""Maximum age in seconds of a sampled size with which all available records fit into one micro-batch."""

MOST_OFFSETS_AT_ONCE = 10_000
"""A micro-batch of one task and at most this many offsets is read where it is planned."""

TRY_AGAIN_AFTER_S = 60.0
"""If that failed, tasks read all micro-batches for this many seconds, because the next is likely to fail, too."""


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver and reads them in tasks. Each imports its part on demand."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_schema(schema, options)
        self.options = dict(options)
        self.parsed: SourceOptions = stream_options(options)
        self.schema = schema
        self._driver: StreamDriver | None = None
        """Created on first use by the driver; a task's copy has none."""
        self._initial: Progress | None = None
        """Start of a query without a checkpoint, once requested."""
        self._no_start: Exception | None = None
        """Error of the last request for the start."""
        self._pins = False
        """True for ``Trigger.AvailableNow``: the query ends at the ends of partitions at the first request."""
        self._pinned: Progress | None = None
        """The ends at the first request."""
        self._latest: Progress | None = None
        """The latest known ends."""
        self._triggered_at: float | None = None
        """Time at which the last micro-batch was released."""
        self._record_bytes = 1000.0
        """Mean size of a record's key and value, when records were last sampled."""
        self._sampled_at = -math.inf
        self._tries_from = -math.inf
        """Time from which the planner tries again to read small micro-batches itself."""
        self._pace = Pace()
        self._rows: list[pa.RecordBatch] | None = None
        """Rows of the planned micro-batch, if they are read already."""

    # --- on the driver -----------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (PySpark's name)
        """Return the start of the query if it has no checkpoint: the same at each call.

        Spark also calls this when it repeats a first micro-batch, whose end includes its start. An error, for example
        about a topic deleted since then, is therefore raised only when the start is used.
        """
        if self._initial is None:
            try:
                self._initial, self._no_start = replace(self._ask().start(), initial=True), None
            except (KafkaError, ValueError) as error:
                self._no_start = error
                return Progress({}, initial=True).to_json()
        return self._initial.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End the query at the partitions' ends at the time of the first micro-batch."""
        self._pins = True

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the options' limit; `ReadAllAvailable` (from ``Trigger.Once``) overrides all of them."""
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
            self._ask().commit(begun, wait=True)  # the query ends now, and Spark kills this process
        return start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends, for the query's progress."""
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch. Its offsets never change; the number of tasks depends on `Pace`.

        In a restart Spark also calls this with the last known offset as both arguments, and ignores the result.
        """
        if start == end:  # the end of the first micro-batch includes its start, and would be read again
            return []
        ends = Progress.from_json(end)
        begun = self._begun(start) if ends.began is None else Progress(ends.began, ends.topic_ids)
        if begun.initial and not is_certain(self.parsed.starting, begun.offsets):
            # Planned by Spark's connector, which stores the start in the checkpoint, whose location is unknown here.
            unknown = "where the first micro-batch began is not in the checkpoint: records before its end may be lost"
            report([unknown], fail=self.parsed.fail_on_data_loss)
            begun = begun.at_most(ends)
        if self._latest is None:  # planned before a restart: its topics may have been created again since then
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
        """Commit the end of a finished micro-batch for ``commitGroupId``."""
        self._ask().commit(Progress.from_json(end))

    def stop(self) -> None:
        """Close the driver's connections."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _ask(self) -> StreamDriver:
        from .driver import StreamDriver

        if self._driver is None:
            self._driver = StreamDriver(self.options, self.parsed)
        return self._driver

    def _begun(self, start: dict[str, Any]) -> Progress:
        """Return the start of a micro-batch; raise the error if the query's start was not found."""
        begun = Progress.from_json(start)
        if begun.initial and self._no_start is not None:
            raise self._no_start
        return begun

    def _ends(self, begun: Progress) -> Progress:
        # A query that ends with the current records has no later trigger that could report a loss.
        ends = self._ask().ends(begun, certain=self._pins and self._pinned is None)
        if not self._pins:
            return ends
        if self._pinned is None:
            self._pinned = ends
        elif recreated := self._pinned.recreated(ends):  # reported; the others end where they did
            now = {tp: end for tp, end in ends.offsets.items() if tp.topic in recreated}
            kept = self._pinned.without(recreated)
            ids = {topic: ends.topic_ids[topic] for topic in recreated}
            self._pinned = Progress({**kept.offsets, **now}, {**kept.topic_ids, **ids})
        return self._pinned

    def _read_at_once(self, task: RangePartition) -> bool:
        """Read a small micro-batch of one task; return False if a task must read it."""
        # Spark refuses such rows if a column has metadata, and older versions if one has a nested type.
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
        available = sum(end - starts[tp] for tp, end in ends.offsets.items() if tp in starts)
        now = time.monotonic()
        since_last_ms = None if self._triggered_at is None else (now - self._triggered_at) * 1000
        # The range of AvailableNow does not grow: waiting for more would never end.
        least = None if self._pinned is not None else parsed.min_offsets_per_trigger
        if waits(available, least, since_last_ms, parsed.max_trigger_delay_ms):
            return start
        self._triggered_at = now
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else available
        if parsed.max_bytes_per_trigger is not None:
            most = min(most, self._offsets_of(parsed.max_bytes_per_trigger, available, starts, ends))
        return Progress(capped(starts, ends.offsets, most), ends.topic_ids) if most < available else ends

    def _offsets_of(self, size: int, available: int, starts: Mapping[TopicPartition, int], ends: Progress) -> int:
        """Return the number of offsets whose keys and values have about this many bytes, at least 1."""
        now = time.monotonic()
        if available > 0 and (available * self._record_bytes > size or now > self._sampled_at + SAMPLE_EVERY_S):
            from .task import mean_bytes

            found = mean_bytes(self.options, self.parsed, samples(starts, ends.offsets))
            if found is not None:
                self._record_bytes, self._sampled_at = found, now
        return max(1, int(size / self._record_bytes))

    # --- in tasks ----------------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the records of a task."""
        from .task import read_ranges

        assert isinstance(partition, RangePartition)
        return read_ranges(self.options, self.parsed, self.schema, partition.ranges, partition.topic_ids)


class _ReaderWithRows(KafkaStreamReader, _SimpleStreamReaderWrapper):  # pyright: ignore[reportGeneralTypeIssues]
    """A reader that has read a micro-batch while planning it, until it passes the rows to Spark with the plan.

    The micro-batch then needs no Python task. PySpark takes rows only from its class for simple sources, which can
    neither limit micro-batches nor report their lag. A reader therefore has this class only for this call.
    """

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch] | None:  # noqa: N802
        """Return the rows, once."""
        self.__class__ = KafkaStreamReader  # type: ignore[assignment]
        rows, self._rows = self._rows, None
        return None if rows is None else iter(rows)
