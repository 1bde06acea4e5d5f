"""A stream's offsets as Spark stores them, and what lies between two of them. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...types import TopicPartition
from .ranges import OffsetRange

__all__ = ["DataLossError", "Progress", "between", "report"]

_log = logging.getLogger("aiokafka_lead.spark")
_IDS = "@topicIds"
"""No topic's name: "@" is not allowed there."""


class DataLossError(RuntimeError):
    """Records that the query should have read are gone. The option failOnDataLoss=false reads on without them."""

    def __init__(self, losses: Iterable[str]) -> None:
        super().__init__("; ".join(losses) + " (failOnDataLoss=false goes on without)")


def report(losses: Sequence[str], *, fail: bool) -> None:
    """Raise `DataLossError` for what was lost, or only say it in the log."""
    if losses and fail:
        raise DataLossError(losses)
    for loss in losses:
        _log.warning("%s: going on without (failOnDataLoss=false)", loss)


@dataclass(frozen=True)
class Progress:
    """For each partition the offset of the next record, and which topic of that name is meant.

    Written as Spark's connector does, with the topics' ids added, so that its checkpoints can be taken over.
    """

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """In a fixed order: Spark compares offsets as text."""
        found: dict[str, Any] = {}
        if self.topic_ids:
            found[_IDS] = dict(sorted(self.topic_ids.items()))
        for (topic, partition), offset in sorted(self.offsets.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Progress:
        """What `to_json` or Spark's connector wrote."""
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in found.items()
            if topic != _IDS
            for partition, offset in partitions.items()
        }
        return cls(offsets, dict(found.get(_IDS, {})))

    def recreated(self, later: Progress) -> set[str]:
        """Topics that were deleted and created again in between."""
        return {name for name, found in self.topic_ids.items() if later.topic_ids.get(name, found) != found}

    def known_to(self, later: Progress) -> dict[TopicPartition, int]:
        """The offsets that still mean something in ``later``: not those of topics that were created again."""
        recreated = self.recreated(later)
        return {tp: offset for tp, offset in self.offsets.items() if tp.topic not in recreated}

    def unknown_in(self, later: Progress) -> set[TopicPartition]:
        """Partitions of ``later`` that have no such offset."""
        return later.offsets.keys() - self.known_to(later).keys()

    def at_most(self, end: Progress) -> Progress:
        """No offset beyond ``end``, and only its partitions."""
        offsets = {tp: min(offset, end.offsets[tp]) for tp, offset in self.offsets.items() if tp in end.offsets}
        return Progress(offsets, self.topic_ids)


def between(
    start: Progress, end: Progress, earliest: Mapping[TopicPartition, int]
) -> tuple[list[OffsetRange], list[str]]:
    """The ranges from ``start`` to ``end``, and what was lost on the way, in words.

    ``earliest`` has the first offsets of partitions that ``start`` lacks, or whose topic is another one by now.
    """
    recreated = start.recreated(end)
    losses = [
        f"topic {topic} was deleted and created again, what was not read of the old one is lost"
        for topic in sorted(recreated)
    ]
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
