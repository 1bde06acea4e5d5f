"""Decides which data a stream's driver considers lost. Pure: time is an argument.

A lagging broker, a briefly withdrawn ACL, a newly elected leader: each may say that a partition does not exist, or is
shorter than before. So a partition keeps its offset until all answers have said the same for a while. Only then is it
lost, and that is reported before Spark stores anything: a checkpoint never lacks a known partition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from ...types import TopicPartition
from .progress import Progress

__all__ = ["Doubts", "Settled"]

ANSWERS = 3
"""Minimum number of answers that confirm a loss, however long it has lasted."""


class Settled:
    """The certain ends of partitions."""

    def __init__(self, ends: Progress, losses: list[str], in_doubt: Collection[TopicPartition]) -> None:
        self.ends = ends
        """Contains every known partition, unless it is no longer read or its topic was recreated."""
        self.losses = losses
        """New losses since the last time, in words."""
        self.in_doubt = in_doubt
        """Partitions that keep their offsets until it is certain if they are lost."""


class Doubts:
    """Counts answers in which a known partition is missing or shorter, and keeps the time of the first."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._doubted: dict[TopicPartition, tuple[float, int]] = {}
        """Time of each partition's first absence, and the number of answers without it."""
        self.gone: set[TopicPartition] = set()
        """Partitions whose loss was reported; their offsets are kept, because they might come back."""

    def settle(
        self,
        known: Progress,
        found: Progress,
        now: float,
        *,
        unread: Collection[TopicPartition] = (),
        refusals: Mapping[str, object] = MappingProxyType({}),
    ) -> Settled:
        """Compare the found ends with the known ones.

        ``now`` is in monotonic seconds. ``unread`` are no longer selected; ``refusals`` has brokers' errors about
        missing topics. Another topic id in ``found`` must already be confirmed.
        """
        recreated = known.recreated(found)
        losses = [
            f"topic {topic} was deleted and created again, what was not read of the old one is lost"
            for topic in sorted(recreated)
        ]
        offsets, in_doubt = dict(found.offsets), set()
        for tp, offset in sorted(known.offsets.items()):
            end = found.offsets.get(tp)
            if tp.topic in recreated or (end is not None and end >= offset):
                self._forget(tp)
            elif tp in unread:
                losses.append(f"partition {tp} is not read any more, by the options")
            elif tp in self.gone:
                offsets[tp] = offset
            elif not self._confirmed(tp, now):
                offsets[tp] = offset
                in_doubt.add(tp)
            else:
                self._forget(tp)
                if end is None:
                    why = refusals.get(tp.topic, "no broker knows it")
                    losses.append(f"partition {tp} is gone, for {self._patience_s:g} s now: {why}")
                    offsets[tp] = offset
                    self.gone.add(tp)
                else:
                    losses.append(f"partition {tp} ended at offset {offset} and now ends at {end}: its log was cut")
        ids = {**known.topic_ids, **found.topic_ids}
        topics = {tp.topic for tp in offsets}
        ends = replace(found, offsets=offsets, topic_ids={name: ids[name] for name in sorted(topics & ids.keys())})
        return Settled(ends, losses, in_doubt)

    def _confirmed(self, tp: TopicPartition, now: float) -> bool:
        since, answers = self._doubted.get(tp, (now, 0))
        self._doubted[tp] = since, answers + 1
        return answers + 1 >= ANSWERS and now - since >= self._patience_s

    def _forget(self, tp: TopicPartition) -> None:
        self._doubted.pop(tp, None)
        self.gone.discard(tp)
