"""Where offsets of groups are reset to."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from .._io.deadline import Deadline
from ..errors import KafkaError
from ..types import OffsetAndTimestamp, TopicPartition
from . import _partitions, _topics
from ._calls import Calls
from ._times import milliseconds_of
from .group_types import ResetTo, ToOffset, ToShifted
from .types import OffsetSpec


async def named_partitions(
    calls: Calls,
    topics: Collection[str] | None,
    partitions: Collection[TopicPartition] | None,
    deadline: Deadline,
) -> list[TopicPartition] | None:
    """The partitions of topics, and some more; None where neither are named: all that the group has."""
    if topics is None and partitions is None:
        return None
    wanted = list(partitions or ())
    if topics is not None:
        described = await _topics.describe(calls, topics, deadline)
        wanted += [
            TopicPartition(name, partition.partition)
            for name, topic in described.items()
            for partition in topic.partitions
        ]
    return list(dict.fromkeys(wanted))


async def targets(
    calls: Calls, before: Mapping[TopicPartition, int | None], to: ResetTo, deadline: Deadline
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Where each partition goes from its present offset."""
    ends = await _existing(calls, before, OffsetSpec.LATEST, deadline)
    if isinstance(to, (ToOffset, ToShifted)):
        starts = await _existing(calls, before, OffsetSpec.EARLIEST, deadline)
        found = {}
        for where, present in before.items():
            if isinstance(to, ToOffset):
                offset = to.offset
            elif present is None:
                raise KafkaError(f"{where}: there is no offset yet that could be shifted")
            else:
                offset = present + to.by
            found[where] = OffsetAndTimestamp(max(starts[where].offset, min(offset, ends[where].offset)), -1)
        return found
    at = await _partitions.list_offsets(calls, dict.fromkeys(before, _moment(to)), False, deadline)
    # No record is as late as that: the next one to come is the first.
    return {where: each or ends[where] for where, each in at.items()}


async def _existing(
    calls: Calls, partitions: Iterable[TopicPartition], spec: OffsetSpec, deadline: Deadline
) -> dict[TopicPartition, OffsetAndTimestamp]:
    found = await _partitions.list_offsets(calls, dict.fromkeys(partitions, spec), False, deadline)
    return {where: each for where, each in found.items() if each is not None}


def _moment(to: datetime | timedelta | int) -> int:
    """What ListOffsets is asked for."""
    if isinstance(to, datetime):
        return milliseconds_of(to)
    if isinstance(to, timedelta):
        return max(0, int(time.time() * 1000) - to // timedelta(milliseconds=1))
    return int(to)
