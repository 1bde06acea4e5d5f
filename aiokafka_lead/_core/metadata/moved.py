"""What listeners get beside a new snapshot: where it differs from the one that they got before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from .types import ClusterSnapshot

__all__ = ["MetadataListener", "Moved"]


class Moved:
    """The difference between two snapshots.

    It is looked for when it is asked for, and in the topics that are asked about: there may be thousands of others.
    """

    __slots__ = ("after", "before", "partitions")

    def __init__(
        self, before: ClusterSnapshot, after: ClusterSnapshot, partitions: Collection[tuple[str, int]] | None = None
    ) -> None:
        """``partitions``: the only ones that differ, where the caller knows."""
        self.before = before
        self.after = after
        self.partitions = after.moved_since(before) if partitions is None else partitions
        """The only partitions that may differ, by topic and number, after leader hints; None where `of` has to look."""

    @property
    def brokers(self) -> bool:
        """Whether a broker came, went, or is elsewhere."""
        before, after = self.before.brokers, self.after.brokers
        return before is not after and before != after

    def of(self, topic: str) -> Collection[int]:
        """The topic's partitions that differ: all of a topic that was made, deleted, or made anew."""
        before, after = self.before.topics.get(topic), self.after.topics.get(topic)
        if before is after:
            return ()
        if before is None or after is None or before.topic_id != after.topic_id:
            return range(max(0 if known is None else len(known.partitions) for known in (before, after)))
        return _different(before.partitions, after.partitions)


MetadataListener: TypeAlias = Callable[[ClusterSnapshot, Moved], None]
"""Called with each new snapshot, and how it differs from the one before."""


def _different(before: Sequence[object], after: Sequence[object]) -> set[int]:
    """The indices at which two topics' partitions differ."""
    differ = {index for index, (old, new) in enumerate(zip(before, after, strict=False)) if old != new}
    shorter, longer = sorted((len(before), len(after)))
    return differ.union(range(shorter, longer))
