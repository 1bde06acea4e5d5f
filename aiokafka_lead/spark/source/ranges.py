"""Ranges of offsets, and their distribution among Spark tasks.

`plan_tasks`, `split` and `pack` are deterministic and do no I/O. `partitions_of` also reads the number of cores from
the operating system, so a micro-batch that Spark repeats on another machine may have other tasks, but it has the same
offsets.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from ...types import TopicPartition
from .options import SourceOptions

RECORDS_PER_TASK = 50_000
"""Minimum number of records of a task if there are more tasks than cores; starting a task takes about as long."""

BUNDLES_PER_TASK = 8
"""Approximate number of bundles of small ranges in a task, which is enough to balance the tasks."""

RECORDS_PER_CORE = 10
"""Minimum number of records of a task if there are no more tasks than cores. A query may need much time for each."""


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Range of offsets of a partition from ``start`` up to, but not including, ``until``."""

    topic: str
    partition: int
    start: int
    until: int
    from_beginning: bool = False
    """True if the range starts at the beginning of the log, which retention may move before the range is read."""

    @property
    def tp(self) -> TopicPartition:
        """Partition of these offsets."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """Number of offsets, which is the maximum number of records."""
        return self.until - self.start

    def within(self, first: int, until: int | None) -> OffsetRange:
        """Return the part of the range from ``first`` up to, but not including, ``until`` (None: up to its end).

        If no offset is left, the `size` of the result is 0 or negative.
        """
        end = self.until if until is None else min(self.until, until)
        kept = self.from_beginning and first <= self.start
        return OffsetRange(self.topic, self.partition, max(self.start, first), end, kept)


def plan_tasks(
    ranges: Iterable[OffsetRange],
    *,
    min_partitions: int | None = None,
    max_records: int | None = None,
    max_tasks: int | None = None,
    cores: int = 1,
) -> list[tuple[OffsetRange, ...]]:
    """Distribute ranges among tasks, and return the ranges of each task.

    The offsets of a partition stay in one task, in order, unless ``min_partitions`` or ``max_records`` require a split.
    Several small ranges share a task, and empty ranges are dropped. ``cores`` is the number of tasks that Spark runs at
    the same time. ``max_tasks`` limits the number of tasks, unless ``max_records`` requires more.
    """
    parts = split(ranges, min_partitions=min_partitions, max_records=max_records)
    offsets = sum(part.size for part in parts)
    at_once = min(cores, -(-offsets // RECORDS_PER_CORE)) if min_partitions is None else min_partitions
    tasks = max(-(-offsets // RECORDS_PER_TASK), at_once)
    if max_tasks is not None:
        tasks = min(tasks, max_tasks)
    return pack(parts, tasks, max_records)


def split(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Split ranges into at least ``min_partitions`` parts of at most ``max_records`` offsets.

    Parts of a range have equal sizes, and at least one offset. The largest parts are split first.
    """
    whole = sorted(found for found in ranges if found.size > 0)
    counts = [1 if max_records is None else -(-found.size // max_records) for found in whole]
    missing = (min_partitions or 0) - sum(counts)
    largest = [(-found.size / count, at) for at, (found, count) in enumerate(zip(whole, counts, strict=True))]
    heapq.heapify(largest)
    while missing > 0 and largest:
        _, at = heapq.heappop(largest)
        if counts[at] < whole[at].size:
            counts[at] += 1
            missing -= 1
            heapq.heappush(largest, (-whole[at].size / counts[at], at))
    return [part for found, count in zip(whole, counts, strict=True) for part in _divide(found, count)]


def _divide(found: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [found.start + found.size * at // count for at in range(count + 1)]
    return [
        OffsetRange(found.topic, found.partition, start, until, found.from_beginning and start == found.start)
        for start, until in pairwise(edges)
        if until > start
    ]


def pack(ranges: Sequence[OffsetRange], tasks: int, max_records: int | None = None) -> list[tuple[OffsetRange, ...]]:
    """Distribute ranges evenly among tasks: the largest first, each to the task with the fewest offsets.

    Small ranges of a topic stay together. Returns at most ``tasks`` tasks, unless ``max_records`` requires more.
    """
    count = max(1, min(tasks, len(ranges)))
    bundles = _bundles(ranges, sum(found.size for found in ranges) // (count * BUNDLES_PER_TASK), max_records)
    if len(bundles) < count:
        bundles = [(found,) for found in ranges]
    loads: list[tuple[int, int]] = [(0, at) for at in range(count)]
    contents: list[list[OffsetRange]] = [[] for _ in loads]
    sized = [(-sum(found.size for found in bundle), bundle) for bundle in bundles]
    for size, bundle in sorted(sized):
        load, at = loads[0]
        if max_records is not None and load and load - size > max_records:
            heapq.heappush(loads, (-size, len(contents)))
            contents.append([*bundle])
        else:
            heapq.heapreplace(loads, (load - size, at))
            contents[at] += bundle
    return [tuple(sorted(content)) for content in contents if content]


def _bundles(ranges: Iterable[OffsetRange], most: int, max_records: int | None) -> list[tuple[OffsetRange, ...]]:
    """Join successive ranges of a topic into bundles of up to ``most`` offsets.

    Each task requests the metadata of its topics, with all their partitions. If each of a thousand tasks had partitions
    of every topic, brokers would send more metadata than records.
    """
    if max_records is not None:
        most = min(most, max_records)
    bundles: list[list[OffsetRange]] = []
    size = 0
    for found in sorted(ranges):
        if bundles and bundles[-1][0].topic == found.topic and size + found.size <= most:
            bundles[-1].append(found)
            size += found.size
        else:
            bundles.append([found])
            size = found.size
    return [tuple(bundle) for bundle in bundles]


UNKNOWN_CORES = 200
"""Assumed number of cores of a Spark cluster, which Spark does not reveal; Spark's default number of shuffle tasks."""

_LOCAL = re.compile(r"(?:spark\.master=|--master[ =])local(?:\[(\d+|\*)(?:,\s*\d+)?\])?(?= |$)")


class RangePartition(InputPartition):
    """Spark partition: the ranges that a task reads."""

    def __init__(self, ranges: tuple[OffsetRange, ...], topic_ids: Mapping[str, str]) -> None:
        super().__init__(None)
        self.ranges = ranges
        topics = {found.topic for found in ranges}
        self.topic_ids = {topic: topic_id for topic, topic_id in topic_ids.items() if topic in topics}
        """Topic ids at the time of planning."""


def partitions_of(
    ranges: Iterable[OffsetRange], topic_ids: Mapping[str, str], parsed: SourceOptions, *, at_once: int | None = None
) -> list[RangePartition]:
    """Return the Spark partitions for these ranges. ``at_once`` limits the number of cores to use."""
    cores = _cores()
    tasks = plan_tasks(
        ranges,
        min_partitions=parsed.min_partitions,
        max_records=parsed.max_records_per_partition,
        max_tasks=parsed.max_tasks,
        cores=cores if at_once is None else min(cores, at_once),
    )
    return [RangePartition(task, topic_ids) for task in tasks]


@cache
def _cores() -> int:
    """Return the number of cores if Spark runs tasks on this machine, otherwise `UNKNOWN_CORES`.

    Spark gives a Python data source neither its master nor its number of cores. On Linux, this function reads the
    command line of the JVM, which is an ancestor of this process, to find out whether the session is local.
    """
    parent = os.getppid()
    try:
        for _ in range(3):
            if found := local_cores(Path(f"/proc/{parent}/cmdline").read_bytes()):
                return found
            # The second field, the command in parentheses, may contain blanks.
            parent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        pass  # not on Linux, or there are no more ancestors
    return UNKNOWN_CORES


def local_cores(command: bytes) -> int | None:
    """Return the number of cores of a local Spark session, or None if this is not the command line of one.

    ``command`` has a NUL after each argument, as in ``/proc/PID/cmdline``.
    """
    found = _LOCAL.search(command.replace(b"\0", b" ").decode(errors="replace"))
    if found is None:
        return None
    if found[1] == "*":
        return os.cpu_count() or 1
    return int(found[1] or 1)
