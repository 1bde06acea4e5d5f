"""How an answer about a topic is merged into what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from .epochs import LeaderEpochs
from .types import NO_EPOCH, NO_TOPIC_ID, PartitionMetadata, TopicMetadata

if TYPE_CHECKING:
    from ..._wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5

MISSING_ANSWERS = 3
"""So many answers in a row must know nothing of a topic before a topic that was there counts as deleted."""

RETIRED_FOR_S = 60.0
"""Brokers that lag may answer about a topic's former incarnation for this long after its successor was seen."""

RELIABLE_EPOCHS_FROM = 9
"""Metadata versions below this may come from brokers that answer outdated epochs (KAFKA-9212)."""


_make_partition: Callable[[tuple[object, ...]], PartitionMetadata] = partial(tuple.__new__, PartitionMetadata)
"""`PartitionMetadata._make` without its checks, at a third of its cost."""


class MergedTopic(NamedTuple):
    """A merged topic, and whether asking again would tell no more."""

    topic: TopicMetadata
    settled: bool


class TopicMerger:
    """Merges answers about topics; owns what must be remembered to tell deleted and recreated topics apart."""

    def __init__(self, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._missing: dict[str, int] = {}
        """Answers in a row that did not know a topic which is known here."""
        self._retired: dict[str, tuple[UUID, float]] = {}
        """By name, the topic id before the current one, and until when answers about it are taken for late ones."""

    def forget(self, name: str) -> None:
        """Drop the memory of a topic that nobody uses any more."""
        self._missing.pop(name, None)
        self._retired.pop(name, None)
        self._epochs.forget(name)

    def forget_all(self) -> None:
        """Drop every memory: this is another cluster."""
        self._missing.clear()
        self._retired.clear()
        self._epochs.forget_all()

    def missing(self, known: TopicMetadata) -> MergedTopic:
        """The cluster knows nothing of a topic that was there: believed when it has said so several times."""
        if not known.partitions:
            return _with_error(known, UNKNOWN_TOPIC_OR_PARTITION, settled=True)
        answers = self._missing[known.name] = self._missing.get(known.name, 0) + 1
        if answers < MISSING_ANSWERS:
            return _with_error(known, UNKNOWN_TOPIC_OR_PARTITION, settled=False)
        self.forget(known.name)
        return MergedTopic(TopicMetadata(known.name, error_code=UNKNOWN_TOPIC_OR_PARTITION), True)

    def merge(
        self,
        known: TopicMetadata | None,
        answer: MetadataResponseTopic,
        *,
        version: int,
        nodes: Container[int],
        now: float,
    ) -> MergedTopic:
        """What is known of a topic after an answer about it at Metadata ``version``.

        ``nodes`` are the brokers whose addresses are known; a leader elsewhere is not settled.
        """
        name = answer.name
        assert name is not None  # topics are asked for by name, and answers without one were left out
        known = known or TopicMetadata(name)
        if answer.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return self.missing(known)
        if answer.error_code:
            return _with_error(known, answer.error_code, settled=answer.error_code != LEADER_NOT_AVAILABLE)
        self._missing.pop(name, None)
        topic_id = answer.topic_id
        partitions = known.partitions
        if topic_id == NO_TOPIC_ID:
            topic_id = known.topic_id
        elif topic_id != known.topic_id:
            retired_id, until = self._retired.get(name, (NO_TOPIC_ID, now))
            if topic_id == retired_id and now < until:
                return MergedTopic(known, False)
            if known.topic_id != NO_TOPIC_ID:
                # Another topic under the same name: its epochs begin anew.
                self._retired[name] = (known.topic_id, now + RETIRED_FOR_S)
                self._epochs.forget(name)
                partitions = ()
        merged, settled = self._merge_partitions(
            name, partitions, answer.partitions, version >= RELIABLE_EPOCHS_FROM, nodes, now
        )
        if (
            merged is known.partitions
            and topic_id == known.topic_id
            and answer.is_internal == known.is_internal
            and not known.error_code
        ):
            return MergedTopic(known, settled)
        return MergedTopic(TopicMetadata(name, topic_id, answer.is_internal, merged), settled)

    def _merge_partitions(
        self,
        name: str,
        known: tuple[PartitionMetadata, ...],
        answers: list[MetadataResponsePartition],
        reliable: bool,
        nodes: Container[int],
        now: float,
    ) -> tuple[tuple[PartitionMetadata, ...], bool]:
        """The merged partitions (``known`` itself where nothing changed), and whether all have a leader to reach.

        Runs for every partition of every answer, thousands at a time: hence one tuple per partition and nothing else
        where nothing changed. An answer with fewer partitions than known is old, as their number never shrinks.
        """
        slots: list[PartitionMetadata | None] = [*known, *[None] * (len(answers) - len(known))]
        size = len(slots)
        choose = self._epochs.choose
        watched = self._epochs.watched(name)
        settled = len(answers) == size
        changed = False
        for entry in answers:
            index = entry.partition_index
            if not 0 <= index < size:
                settled = False
                continue
            old = slots[index]
            epoch = entry.leader_epoch if reliable else NO_EPOCH
            new = (
                name,
                index,
                entry.leader_id,
                epoch,
                tuple(entry.replica_nodes),
                tuple(entry.isr_nodes),
                tuple(entry.offline_replicas),
                entry.error_code,
            )
            if old is not None and old == new:
                chosen = old
                if index in watched:
                    choose(old, old, now)  # confirms a hint, or ends a suspicion
            else:
                chosen = _make_partition(new)
                if old is not None and (epoch < old.leader_epoch or index in watched):
                    chosen = choose(old, chosen, now)
                if old is not None and chosen is old:
                    settled = settled and epoch == NO_EPOCH and entry.leader_id == old.leader_id
                else:
                    slots[index] = chosen
                    changed = True
            if chosen.leader_id not in nodes:
                settled = False
        if not changed:
            return known, settled
        merged = tuple(
            PartitionMetadata(name, index, error_code=LEADER_NOT_AVAILABLE) if slot is None else slot
            for index, slot in enumerate(slots)
        )
        return merged, settled and None not in slots


def _with_error(known: TopicMetadata, error_code: int, *, settled: bool) -> MergedTopic:
    if known.error_code == error_code:
        return MergedTopic(known, settled)
    return MergedTopic(
        TopicMetadata(known.name, known.topic_id, known.is_internal, known.partitions, error_code), settled
    )
