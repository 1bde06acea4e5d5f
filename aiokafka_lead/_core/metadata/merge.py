"""Merging the topics in responses into the client's metadata: which state of a partition is newer."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import attrgetter, ge
from typing import TypeAlias
from uuid import UUID

from ...errors import UnknownTopicOrPartitionError
from .answer import LEADER_NOT_AVAILABLE, missing_partition
from .rebootstrap import MetadataCounters
from .topics import believed
from .types import NO_EPOCH, NO_LEADER, NO_TOPIC_ID, Broker, PartitionMetadata, TopicMetadata

# --- partitions -------------------------------------------------------------------------------------------------------
#
# Decides which of two states of a partition is newer.
#
# Within one topic id, the leader epoch numbers a partition's successive leaders. Brokers learn of a new leader at
# different times, so some responses are older than the client's metadata, and their lower epoch shows it. Two more
# facts are kept:
#
# - A *pin* is a leader that only a hint has named so far. Until Metadata has reached the hinted epoch, the leader's
#   address stays known, and a response at that epoch without a leader does not undo the hint. An address that does not
#   work is dropped earlier.
# - A *suspect* is a partition for which the responses have been older for some time. Brokers may have lost the newer
#   epoch permanently in an unclean recovery. After enough responses and enough time, the older epoch is accepted (a
#   *rewind*).


REWIND_ANSWERS = 10
"""Number of consecutive responses with an older epoch after which that epoch is accepted."""

REWIND_AFTER_S = 5.0
"""Minimum number of seconds since the first of these responses.

A single lagging broker may send many in quick succession.
"""


class _Suspect:
    """A series of consecutive responses about one partition that were older than the client's metadata."""

    __slots__ = ("answers", "epoch", "since")

    def __init__(self, epoch: int, since: float) -> None:
        self.epoch = epoch
        self.since = since
        self.answers = 0


class _Memory:
    """The pins and suspects of one topic, by partition number."""

    __slots__ = ("pins", "suspects")

    def __init__(self) -> None:
        self.pins: dict[int, tuple[int, Broker | None]] = {}
        """The hinted epoch, and the leader's address, which is None after it has turned out not to work."""
        self.suspects: dict[int, _Suspect] = {}


class LeaderEpochs:
    """Decides which state of a partition is newer. Owns the pins and suspects of all topics."""

    def __init__(self, counters: MetadataCounters) -> None:
        self._counters = counters
        self._topics: dict[str, _Memory] = {}
        """Only topics that have a pin or a suspect."""

    def watched(self, topic: str) -> Collection[int]:
        """Return the topic's partitions that have a pin or a suspect.

        Even a response without news may change their state.
        """
        memory = self._topics.get(topic)
        return () if memory is None else memory.pins.keys() | memory.suspects.keys()

    def pinned_brokers(self) -> Iterator[Broker]:
        """Yield the leaders of hints that Metadata has not confirmed.

        If a node has two addresses, the newer address comes last.
        """
        for memory in self._topics.values():
            for _, broker in memory.pins.values():
                if broker is not None:
                    yield broker

    def pin(self, topic: str, partition: int, epoch: int, leader: Broker) -> None:
        """Remember an accepted hint until Metadata confirms it. The partition stops being suspect."""
        memory = self._topics.setdefault(topic, _Memory())
        memory.suspects.pop(partition, None)
        memory.pins.pop(partition, None)
        memory.pins[partition] = (epoch, leader)

    def unpin_address(self, node_id: int) -> None:
        """Forget the hinted addresses of a node. The hinted epochs stay."""
        for memory in self._topics.values():
            for partition, (epoch, broker) in memory.pins.items():
                if broker is not None and broker.node_id == node_id:
                    memory.pins[partition] = (epoch, None)

    def forget(self, topic: str) -> None:
        """Drop the pins and suspects of a deleted or recreated topic."""
        self._topics.pop(topic, None)

    def forget_all(self) -> None:
        """Drop all pins and suspects, because they are meaningless in another cluster."""
        self._topics.clear()

    def unpin_all(self) -> None:
        """Drop the pins and their addresses before a rebootstrap. The hinted epochs stay in the metadata."""
        for topic, memory in list(self._topics.items()):
            memory.pins.clear()
            self._drop_if_empty(topic, memory)

    def choose(self, known: PartitionMetadata, answer: PartitionMetadata, now: float) -> PartitionMetadata:
        """Return ``answer`` if it is at least as new as ``known``, otherwise ``known``."""
        if answer.leader_epoch == NO_EPOCH and known.leader_epoch != NO_EPOCH:
            # The response has no epoch. If it names the same leader, it is no news. If it names no leader, the broker
            # has not caught up. Only another leader contradicts the known one.
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
                    # The broker knows the epoch but not yet its leader, which the hint has named.
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
            # The epochs of a recovered partition increase as well, so a further decrease comes from yet another lagging
            # broker.
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


UNKNOWN_TOPIC_OR_PARTITION = UnknownTopicOrPartitionError.code

MISSING_ANSWERS = 3
"""Number of consecutive responses that lack a known topic, after which the topic counts as deleted."""

RETIRED_FOR_S = 60.0
"""Seconds for which brokers may disagree about a topic's id before the former id is accepted again.

Usually, one of them lags, and most brokers agree sooner; see `TopicMerger`.
"""

MAJORITY = 2
"""Number by which the responses with a topic's former id must exceed the others before that id is accepted again."""


