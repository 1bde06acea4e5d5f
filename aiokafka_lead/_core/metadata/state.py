"""The client's metadata, and how Metadata responses and leader hints change it.

A *leader hint* is the new leader that a broker names when it refuses a request (KIP-951). `MetadataState` merges
responses and hints into a series of immutable `ClusterSnapshot` objects, which share their unchanged parts. It does no
I/O. `LeaderEpochs` decides which of two states of a partition is newer, and `TopicMerger` does the same for topics.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Generator, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias
from uuid import UUID

from ..._values import NamedTuple
from ...errors import ClusterIdMismatchError, KafkaConnectionError, raise_for_code
from .answer import ClusterAnswer
from .merge import LeaderEpochs, MergedTopic, TopicMerger
from .rebootstrap import HintOutcome, MetadataCounters, RebootstrapCause
from .types import HINT_ERRORS, NO_TOPIC_ID, Broker, ClusterSnapshot, LeaderHint, PartitionMetadata, TopicMetadata

HintPolicy = Literal["trust", "known_nodes", "off"]


TOPICS_A_STEP = 64
"""Number of topics to merge in one step."""

MergedAhead: TypeAlias = Mapping[str, tuple[TopicMetadata | None, MergedTopic]]
"""Topics merged in advance: the known and the merged metadata of each, by topic name."""


class Applied(NamedTuple):
    """The result of merging a Metadata response."""

    changed: bool
    """True if the response brought news about topics or brokers, or confirmed or disproved a leader hint."""
    complete: bool
    """True if every partition has a leader at a known address, and the response was not outdated."""
    moved: Collection[int] = ()
    """Known brokers whose address has changed."""
    other_cluster: str | None = None
    """The id of the former cluster if this response came from another cluster, otherwise None."""


class MetadataState:
    """Merges Metadata responses and leader hints into snapshots. Owns the current snapshot.

    Invariant: within one topic id, a partition's leader epoch decreases only by a *rewind* (see the module `merge`).
    """

    def __init__(
        self,
        bootstrap_servers: Iterable[tuple[str, int]],
        *,
        leader_hint_policy: HintPolicy = "trust",
    ) -> None:
        self.bootstrap_brokers: Mapping[int, Broker] = {
            -number: Broker(-number, host, port) for number, (host, port) in enumerate(bootstrap_servers, 1)
        }
        """The bootstrap servers as nodes -1, -2, ..."""
        self.counters = MetadataCounters()
        self.snapshot = ClusterSnapshot(brokers=self.bootstrap_brokers)
        self.may_change_cluster = False
        """True if a response from another cluster is accepted."""
        self._hint_policy = leader_hint_policy
        self._epochs = LeaderEpochs(self.counters)
        self._merger = TopicMerger(self._epochs)
        self._answered: Mapping[int, Broker] = {}
        """The brokers of the last response, without brokers known only from leader hints."""
        self._left: dict[int, tuple[str, int]] = {}
        """Former address of each broker that could not be reached or did not help at that address."""

    @property
    def bootstrapping(self) -> bool:
        """True if only the bootstrap servers are known."""
        return all(node_id < 0 for node_id in self.snapshot.brokers)

    def outsiders(self) -> dict[int, Broker]:
        """Return the bootstrap servers whose addresses belong to no known broker.

        These servers may lead to brokers with newer metadata.
        """
        taken = {broker.endpoint for broker in self.snapshot.brokers.values()}
        servers = self.bootstrap_brokers
        return {node_id: server for node_id, server in servers.items() if server.endpoint not in taken}

    # --- Metadata responses ------------------------------------------------------------------------------------------

    def merge_ahead(self, answer: ClusterAnswer, now: float) -> Generator[None, None, MergedAhead]:
        """Do most of the work of `apply` in small steps, without changing the snapshot.

        Merging thousands of topics at once would block the event loop for too long.
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
        self,
        answer: ClusterAnswer,
        now: float,
        wanted: Container[str] | None,
        ahead: MergedAhead | None = None,
        *,
        beside: bool = False,
        suspects: Iterable[int] = (),
    ) -> Applied:
        """Merge a Metadata response.

        - ``wanted`` are the topics in use, or None if every topic was requested. Other topics in the response are
          ignored.
        - ``ahead`` is the result of `merge_ahead`. It is used for topics that have not changed since.
        - ``beside`` is True if a bootstrap server was asked in addition to the known brokers. Because it may be one of
          these brokers under another name, its denial of a topic is not counted.
        - ``suspects`` are brokers that cannot be reached at their present address, or do not help there. If such a
          broker moves, it keeps the new address even if other brokers still report the old one.

        If it raises an error, the snapshot is unchanged. The error is the response's error, `KafkaConnectionError` for
        a response without brokers, or `ClusterIdMismatchError`.
        """
        raise_for_code(answer.error_code)
        if not answer.brokers:
            raise KafkaConnectionError("the metadata response contains no brokers yet")
        former = self._check_cluster(answer.cluster_id)
        brokers = answer.brokers
        counted = [topic for topic in answer.topics if not (beside and topic.error_code)]
        confirmed = self.counters.hints_confirmed
        topics = self.snapshot.topics.copy()
        changed = new_ids = former is not None
        complete = former is None and len(counted) == len(answer.topics)
        nodes = self._nodes_with(brokers)
        ahead = ahead or {}
        answered_names = set()
        for answered in counted:
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
                if beside:
                    complete = False
                    continue
                changed = new_ids = True
                left, topic_complete = self._merger.missing(topics[name])
                complete = complete and topic_complete
                if left.partitions:
                    topics[name] = left
                else:
                    del topics[name]
        self._answered = brokers
        self._leave_addresses(suspects)
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
        return Applied(changed, complete, _moved(known_brokers, self.snapshot.brokers), former)

    def forget(self, names: Iterable[str]) -> None:
        """Drop topics that are no longer used, with all their state."""
        topics = self.snapshot.topics.copy()
        for name in names:
            self._merger.forget(name)
            topics.pop(name, None)
        if len(topics) < len(self.snapshot.topics):
            self._publish(topics, self._with_pinned(self._answered or self.snapshot.brokers), new_ids=True)

    def unreachable(self, node_id: int) -> None:
        """Handle an unreachable node. If the last response has another address for it, switch to that address.

        Otherwise, a single wrong hint could cut the client off from a broker, perhaps the only one that it knows.
        """
        answered, known = self._answered.get(node_id), self.snapshot.brokers.get(node_id)
        self._left.pop(node_id, None)
        if answered is not None and known is not None and answered.endpoint != known.endpoint:
            self._epochs.unpin_address(node_id)
            self._publish(self.snapshot.topics, {**self.snapshot.brokers, node_id: answered})

    def rebootstrap(self, cause: RebootstrapCause) -> None:
        """Replace the brokers by the bootstrap servers. Topics and leader epochs are kept (KIP-899)."""
        self.counters.count(cause)
        self._epochs.unpin_all()
        self._answered = {}
        self._left = {}
        self._publish(self.snapshot.topics, self.bootstrap_brokers, controller_id=-1)

    def _check_cluster(self, cluster_id: str | None) -> str | None:
        """Check the cluster id. If another cluster is accepted, drop all metadata and return the former cluster's id.

        Raises `ClusterIdMismatchError` if the option ``cluster_id_mismatch`` does not allow another cluster.
        """
        former = self.snapshot.cluster_id
        if former is None or cluster_id is None or cluster_id == former:
            return None
        if not self.may_change_cluster:
            raise ClusterIdMismatchError(
                f"this is cluster {cluster_id}, but the client was connected to cluster {former}: the addresses now "
                f"belong to another cluster (see the option cluster_id_mismatch)"
            )
        # Leader epochs and topic ids are meaningless in another cluster. Partition counts are kept. Otherwise, a send
        # that needs one would wait for the first response about its topic.
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
        """Merge leader hints. Returns a list with True for each accepted hint. Never raises."""
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
        """Decide about a hint, and add the partition to ``moved`` if the hint is accepted."""
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

    # --- new snapshots -----------------------------------------------------------------------------------------------

    def _nodes_with(self, brokers: Mapping[int, Broker]) -> frozenset[int]:
        """Return the ids of these brokers and of brokers known only from hints."""
        return frozenset(brokers).union(broker.node_id for broker in self._epochs.pinned_brokers())

    def _leave_addresses(self, suspects: Iterable[int]) -> None:
        """Remember the former addresses of suspects that have another address in the last response."""
        for node_id in suspects:
            self._left.pop(node_id, None)
            answered, known = self._answered.get(node_id), self.snapshot.brokers.get(node_id)
            if answered is not None and known is not None and answered.endpoint != known.endpoint:
                self._left[node_id] = known.endpoint

    def _with_pinned(self, brokers: Mapping[int, Broker]) -> Mapping[int, Broker]:
        """Return these brokers and the brokers known only from hints.

        A suspect's former address is not used again. Returns the current mapping itself if nothing changes.
        """
        known = self.snapshot.brokers
        merged = dict(brokers)
        for node_id, endpoint in self._left.items():
            if node_id in known and node_id in merged and merged[node_id].endpoint == endpoint:
                merged[node_id] = known[node_id]
        for broker in self._epochs.pinned_brokers():
            merged[broker.node_id] = broker
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


def _moved(former: Mapping[int, Broker], brokers: Mapping[int, Broker]) -> Collection[int]:
    if brokers is former:
        return ()
    known = former.keys() & brokers.keys()
    return {node_id for node_id in known if former[node_id].endpoint != brokers[node_id].endpoint}


def _usable(endpoint: Broker, leader_id: int) -> bool:
    return endpoint.node_id == leader_id and bool(endpoint.host) and 0 < endpoint.port < 65536


def _names_by_id(topics: Mapping[str, TopicMetadata]) -> dict[UUID, str]:
    return {topic.topic_id: name for name, topic in topics.items() if topic.topic_id is not NO_TOPIC_ID}
