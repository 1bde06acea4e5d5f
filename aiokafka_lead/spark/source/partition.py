"""Plans the tasks: their content, and their number."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from .options import SourceOptions
from .ranges import OffsetRange, plan_tasks

UNKNOWN_CORES = 200
"""Assumed number of simultaneous tasks in a cluster, which Spark does not reveal: its own default for a shuffle."""

_LOCAL = re.compile(r"(?:spark\.master=|--master[ =])local(?:\[(\d+|\*)(?:,\s*\d+)?\])?(?= |$)")


class RangePartition(InputPartition):
    """The ranges that one Spark task reads."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


def partitions_of(
    ranges: Iterable[OffsetRange], parsed: SourceOptions, *, at_once: int | None = None
) -> list[RangePartition]:
    """Return the tasks that read these ranges; ``at_once`` is the number of simultaneous tasks that is enough."""
    cores = _cores()
    tasks = plan_tasks(
        ranges,
        min_partitions=parsed.min_partitions,
        max_records=parsed.max_records_per_partition,
        max_tasks=parsed.max_tasks,
        cores=cores if at_once is None else min(cores, at_once),
    )
    return [RangePartition(task) for task in tasks]


@cache
def _cores() -> int:
    """Return the number of simultaneous tasks if Spark runs them on this machine; else `UNKNOWN_CORES`.

    Spark tells a planner neither its master nor a number of cores. The command line of the JVM, an ancestor of this
    process, shows if a session is local.
    """
    parent = os.getppid()
    try:
        for _ in range(3):
            if found := local_cores(Path(f"/proc/{parent}/cmdline").read_bytes()):
                return found
            # The second field, a name in parentheses, may contain blanks.
            parent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        pass  # not on Linux, or no ancestor is left
    return UNKNOWN_CORES


def local_cores(command: bytes) -> int | None:
    """Return the cores of a JVM with this command line, its arguments divided by zeros, if it is a local Spark."""
    found = _LOCAL.search(command.replace(b"\0", b" ").decode(errors="replace"))
    if found is None:
        return None
    if found[1] == "*":
        return os.cpu_count() or 1
    return int(found[1] or 1)