class _Contest:
    """The responses about a topic's id since one with the former id arrived."""

    __slots__ = ("former", "latest", "present", "since")

    def __init__(self, since: float) -> None:
        self.since = since
        self.latest = since
        """Time of the latest response with the former id."""
        self.former = 0
        """Number of responses with the former id."""
        self.present = 0
        """Number of responses with the present id."""


MergedTopic: TypeAlias = tuple[TopicMetadata, bool]
"""A merged topic, and True if another request would not add to it."""

_leader_id = attrgetter("leader_id")
_leader_epoch = attrgetter("leader_epoch")


class TopicMerger:
    """Merges responses about topics. Recognises topics that were deleted or recreated.

    A response with an unknown id is believed at once. But topic ids are never used again, so a response with the former
    id comes from a broker that lags, or the last change of the id did. Nothing else shows which id is older. The former
    id is therefore accepted again only if most responses contain it.
    """

    def __init__(self, epochs: LeaderEpochs) -> None:
        self._epochs = epochs
        self._missing: dict[str, int] = {}
        """Number of consecutive responses without each known topic."""
        self._retired: dict[str, UUID] = {}
        """Each topic's former id."""
        self._contests: dict[str, _Contest] = {}

    def forget(self, name: str) -> None:
        """Drop the state of a topic that is no longer used."""
        self._missing.pop(name, None)
        self._retired.pop(name, None)
        self._contests.pop(name, None)
        self._epochs.forget(name)

    def forget_all(self) -> None:
        """Drop all state, because it is meaningless in another cluster."""
        self._missing.clear()
        self._retired.clear()
        self._contests.clear()
        self._epochs.forget_all()

    def missing(self, known: TopicMetadata) -> MergedTopic:
        """Merge a response that lacks a topic of the client's metadata.

        The topic counts as deleted after `MISSING_ANSWERS` such responses in a row.
        """
        if not known.partitions:
            return _with_error(known, UNKNOWN_TOPIC_OR_PARTITION, complete=True)
        answers = self._missing[known.name] = self._missing.get(known.name, 0) + 1
        if answers < MISSING_ANSWERS:
            return _with_error(known, UNKNOWN_TOPIC_OR_PARTITION, complete=False)
        self.forget(known.name)
        return TopicMetadata(known.name, error_code=UNKNOWN_TOPIC_OR_PARTITION), True

    def is_plain(self, known: TopicMetadata | None, answered: TopicMetadata) -> bool:
        """Return True if merging this response would not change this object. The merge may then be repeated."""
        name = answered.name
        if answered.error_code or name in self._missing or name in self._contests or self._epochs.watched(name):
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
        """Merge a response about a topic. Return the topic and True if it is complete.

        ``nodes`` are the brokers with known addresses. A topic is incomplete if one of its leaders is not among them.
        """
        name = answered.name
        if (
            (known is answered or (known is None and name not in self._retired))
            and not answered.error_code
            and name not in self._contests
            and not self._epochs.watched(name)
        ):
            # By far the most frequent case with thousands of topics: the topic is new, or unchanged.
            return answered, _all_led(answered.partitions, nodes)
        known = known or TopicMetadata(name)
        if answered.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            return self.missing(known)
        if answered.error_code:
            return _with_error(known, answered.error_code, complete=answered.error_code != LEADER_NOT_AVAILABLE)
        self._missing.pop(name, None)
        topic_id = answered.topic_id
        before = known.partitions
        # Compare by identity first, because comparing UUIDs is slow and there may be thousands.
        if topic_id is NO_TOPIC_ID:
            topic_id = known.topic_id
        elif topic_id is not known.topic_id and topic_id != known.topic_id:
            if topic_id == self._retired.get(name) and not self._returns(name, now):
                return known, False
            self._contests.pop(name, None)
            if known.topic_id is not NO_TOPIC_ID:
                # A new topic of the same name. Its epochs start again.
                self._retired[name] = known.topic_id
                self._epochs.forget(name)
                before = ()
        elif name in self._contests:
            self._contests[name].present += 1
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

    def _returns(self, name: str, now: float) -> bool:
        """Count a response with the topic's former id. Return True if that id should be accepted again."""
        contest = self._contests.get(name)
        if contest is None or now - contest.latest > REWIND_AFTER_S:
            contest = self._contests[name] = _Contest(now)
        contest.latest = now
        contest.former += 1
        lasts_s = now - contest.since
        prevails = contest.former >= contest.present + MAJORITY and believed(contest.former, lasts_s)
        return prevails or lasts_s >= RETIRED_FOR_S

    def _merge_partitions(
        self,
        name: str,
        before: tuple[PartitionMetadata, ...],
        answered: tuple[PartitionMetadata, ...],
        nodes: frozenset[int],
        now: float,
    ) -> tuple[tuple[PartitionMetadata, ...], bool]:
        """Return the merged partitions, and True if all have a leader with a known address.

        Returns ``before`` itself if nothing has changed, and ``answered`` itself if everything is new. A response with
        fewer partitions than before is outdated, because the number of partitions never decreases.
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
    """Return True if each partition has a leader with a known address."""
    return nodes.issuperset(map(_leader_id, partitions))


def _with_error(known: TopicMetadata, error_code: int, *, complete: bool) -> MergedTopic:
    if known.error_code == error_code:
        return known, complete
    return TopicMetadata(known.name, known.topic_id, known.is_internal, known.partitions, error_code), complete
