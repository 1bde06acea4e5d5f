"""Finds the partition whose next batch is larger than the largest frame that the client accepts.

A broker sends the first batch whole, however large it is. The client does not read a frame that is too large, so any of
the requested partitions may be the cause. The client fetches them one by one until it has found the partition, and
continues to read all other partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Container

from ...types import TopicPartition


class Suspects:
    """The partitions of one broker that must be fetched one by one."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: dict[TopicPartition, None] = {}

    def accuse(self, asked: Collection[TopicPartition]) -> TopicPartition | None:
        """Record that the response for these partitions was too large, and return the cause if it is certain.

        The cause is certain if the partition was fetched alone because of an earlier large response. Otherwise, returns
        None, and `next` returns the partitions to fetch alone. A single large response proves nothing, because its
        length may be garbage.
        """
        if len(asked) == 1 and not self._left.keys().isdisjoint(asked):
            self._left.clear()
            return next(iter(asked))
        self._left.update(dict.fromkeys(asked))
        return None

    def next(self, wanted: Container[TopicPartition]) -> TopicPartition | None:
        """Return the wanted partition that must be fetched alone now, or None."""
        while self._left:
            tp = next(iter(self._left))
            if tp in wanted:
                return tp
            del self._left[tp]
        return None

    def cleared(self, asked: Collection[TopicPartition]) -> None:
        """Record that a response for these partitions was read, so they are not the cause."""
        if self._left:
            for tp in asked:
                self._left.pop(tp, None)
