"""Finds the partition whose next batch is larger than any frame may be.

Brokers send the first batch whole, however large it is. A frame that is too large is not read, so any of the requested
partitions may be the cause. They are fetched one by one until it is found; reading of all other partitions continues.
"""

from __future__ import annotations

from collections.abc import Collection, Container

from ...types import TopicPartition


class Suspects:
    """The partitions of one broker that must be fetched alone."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: dict[TopicPartition, None] = {}

    def accuse(self, asked: Collection[TopicPartition]) -> TopicPartition | None:
        """Record that the answer about these partitions was too large; return the cause, once certain.

        It is certain if the partition was fetched alone as a suspect: a single large frame may be garbage.
        """
        if len(asked) == 1 and not self._left.keys().isdisjoint(asked):
            self._left.clear()
            return next(iter(asked))
        self._left.update(dict.fromkeys(asked))
        return None

    def next(self, wanted: Container[TopicPartition]) -> TopicPartition | None:
        """Return the wanted partition to fetch alone now; None if there is none."""
        while self._left:
            tp = next(iter(self._left))
            if tp in wanted:
                return tp
            del self._left[tp]
        return None

    def cleared(self, asked: Collection[TopicPartition]) -> None:
        """Record that an answer about these partitions has been read."""
        if self._left:
            for tp in asked:
                self._left.pop(tp, None)
