"""A stream's offsets as Spark stores them, and the ranges between two of them. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...types import TopicPartition
from .ranges import OffsetRange

_log = logging.getLogger("aiokafka_lead.spark")
_ID, _BEGAN, _INITIAL = "@id", "@began", "@initial"
"""Prefixes that no topic name can have. Neither "@" nor the separator "/" is allowed in names of topics."""


class DataLossError(RuntimeError):
    """Records that the query should have read are gone. The option failOnDataLoss=false continues without them."""

    def __init__(self, losses: Iterable[str]) -> None:
        super().__init__("; ".join(losses) + " (failOnDataLoss=false goes on without)")


class CheckpointError(RuntimeError):
    """The checkpoint lacks an existing partition, because an earlier version stored the result of a single answer."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        super().__init__(
            f"the micro-batch that is to be repeated was planned while {', '.join(map(str, sorted(partitions)))} could "
            "not be seen, by an earlier version of this package or by another connector. Nothing is lost. In the "
            "checkpoint's folder 'offsets', delete the file with the highest number, of which the folder 'commits' has "
            "none, and start the query again"
        )


def recreation(topic: str) -> str:
    """Return the description of this loss."""
    return f"topic {topic} was deleted and created again, or is in another cluster: what was not read before is lost"


def report(losses: Sequence[str], *, fail: bool) -> None:
    """Raise `DataLossError` for losses, or only log them."""
    if losses and fail:
        raise DataLossError(losses)
    for loss in losses:
        _log.warning("%s: going on without (failOnDataLoss=false)", loss)


@dataclass(frozen=True)
class Progress:
    """The next offset of each partition, and the ids of the topics.

    The format is the same as in Spark's connector, so either continues from the other's checkpoints. Additional data of
    this source is in the names of topics without partitions, which the connector ignores.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    began: Mapping[TopicPartition, int] | None = None
    """Start of the first micro-batch. Only that micro-batch's end has it: Spark stores no other offset with it."""
    initial: bool = False
    """True for the start of a query without a checkpoint, which Spark never stores."""

    def to_json(self) -> dict[str, dict[str, int]]:
        """Return the data in a fixed order, because Spark compares offsets as text."""
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
        """Read the output of `to_json` or of Spark's connector."""
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
        """Return the topics that were deleted and recreated in between."""
        return {name for name, found in self.topic_ids.items() if later.topic_ids.get(name, found) != found}

    def known_to(self, later: Progress) -> dict[TopicPartition, int]:
        """Return the offsets that are still valid in ``later``, without recreated topics."""
        recreated = self.recreated(later)
        return {tp: offset for tp, offset in self.offsets.items() if tp.topic not in recreated}

    def unknown_in(self, later: Progress) -> set[TopicPartition]:
        """Return the partitions of ``later`` that have no valid offset here."""
        return later.offsets.keys() - self.known_to(later).keys()

    def lacking_in(self, later: Progress) -> Progress | None:
        """Return the part that ``later`` lacks, except for recreated topics; None if it lacks no partition."""
        known = self.known_to(later)
        lacking = {tp: known[tp] for tp in known.keys() - later.offsets.keys()}
        return Progress(lacking, self.topic_ids) if lacking else None

    def without(self, topics: set[str]) -> Progress:
        """Return the progress without these topics."""
        offsets = {tp: offset for tp, offset in self.offsets.items() if tp.topic not in topics}
        return Progress(offsets, {name: found for name, found in self.topic_ids.items() if name not in topics})

    def at_most(self, end: Progress) -> Progress:
        """Return this progress restricted to the partitions of ``end``, with each offset capped at the offset there."""
        offsets = {tp: min(offset, end.offsets[tp]) for tp, offset in self.offsets.items() if tp in end.offsets}
        return Progress(offsets, self.topic_ids)


def between(
    start: Progress, end: Progress, earliest: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[str]]:
    """Return the ranges from ``start`` to ``end``, and descriptions of the losses in between.

    ``earliest`` has the first offsets of partitions that ``start`` lacks, or whose topic has been recreated.
    """
    recreated = start.recreated(end)
    losses = [recreation(topic) for topic in sorted(recreated)]
    starts = start.known_to(end)
    ranges: list[OffsetRange] = []
    for tp, until in sorted(end.offsets.items()):
        known = starts.get(tp)
        first = earliest.get(tp) if known is None else known
        if first is None:
            losses.append(f"partition {tp} is new, but gone already")
            continue
        if known is None and first > 0 and tp.topic not in recreated:
            losses.append(f"partition {tp} is new, but begins with offset {first}: retention came first")
        if until < first:
            losses.append(f"partition {tp} ended at offset {first} and now ends at {until}: its log was cut")
        else:
            ranges.append(OffsetRange(*tp, first, until))
    losses += [f"partition {tp} is gone" for tp in sorted(start.offsets.keys() - end.offsets.keys())]
    return ranges, losses
