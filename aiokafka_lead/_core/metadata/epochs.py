"""Decides between two views of a partition.

A partition's leaders are numbered by the leader epoch, within one topic id. Brokers hear of a move at different times,
so that some answers are older than the client's view; the epoch shows that. Three memories are kept in addition to the
epochs:

- a *pin*: a leader that only a hint has named so far. Its address stays known, and an answer at the same epoch without
  any leader does not undo it, until Metadata has reached that epoch. A useless address is given up earlier.
- a *suspect*: a partition whose answers have been older for some time. Brokers may have lost the newer epoch for good
  (an unclean recovery), so after enough answers and enough time the old epoch is accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .metrics import MetadataCounters
from .types import NO_EPOCH, NO_LEADER, Broker, PartitionMetadata

REWIND_ANSWERS = 10
"""Number of consecutive answers older than the known one after which an older epoch is believed."""

REWIND_AFTER_S = 5.0
"""Minimum age of the first of those answers: a single lagging broker may answer many times in a moment."""


class _Suspect:
    """Answers about one partition that were older than the known one, and came after the last that was not."""

    __slots__ = ("answers", "epoch", "since")

    def __init__(self, epoch: int, since: float) -> None:
        self.epoch = epoch
        self.since = since
        self.answers = 0


class _Memory:
    """The memory of a topic's partitions, by partition."""

    __slots__ = ("pins", "suspects")

    def __init__(self) -> None:
        self.pins: dict[int, tuple[int, Broker | None]] = {}
        """The hinted epoch and its leader's address; None if that was useless."""
        self.suspects: dict[int, _Suspect] = {}


class LeaderEpochs:
    """Judges answers about partitions; owns the pins and suspects of all topics."""

    def __init__(self, counters: MetadataCounters) -> None:
        self._counters = counters
        self._topics: dict[str, _Memory] = {}
        """Only topics that have a pin or a suspect."""

    def watched(self, topic: str) -> Collection[int]:
        """Return the topic's partitions with a pinned hint or a suspect: even an answer without news changes those."""
        memory = self._topics.get(topic)
        return () if memory is None else memory.pins.keys() | memory.suspects.keys()

    def pinned_brokers(self) -> Iterator[Broker]:
        """Yield leaders of hints that Metadata has not confirmed; of two with the same node, the later comes last."""
        for memory in self._topics.values():
            for _, broker in memory.pins.values():
                if broker is not None:
                    yield broker

    def pin(self, topic: str, partition: int, epoch: int, leader: Broker) -> None:
        """Remember an accepted hint; this clears earlier suspicions."""
        memory = self._topics.setdefault(topic, _Memory())
        memory.suspects.pop(partition, None)
        memory.pins.pop(partition, None)
        memory.pins[partition] = (epoch, leader)

    def unpin_address(self, node_id: int) -> None:
        """Forget the hinted addresses of a node; the hinted epochs stay."""
        for memory in self._topics.values():
            for partition, (epoch, broker) in memory.pins.items():
                if broker is not None and broker.node_id == node_id:
                    memory.pins[partition] = (epoch, None)

    def forget(self, topic: str) -> None:
        """Drop the memory of a topic that is deleted, or replaced under the same name."""
        self._topics.pop(topic, None)

    def forget_all(self) -> None:
        """Drop every memory, in another cluster."""
        self._topics.clear()

    def unpin_all(self) -> None:
        """Drop the hinted addresses, for a bootstrap; their epochs stay."""
        for topic, memory in list(self._topics.items()):
            memory.pins.clear()
            self._drop_if_empty(topic, memory)

    def choose(self, known: PartitionMetadata, answer: PartitionMetadata, now: float) -> PartitionMetadata:
        """Return ``answer`` if it is at least as new as ``known``, else ``known`` itself."""
        if answer.leader_epoch == NO_EPOCH and known.leader_epoch != NO_EPOCH:
            # No information about the epoch. The same leader neither confirms nor denies; no leader is the answer of a
            # broker that has not caught up; another leader contradicts.
            if answer.leader_id in (known.leader_id, NO_LEADER):
                return known
            return self._older(known, answer, now)
        if answer.leader_epoch < known.leader_epoch:
            return self._older(known, answer, now)
        return self._as_new(known, answer)

    def _as_new(self, known: PartitionMetadata, answer: PartitionMetadata) -> PartitionMetadata:
        memory = self._topics.get(answer.topic)
        if memory is None:
            return answer
        memory.suspects.pop(answer.partition, None)
        pin = memory.pins.get(answer.partition)
        if pin is not None:
            if pin[0] == answer.leader_epoch and answer.leader_id != known.leader_id:
                if answer.leader_id == NO_LEADER:
                    # That broker knows the epoch but not (yet) the node: the hint knows more.
                    return known
                self._counters.disagreements += 1
            del memory.pins[answer.partition]
            self._counters.hints_confirmed += 1
        self._drop_if_empty(answer.topic, memory)
        return answer

    def _older(self, known: PartitionMetadata, answer: PartitionMetadata, now: float) -> PartitionMetadata:
        self._counters.stale_partitions += 1
        memory = self._topics.setdefault(answer.topic, _Memory())
        suspect = memory.suspects.get(answer.partition)
        if suspect is None or answer.leader_epoch < suspect.epoch:
            # Epochs of a recovered partition increase as well: one that falls again is just another lagging broker.
            suspect = memory.suspects[answer.partition] = _Suspect(answer.leader_epoch, now)
        suspect.epoch = answer.leader_epoch
        suspect.answers += 1
        if suspect.answers < REWIND_ANSWERS or now - suspect.since < REWIND_AFTER_S:
            return known
        self._counters.rewinds += 1
        del memory.suspects[answer.partition]
        memory.pins.pop(answer.partition, None)
        self._drop_if_empty(answer.topic, memory)
        return answer

    def _drop_if_empty(self, topic: str, memory: _Memory) -> None:
        if not memory.pins and not memory.suspects:
            del self._topics[topic]
