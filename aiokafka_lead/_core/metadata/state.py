"""The client's view of its cluster, and the rules by which answers and leader hints change it.

`MetadataState` is a plain object without I/O. Whatever arrives is merged into the view: `ClusterSnapshot` after
`ClusterSnapshot`, each immutable, parts that did not change shared. `LeaderEpochs` decides which view of a partition is
the newer one, `TopicMerger` does so for topics.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias
from uuid import UUID

from ...errors import ClusterIdMismatchError, KafkaConnectionError, raise_for_code
from .answer import ClusterAnswer
from .epochs import LeaderEpochs
from .merge import MergedTopic, TopicMerger
from .metrics import HintOutcome, MetadataCounters, RebootstrapCause
from .types import (
    HINT_ERRORS,
    NO_TOPIC_ID,
    Broker,
    ClusterSnapshot,
    LeaderHint,
    PartitionMetadata,
    TopicMetadata,
)

__all__ = ["Applied", "MetadataState"]

HintPolicy = Literal["trust", "known_nodes", "off"]
ClusterIdPolicy = Literal["fail", "warn", "adopt"]


TOPICS_A_STEP = 64
"""So many topics are merged in one step."""

MergedAhead: TypeAlias = Mapping[str, tuple[TopicMetadata | None, MergedTopic]]
"""By name, what was known of a topic, and what is to be known."""


class Applied(NamedTuple):
    """What an answer did to the view."""

    changed: bool
    """It brought news: something about topics or brokers, or that a hint was right (or wrong)."""
    complete: bool
    """Every partition has a leader at a known address and nothing was older than what is known already."""
    other_cluster: str | None = None
    """The id of the former cluster, when this answer led to another one."""


class MetadataState:
    """Owns the snapshot. Invariant: a partition's epoch never falls within one topic id, but by an accepted rewind."""

    def __init__(
        self,
        bootstrap_servers: Iterable[tuple[str, int]],
        *,
        leader_hint_policy: HintPolicy = "trust",
        cluster_id_mismatch: ClusterIdPolicy = "fail",
    ) -> None:
        self.bootstrap_brokers: Mapping[int, Broker] = {
            -number: Broker(-number, host, port) for number, (host, port) in enumerate(bootstrap_servers, 1)
        }
        """The bootstrap servers as nodes -1, -2, ..."""
        self.counters = MetadataCounters()
        self.snapshot = ClusterSnapshot(brokers=self.bootstrap_brokers)
        self._hint_policy = leader_hint_policy
        self._cluster_id_mismatch = cluster_id_mismatch
        self._epochs = LeaderEpochs(self.counters)
        self._merger = TopicMerger(self._epochs)
        self._answered: Mapping[int, Broker] = {}
        """The brokers of the last answer, without those that only hints have named."""

    @property
    def bootstrapping(self) -> bool:
        """Whether only the bootstrap servers are known."""
        return all(node_id < 0 for node_id in self.snapshot.brokers)

    # --- metadata answers --------------------------------------------------------------------------------------------

    def merge_ahead(self, answer: ClusterAnswer, now: float) -> Generator[None, None, MergedAhead]:
        """In small steps, most of what `apply` would have to do at once; nothing changes.

        Thousands of topics take longer to merge than an event loop may be held up.
        """
        ahead: dict[str, tuple[TopicMetadata | None, MergedTopic]] = {}
        nodes = self._nodes_with(answer.brokers)
        for number, answered in enumerate(answer.topics):
            if number % TOPICS_A_STEP == 0:
                yield
            known = self.snapshot.topics.get(answered.name)
            if self._merger.is_plain(known, answered):
                ahead[answered.name] = known, self._merger.merge(known, answered, nodes=nodes, now=now)
        return ahead

    def apply(
        self, answer: ClusterAnswer, now: float, wanted: Container[str] | None, ahead: MergedAhead | None = None
    ) -> Applied:
        """Merge an answer to Metadata.

        ``wanted`` are the topics in use, or None if every topic was asked for; others in the answer are left out. Of
        what was merged ``ahead`` only topics of which nothing was learnt meanwhile count.
        Raises the answer's own error, `KafkaConnectionError` for an answer without brokers, and
        `ClusterIdMismatchError`; nothing has changed then.
        """
        raise_for_code(answer.error_code)
        if not answer.brokers:
            raise KafkaConnectionError("the cluster's metadata names no broker yet")
        former = self._check_cluster(answer.cluster_id)
        brokers = answer.brokers
        confirmed = self.counters.hints_confirmed
        topics = self.snapshot.topics.copy()
        changed = new_ids = former is not None
        complete = former is None
        nodes = self._nodes_with(brokers)
        ahead = ahead or {}
        answered_names = set()
        for answered in answer.topics:
            name = answered.name
            if wanted is not None and name not in wanted:
                continue
            answered_names.add(name)
            known = topics.get(name)
            merged = ahead.get(name)
            if merged is not None and merged[0] is known:
                topic, topic_complete = merged[1]
            else:
                topic, topic_complete = self._merger.merge(known, answered, nodes=nodes, now=now)
            complete = complete and topic_complete
            if topic is not known:
                topics[name] = topic
                changed = True
                new_ids = new_ids or known is None or known.topic_id is not topic.topic_id
        if wanted is None:
            for name in topics.keys() - answered_names:
                changed = new_ids = True
                left, topic_complete = self._merger.missing(topics[name])
                complete = complete and topic_complete
                if left.partitions:
                    topics[name] = left
                else:
                    del topics[name]
        self._answered = brokers
        self.counters.refreshes += 1
        known_brokers = self.snapshot.brokers
        self._publish(
            topics if changed else self.snapshot.topics,
            self._with_pinned(brokers),
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            new_ids=new_ids,
        )
        changed = changed or self.snapshot.brokers is not known_brokers or self.counters.hints_confirmed > confirmed
        return Applied(changed, complete, former)

    def forget(self, names: Iterable[str]) -> None:
        """Drop topics that nobody uses any more, with all that is remembered of them."""
        topics = self.snapshot.topics.copy()
        for name in names:
            self._merger.forget(name)
            topics.pop(name, None)
        if len(topics) < len(self.snapshot.topics):
            self._publish(topics, self._with_pinned(self._answered or self.snapshot.brokers), new_ids=True)

    def unreachable(self, node_id: int) -> None:
        """A node cannot be connected to: where only a hint gave its address, the one that Metadata gave is as good.

        Else a single wrong hint could cut the client off from a broker, and from the only one that it knows for good.
        """
        answered, known = self._answered.get(node_id), self.snapshot.brokers.get(node_id)
        if answered is not None and known is not None and (answered.host, answered.port) != (known.host, known.port):
            self._epochs.unpin_address(node_id)
            self._publish(self.snapshot.topics, {**self.snapshot.brokers, node_id: answered})

    def rebootstrap(self, cause: RebootstrapCause) -> None:
        """Know no broker but the bootstrap servers; topics and epochs stay (KIP-899)."""
        self.counters.count(cause)
        self._epochs.unpin_all()
        self._answered = {}
        self._publish(self.snapshot.topics, self.bootstrap_brokers, controller_id=-1)

    def _check_cluster(self, cluster_id: str | None) -> str | None:
        """The former cluster's id if this is another cluster and may be; its topics are leaderless from here on."""
        former = self.snapshot.cluster_id
        if former is None or cluster_id is None or cluster_id == former:
            return None
        if self._cluster_id_mismatch == "fail":
            raise ClusterIdMismatchError(
                f"this is cluster {cluster_id}, but the client was connected to cluster {former}: the addresses now "
                f"belong to another cluster (cluster_id_mismatch says what to do about it)"
            )
        # Epochs and ids mean nothing in another cluster; the numbers of partitions are kept, so that nobody who waits
        # to send is held up before the first answer about each topic.
        self._merger.forget_all()
        topics = {
            name: TopicMetadata(
                name,
                NO_TOPIC_ID,
                topic.is_internal,
                tuple(PartitionMetadata(name, p.partition) for p in topic.partitions),
            )
            for name, topic in self.snapshot.topics.items()
        }
        self._publish(topics, self.snapshot.brokers, cluster_id=cluster_id, new_ids=True)
        return former

    # --- leader hints ------------------------------------------------------------------------------------------------

    def apply_hints(self, hints: Sequence[LeaderHint]) -> list[bool]:
        """Merge leader hints; which ones were accepted, in their order. Never raises."""
        moved: dict[tuple[str, int], PartitionMetadata] = {}
        leaders: dict[int, Broker] = {}
        outcomes = [self._apply_hint(hint, moved, leaders) for hint in hints]
        self.counters.hints_received += len(hints)
        for outcome in outcomes:
            self.counters.count(outcome)
        if moved:
            brokers: Mapping[int, Broker] = self.snapshot.brokers
            if any(brokers.get(node_id) != leader for node_id, leader in leaders.items()):
                brokers = {**brokers, **leaders}
            self.snapshot = self.snapshot.with_moved(moved, brokers)
        return [outcome is HintOutcome.ACCEPTED for outcome in outcomes]

    def _apply_hint(
        self, hint: LeaderHint, moved: dict[tuple[str, int], PartitionMetadata], leaders: dict[int, Broker]
    ) -> HintOutcome:
        """Judge a hint; an accepted one is added to what moved."""
        if self._hint_policy == "off":
            return HintOutcome.POLICY
        if hint.error_code not in HINT_ERRORS or hint.leader_id < 0 or hint.leader_epoch < 0:
            return HintOutcome.INCOMPLETE
        where = (hint.topic, hint.partition)
        known = moved.get(where) or self.snapshot.partition(*where)
        if known is None or self.snapshot.topic_id(hint.topic) != hint.topic_id:
            return HintOutcome.UNKNOWN_PARTITION
        if hint.leader_epoch <= known.leader_epoch:
            return HintOutcome.STALE
        leader = leaders.get(hint.leader_id) or self.snapshot.brokers.get(hint.leader_id)
        if self._hint_policy == "known_nodes":
            if leader is None:
                return HintOutcome.POLICY
        elif hint.endpoint is not None and _usable(hint.endpoint, hint.leader_id):
            leader = hint.endpoint
        if leader is None:
            return HintOutcome.NO_ADDRESS
        moved[where] = known._replace(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch, error_code=0)
        leaders[hint.leader_id] = leader
        self._epochs.pin(hint.topic, hint.partition, hint.leader_epoch, leader)
        return HintOutcome.ACCEPTED

    # --- the snapshot ------------------------------------------------------------------------------------------------

    def _nodes_with(self, brokers: Mapping[int, Broker]) -> frozenset[int]:
        """These brokers and those that hints have named."""
        return frozenset(brokers).union(broker.node_id for broker in self._epochs.pinned_brokers())

    def _with_pinned(self, brokers: Mapping[int, Broker]) -> Mapping[int, Broker]:
        """The brokers and those that hints have named; the former mapping itself if it is the same."""
        merged = dict(brokers)
        for broker in self._epochs.pinned_brokers():
            merged[broker.node_id] = broker
        known = self.snapshot.brokers
        return known if merged == known else merged

    def _publish(
        self,
        topics: Mapping[str, TopicMetadata],
        brokers: Mapping[int, Broker],
        *,
        cluster_id: str | None = None,
        controller_id: int | None = None,
        new_ids: bool = False,
    ) -> None:
        former = self.snapshot
        self.snapshot = ClusterSnapshot(
            former.generation + 1,
            cluster_id or former.cluster_id,
            former.controller_id if controller_id is None else controller_id,
            brokers,
            topics,
            _names_by_id(topics) if new_ids else former.topic_names,
        )


def _usable(endpoint: Broker, leader_id: int) -> bool:
    return endpoint.node_id == leader_id and bool(endpoint.host) and 0 < endpoint.port < 65536


def _names_by_id(topics: Mapping[str, TopicMetadata]) -> dict[UUID, str]:
    return {topic.topic_id: name for name, topic in topics.items() if topic.topic_id is not NO_TOPIC_ID}
