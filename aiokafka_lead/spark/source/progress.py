"""Offsets of a streaming query in the form that Spark stores, and the ranges between two of them. Does no I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...types import TopicPartition
from .ranges import OffsetRange

_log = logging.getLogger("aiokafka_lead.spark")
_ID, _BEGAN, _INITIAL = "@id", "@began", "@initial"
"""Prefixes of entries that are not topics. Kafka allows neither ``@`` nor the separator ``/`` in topic names."""


class DataLossError(RuntimeError):
    """Records that the query should read are lost. The option ``failOnDataLoss=false`` continues without them."""

    def __init__(self, losses: Iterable[str]) -> None:
        super().__init__("; ".join(losses) + " (set failOnDataLoss=false to continue without these records)")


class CheckpointError(RuntimeError):
    """The checkpoint omits an existing partition, because another connector trusted a single wrong response."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(
            "the last micro-batch in the checkpoint was planned, by an earlier version of this package or by another "
            f"connector, while brokers did not report {', '.join(map(str, sorted(partitions)))}. No data is lost. In "
            "the checkpoint's folder 'offsets', delete the file with the highest number, which the folder 'commits' "
            "lacks, and start the query again"
        )


def recreation(topic: str) -> str:
    """Return the description of a loss for a topic whose id has changed."""
    return f"topic {topic} was deleted and created again, or is in another cluster: what was not read before is lost"


def report(losses: Sequence[str], *, fail: bool) -> None:
    """Raise `DataLossError` for these losses, or log a warning for each if ``fail`` is False."""
    if losses and fail:
        raise DataLossError(losses)
    for loss in losses:
        _log.warning("%s; continuing without these records (failOnDataLoss=false)", loss)


@dataclass(frozen=True)
class Progress:
    """Position of a streaming query: the next offset of each partition, and the ids of the topics.

    The JSON has the format of Spark's connector, so each can continue from a checkpoint of the other. Additional data
    of this source is stored as the names of topics without partitions, which Spark's connector ignores.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    began: Mapping[TopicPartition, int] | None = None
    """Start of the first micro-batch, stored in the end of this micro-batch. None in all other offsets."""
    initial: bool = False
    """True for the start of a query without a checkpoint. Spark never stores this offset."""

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return the data for Spark. The order is fixed, because Spark compares offsets as text."""
        found: dict[str, dict[str, int]] = {_INITIAL: {}} if self.initial else {}
        if self.began is not None:
            found[_BEGAN] = {}
            for (topic, partition), offset in sorted(self.began.items()):
                found[f"{_BEGAN}/{topic}/{partition}/{offset}"] = {}
        for topic, topic_id in sorted(self.topic_ids.items()):
            found[f"{_ID}/{topic}/{topic_id}"] = {}
        for (topic, partition), offset in sorted(self.offsets.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Progress:
        """Parse the output of `to_json` or of Spark's connector."""
        offsets: dict[TopicPartition, int] = {}
        topic_ids: dict[str, str] = {}
        began: dict[TopicPartition, int] | None = {} if _BEGAN in found else None
        for name, partitions in found.items():
            if name == _INITIAL:
                continue
            match name.split("/"):
                case [kind, topic, topic_id] if kind == _ID:
                    topic_ids[topic] = topic_id
                case [kind, topic, partition, offset] if kind == _BEGAN and began is not None:
                    began[TopicPartition(topic, int(partition))] = int(offset)
                case _:
                    offsets |= {TopicPartition(name, int(number)): int(at) for number, at in partitions.items()}
        return cls(offsets, topic_ids, began, _INITIAL in found)

    def at_same_place(self, other: Progress) -> bool:
        """Return True if both have the same offsets and topics."""
        return self.offsets == other.offsets and self.topic_ids == other.topic_ids

    def recreated(self, later: Progress) -> set[str]:
        """Return the topics whose ids differ in ``later``, because they were deleted and recreated."""
        return {name for name, found in self.topic_ids.items() if later.topic_ids.get(name, found) != found}

    def known_to(self, later: Progress) -> dict[TopicPartition, int]:
        """Return the offsets except for topics that were recreated before ``later``."""
        recreated = self.recreated(later)
        return {tp: offset for tp, offset in self.offsets.items() if tp.topic not in recreated}

    def unknown_in(self, later: Progress) -> set[TopicPartition]:
        """Return the partitions of ``later`` that are new, or whose topics were recreated."""
        return later.offsets.keys() - self.known_to(later).keys()

    def lacking_in(self, later: Progress) -> Progress | None:
        """Return a copy with only the partitions missing from ``later``, or None. Recreated topics do not count."""
        known = self.known_to(later)
        lacking = {tp: known[tp] for tp in known.keys() - later.offsets.keys()}
        return Progress(lacking, self.topic_ids) if lacking else None

    def without(self, topics: set[str]) -> Progress:
        """Return a copy without these topics."""
        offsets = {tp: offset for tp, offset in self.offsets.items() if tp.topic not in topics}
        return Progress(offsets, {name: found for name, found in self.topic_ids.items() if name not in topics})

    def at_most(self, end: Progress) -> Progress:
        """Return a copy with only the partitions of ``end``, and with offsets no larger than in ``end``."""
        offsets = {tp: min(offset, end.offsets[tp]) for tp, offset in self.offsets.items() if tp in end.offsets}
        return Progress(offsets, self.topic_ids)


def between(
    start: Progress, end: Progress, earliest: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[str]]:
    """Return the ranges of offsets from ``start`` to ``end``, and descriptions of losses.

    ``earliest`` contains the beginning offsets of partitions that are missing from ``start``, or whose topic was
    recreated.
    """
    recreated = start.recreated(end)
    losses = [recreation(topic) for topic in sorted(recreated)]
    starts = start.known_to(end)
    ranges: list[OffsetRange] = []
    for tp, until in sorted(end.offsets.items()):
        known = starts.get(tp)
        first = earliest.get(tp) if known is None else known
        if first is None:
            losses.append(f"partition {tp} is new, but no longer exists")
            continue
        if known is None and first > 0 and tp.topic not in recreated:
            losses.append(f"partition {tp} is new, but retention has already deleted records before offset {first}")
        if until < first:
            losses.append(f"partition {tp} was truncated: it ended at offset {first} and now ends at {until}")
        else:
            ranges.append(OffsetRange(*tp, first, until))
    losses += [f"partition {tp} no longer exists" for tp in sorted(start.offsets.keys() - end.offsets.keys())]
    return ranges, losses
