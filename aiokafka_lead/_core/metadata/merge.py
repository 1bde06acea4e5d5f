"""Merges answers about a topic into the client's view of it."""

from __future__ import annotations

from operator import attrgetter, ge
from typing import TypeAlias
from uuid import UUID

from ...errors import UnknownTopicOrPartitionError
from .answer import LEADER_NOT_AVAILABLE, missing_partition
from .epochs import LeaderEpochs
from .types import NO_EPOCH, NO_TOPIC_ID, PartitionMetadata, TopicMetadata

UNKNOWN_TOPIC_OR_PARTITION = UnknownTopicOrPartitionError.code

MISSING_ANSWERS = 3
"""Number of consecutive answers without a known topic before it counts as deleted."""

RETIRED_FOR_S = 60.0
"""Lagging brokers may answer about a topic's former incarnation for this long after its successor was seen."""


MergedTopic: TypeAlias = tuple[TopicMetadata, bool]
"""A merged topic, and True if asking again is pointless."""

_leader_id = attrgetter("leader_id")
_leader_epoch = attrgetter("leader_epoch")


class TopicMerger:
    """Merges answers about topics; remembers what distinguishes deleted and recreated topics."""

    def __init__(self, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._missing: dict[str, int] = {}
        """Number of consecutive answers without a topic that is known here."""
        self._retired: dict[str, tuple[UUID, float]] = {}
        """Former topic id by name, and the time until which answers about it are considered late."""

    def forget(self, name: str) -> None:
        """Drop the memory of an unused topic."""
        self._missing.pop(name, None)
        self._retired.pop(name, None)
        self._epochs.forget(name)

    def forget_all(self) -> None:
        """Drop every memory, in another cluster."""
        self._missing.clear()
        self._retired.clear()
        self._epochs.forget_all()

    def missing(self, known: TopicMetadata) -> MergedTopic:
        """Merge an answer without a known topic: believed after several."""
        if not known.partitions:
            return _with_error(known, UNKNOWN_TOPIC_OR_PARTITION, complete=True)
        answers = self._missing[known.name] = self._missing.get(known.name, 0) + 1
        if answers < MISSING_ANSWERS:
            return _with_error(known, UNKNOWN_TOPIC_OR_PARTITION, complete=False)
        self.forget(known.name)
        return TopicMetadata(known.name, error_code=UNKNOWN_TOPIC_OR_PARTITION), True

    def is_plain(self, known: TopicMetadata | None, answered: TopicMetadata) -> bool:
        """Return True if merging the answer leaves the memory here unchanged, however often it is done."""
        name = answered.name
        if answered.error_code or name in self._missing or self._epochs.watched(name):
            return False
        if known is None:
            return name not in self._retired
        return known is answered or (
            (answered.topic_id is known.topic_id or answered.topic_id == known.topic_id)
            and len(answered.partitions) == len(known.partitions)
            and all(map(ge, map(_leader_epoch, answered.partitions), map(_leader_epoch, known.partitions)))
        )

    def merge(
        self, known: TopicMetadata | None, answered: TopicMetadata, *, nodes: frozenset[int], now: float
    ) -> MergedTopic:
        """Merge an answer about a topic, and return the result.

        ``nodes`` are the brokers with known addresses; with a leader elsewhere the topic is not complete.
        """
        name = answered.name
        if (
            (known is answered or (known is None and name not in self._retired))
            and not answered.error_code
            and not self._epochs.watched(name)
        ):
            # By far the most frequent case with thousands of topics: all new, or unchanged.
            return answered, _all_led(answered.partitions, nodes)
        known = known or TopicMetadata(name)
        if answered.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return self.missing(known)
        if answered.error_code:
            return _with_error(known, answered.error_code, complete=answered.error_code != LEADER_NOT_AVAILABLE)
        self._missing.pop(name, None)
        topic_id = answered.topic_id
        before = known.partitions
        # Identity first: ids compare slowly, and there are thousands.
        if topic_id is NO_TOPIC_ID:
            topic_id = known.topic_id
        elif topic_id is not known.topic_id and topic_id != known.topic_id:
            retired_id, until = self._retired.get(name, (NO_TOPIC_ID, now))
            if topic_id == retired_id and now < until:
                return known, False
            if known.topic_id is not NO_TOPIC_ID:
                # Another topic under the same name: its epochs start over.
                self._retired[name] = (known.topic_id, now + RETIRED_FOR_S)
                self._epochs.forget(name)
                before = ()
        partitions, complete = self._merge_partitions(name, before, answered.partitions, nodes, now)
        if (
            partitions is known.partitions
            and (topic_id is known.topic_id or topic_id == known.topic_id)
            and answered.is_internal == known.is_internal
            and not known.error_code
        ):
            return known, complete
        if partitions is answered.partitions and topic_id is answered.topic_id:
            return answered, complete
        return TopicMetadata(name, topic_id, answered.is_internal, partitions), complete

    def _merge_partitions(
        self,
        name: str,
        before: tuple[PartitionMetadata, ...],
        answered: tuple[PartitionMetadata, ...],
        nodes: frozenset[int],
        now: float,
    ) -> tuple[tuple[PartitionMetadata, ...], bool]:
        """Return the merged partitions, and True if all have a leader with a known address.

        They are ``before`` itself if unchanged, and ``answered`` itself if all is new. An answer with fewer partitions
        than before is old, because their number never decreases.
        """
        watched = self._epochs.watched(name)
        if not watched and (not before or answered == before):
            return before or answered, _all_led(answered, nodes)
        choose = self._epochs.choose
        size = len(before)
        complete = len(answered) >= size
        changed, overruled = len(answered) > size, not complete
        merged = []
        for index, new in enumerate(answered):
            chosen = new
            if index < size:
                old = before[index]
                if new == old:
                    chosen = old
                    if index in watched:
                        choose(old, old, now)  # confirms a hint, or ends a suspicion
                elif new.leader_epoch == NO_EPOCH and new == missing_partition(name, index):
                    chosen = old
                    complete = False
                elif new.leader_epoch < old.leader_epoch or index in watched:
                    chosen = choose(old, new, now)
                    if chosen is old:
                        complete = complete and new.leader_epoch == NO_EPOCH and new.leader_id == old.leader_id
                if chosen is old:
                    overruled = True
                else:
                    changed = True
            merged.append(chosen)
            if chosen.leader_id not in nodes:
                complete = False
        if not changed:
            return before, complete
        return (tuple(merged) + before[len(answered) :] if overruled else answered), complete


def _all_led(partitions: tuple[PartitionMetadata, ...], nodes: frozenset[int]) -> bool:
    """Return True if each has a leader with a known address."""
    return nodes.issuperset(map(_leader_id, partitions))


def _with_error(known: TopicMetadata, error_code: int, *, complete: bool) -> MergedTopic:
    if known.error_code == error_code:
        return known, complete
    return TopicMetadata(known.name, known.topic_id, known.is_internal, known.partitions, error_code), complete
