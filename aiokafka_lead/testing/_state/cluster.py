"""The cluster: its brokers, its topics, and the controller's decisions about leaders and replicas."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID, uuid4

from ... import errors
from .configs import TopicConfigs, TopicDefaults
from .fetch_sessions import FetchSessions
from .offsets import Coordinators
from .topics import NO_LEADER, BrokerView, Partition, PartitionView, Resignation, Topic, TopicView

_PARTITIONS_MAX = 10_000
"""Maximum number of partitions created by one request (Java: MAX_PARTITIONS_PER_BATCH)."""

_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError for an invalid topic name."""
    if not _LEGAL_TOPIC.fullmatch(name) or name in (".", ".."):
        raise errors.InvalidTopicError(f"the topic name {name!r} is invalid")


def _in_metrics(name: str) -> str:
    """Return the topic's name in the brokers' metrics, which has ``_`` instead of ``.`` and must be unique."""
    return name.replace(".", "_")


def _allows_unclean(partition: Partition) -> bool:
    """Return True if an out-of-sync replica may become leader when no in-sync replica can."""
    return partition.topic.configs.get("unclean.leader.election.enable").strip().lower() == "true"


class MetadataView(NamedTuple):
    """The content of Metadata responses at one time. Stale responses come from an old view."""

    brokers: tuple[BrokerView, ...]
    controller_id: int
    topics: Mapping[str, TopicView]


class BrokerNode:
    """A broker in the controller's view: its address, rack and liveness."""

    __slots__ = ("fetch_sessions", "host", "node_id", "port", "rack", "registered", "running")

    def __init__(self, node_id: int, host: str, rack: str | None, fetch_session_slots: int) -> None:
        self.node_id = node_id
        # Address for clients in metadata.
        self.host = host
        self.port = 0
        self.rack = rack
        # True while the broker serves clients. A killed broker stays registered until the controller notices.
        self.running = False
        # True if the controller considers the broker alive, so that metadata lists it and it may lead.
        self.registered = False
        self.fetch_sessions = FetchSessions(fetch_session_slots)

    def view(self) -> BrokerView:
        return BrokerView(self.node_id, self.host, self.port, self.rack)


class ClusterState:
    """Holds the brokers and topics of a cluster. A change wakes the fetches that wait for its partitions."""

    def __init__(self, nodes: Sequence[BrokerNode], cluster_id: str | None, topic_configs: Mapping[str, str]) -> None:
        self.cluster_id = cluster_id or base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        self.nodes = {node.node_id: node for node in nodes}
        # Defaults of the brokers for topic configs, which override Kafka's defaults.
        self._topic_defaults = TopicDefaults(topic_configs)
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        # Topics by their names in metrics.
        self._in_metrics: dict[str, str] = {}
        # Called with a topic after its deletion.
        self.deletion_listeners: list[Callable[[Topic], None]] = []
        # True if reassignments stay pending until `complete_reassignments`. Otherwise, they are immediate.
        self.hold_reassignments = False
        self.coordinators = Coordinators(lambda: [node.node_id for node in self.registered()])
        self._next_producer_id = 0

    # --- queries -----------------------------------------------------------------------------------------------------

    def topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            raise errors.UnknownTopicOrPartitionError(f"there is no topic {name!r}")
        return topic

    def topic_by_id(self, topic_id: UUID) -> Topic:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise errors.UnknownTopicIdError(f"there is no topic with id {topic_id}")
        return topic

    def partition(self, name: str, index: int) -> Partition:
        topic = self.topics.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise errors.UnknownTopicOrPartitionError(f"there is no partition {name}-{index}")
        return topic.partitions[index]

    def partitions(self) -> Iterable[Partition]:
        return (partition for topic in self.topics.values() for partition in topic.partitions)

    def is_registered(self, node_id: int) -> bool:
        node = self.nodes.get(node_id)
        return node is not None and node.registered

    def registered(self) -> list[BrokerNode]:
        return [node for node in self.nodes.values() if node.registered]

    @property
    def controller_id(self) -> int:
        return next((node.node_id for node in self.nodes.values() if node.registered), NO_LEADER)

    def topic_view(self, topic: Topic) -> TopicView:
        down = {node.node_id for node in self.nodes.values() if not node.registered}
        views = [
            PartitionView(
                partition.index,
                partition.leader_id,
                partition.leader_epoch,
                tuple(partition.replicas),
                tuple(partition.isr),
                tuple([replica for replica in partition.replicas if replica in down]) if down else (),
            )
            for partition in topic.partitions
        ]
        return TopicView(topic.name, topic.topic_id, tuple(views))

    def broker_views(self) -> tuple[BrokerView, ...]:
        return tuple(node.view() for node in self.registered())

    def freeze(self) -> MetadataView:
        """Return a copy of the current metadata, with which later requests are answered."""
        topics = {topic.name: self.topic_view(topic) for topic in self.topics.values()}
        return MetadataView(self.broker_views(), self.controller_id, topics)

    def next_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id - 1

    # --- topics ------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
    ) -> Topic:
        """Create a topic. ``assignments`` contains the replicas of each partition, the preferred leader first."""
        check_topic_name(name)
        if name in self.topics:
            raise errors.TopicAlreadyExistsError(f"Topic '{name}' already exists.")
        alike = self._in_metrics.get(_in_metrics(name))
        if alike is not None:
            raise errors.InvalidTopicError(f"Topic '{name}' collides with existing topic: {alike}")
        topic = Topic(name, uuid4(), TopicConfigs(configs, self._topic_defaults))
        if assignments is None:
            assignments = self._spread(0, partitions, replication_factor)
        self._extend(topic, assignments)
        if not validate_only:
            self.topics[name] = self.topics_by_id[topic.topic_id] = topic
            self._in_metrics[_in_metrics(name)] = name
        return topic

    def add_partitions(
        self, topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None = None, *, validate_only: bool
    ) -> None:
        """Increase the number of partitions of a topic to ``count``."""
        present = len(topic.partitions)
        if count <= present:
            raise errors.InvalidPartitionsError(
                f"The topic {topic.name} currently has {present} partition(s); {count} requested."
            )
        if assignments is None:
            assignments = self._spread(present, count - present, len(topic.partitions[0].replicas))
        elif len(assignments) != count - present:
            raise errors.InvalidReplicaAssignmentError(
                f"{count - present} assignments are needed, not {len(assignments)}"
            )
        for replicas in assignments:
            self._check_replicas(replicas)
        if not validate_only:
            self._extend(topic, assignments)

    def delete_topic(self, topic: Topic) -> None:
        del self.topics[topic.name], self.topics_by_id[topic.topic_id], self._in_metrics[_in_metrics(topic.name)]
        topic.deleted = True
        for partition in topic.partitions:
            partition.notify()
        for listener in self.deletion_listeners:
            listener(topic)

    def _spread(self, first: int, count: int, replication_factor: int) -> list[list[int]]:
        """Return the replicas of new partitions. Leaders are distributed over the brokers, and racks alternate."""
        ids = self._by_rack_in_turn()
        if count <= 0:
            raise errors.InvalidPartitionsError("Number of partitions must be larger than 0.")
        if count > _PARTITIONS_MAX:
            raise errors.PolicyViolationError("Excessively large number of partitions per request.")
        if not 0 < replication_factor <= len(ids):
            raise errors.InvalidReplicationFactorError(
                f"Replication factor {replication_factor} does not fit {len(ids)} registered broker(s)."
            )
        return [
            [ids[(index + follower) % len(ids)] for follower in range(replication_factor)]
            for index in range(first, first + count)
        ]

    def _by_rack_in_turn(self) -> list[int]:
        racks: dict[str | None, list[int]] = {}
        for node in self.registered():
            racks.setdefault(node.rack, []).append(node.node_id)
        rounds = max((len(ids) for ids in racks.values()), default=0)
        return [ids[turn] for turn in range(rounds) for ids in racks.values() if turn < len(ids)]

    def _check_replicas(self, replicas: Sequence[int]) -> None:
        if not replicas or len(set(replicas)) != len(replicas):
            raise errors.InvalidReplicaAssignmentError(
                f"replicas must not be empty or repeat a broker: {list(replicas)}"
            )
        if unknown := [replica for replica in replicas if replica not in self.nodes]:
            raise errors.InvalidReplicaAssignmentError(f"there are no brokers {unknown}")

    def _extend(self, topic: Topic, assignments: Sequence[Sequence[int]]) -> None:
        if not assignments:
            raise errors.InvalidPartitionsError("a topic must have at least one partition")
        for replicas in assignments:
            self._check_replicas(replicas)
        for replicas in assignments:
            partition = Partition(topic, len(topic.partitions), list(replicas))
            partition.isr = [replica for replica in replicas if self.is_registered(replica)] or [replicas[0]]
            partition.leader_id = partition.isr[0] if self.is_registered(partition.isr[0]) else NO_LEADER
            topic.partitions.append(partition)

    # --- leaders -----------------------------------------------------------------------------------------------------

    def move_leader(self, partition: Partition, to: int | None = None, resigned_until: float | None = None) -> int:
        """Make another replica the leader, by default the next one in the ISR, and return its id.

        Until ``resigned_until``, the old leader has resigned but the new leader has not learned of the change. The new
        leader does not have to be in sync, because replication takes no time here.
        """
        if to is None:
            alive = [replica for replica in partition.isr if self.is_registered(replica)]
            if not alive:
                raise errors.PreferredLeaderNotAvailableError(
                    f"{partition.topic.name}-{partition.index} has no live replica"
                )
            # The next replica after the current leader. A single replica is elected again.
            order = partition.replicas
            at = order.index(partition.leader_id) if partition.leader_id in order else -1
            to = next(r for step in range(1, len(order) + 1) if (r := order[(at + step) % len(order)]) in alive)
        elif not self.is_registered(to):
            raise errors.BrokerNotAvailableError(f"broker {to} is not alive")
        elif to not in partition.replicas:
            raise errors.InvalidReplicaAssignmentError(
                f"broker {to} is not a replica of {partition.topic.name}-{partition.index}: {partition.replicas}"
            )
        old = partition.leader_id, partition.leader_epoch
        if to not in partition.isr:
            partition.isr.append(to)
        partition.set_leader(to)
        if resigned_until is not None:
            partition.resignation = Resignation(*old, resigned_until)
        partition.notify()
        return to

    def elect_preferred(self, partition: Partition) -> None:
        """Make the first replica the leader (ElectLeaders, type PREFERRED)."""
        preferred = partition.replicas[0]
        if partition.leader_id == preferred:
            raise errors.ElectionNotNeededError("Leader election not needed for topic partition.")
        if not self.is_registered(preferred) or preferred not in partition.isr:
            raise errors.PreferredLeaderNotAvailableError("The preferred leader was not available.")
        self.move_leader(partition, preferred)

    def elect_unclean(self, partition: Partition) -> None:
        """Make any live replica the leader of a leaderless partition (ElectLeaders, type UNCLEAN)."""
        if partition.leader_id != NO_LEADER:
            raise errors.ElectionNotNeededError("Leader election not needed for topic partition.")
        alive = next((replica for replica in partition.replicas if self.is_registered(replica)), None)
        if alive is None:
            raise errors.PreferredLeaderNotAvailableError("There is no live replica.")
        partition.isr = [alive]
        partition.set_leader(alive)
        partition.notify()

    def truncate(self, partition: Partition, offset: int) -> None:
        """Remove records like an unclean election. The log then ends at ``offset``, and its leader has a new epoch."""
        partition.log.truncate(offset)
        partition.set_leader(partition.leader_id)
        partition.notify()

    def broker_gone(self, node_id: int) -> None:
        """Handle a broker that is dead or leaving. It leaves every ISR, and other replicas lead instead.

        The last in-sync replica stays in the ISR without leading, because no other replica may lead before it is back.
        """
        self.nodes[node_id].registered = False
        for partition in self.partitions():
            remaining = [replica for replica in partition.isr if replica != node_id]
            if len(remaining) == len(partition.isr):
                continue
            # Use the order of the replicas, not of the ISR (Java: ``PartitionChangeBuilder.electAnyLeader``).
            alive = [replica for replica in partition.replicas if replica in remaining and self.is_registered(replica)]
            leader = alive[0] if alive else None
            if remaining:
                partition.isr = remaining
            if partition.leader_id == node_id:
                if leader is None and _allows_unclean(partition):
                    leader = next((replica for replica in partition.replicas if self.is_registered(replica)), None)
                    partition.isr = partition.isr if leader is None else [leader]
                partition.set_leader(NO_LEADER if leader is None else leader)
                partition.notify()

    def broker_back(self, node_id: int) -> None:
        """Handle the registration of a broker, which rejoins the ISR of its partitions.

        It leads partitions without a leader if it was in sync, or if they have ``unclean.leader.election.enable``.
        """
        self.nodes[node_id].registered = True
        for partition in self.partitions():
            if node_id not in partition.replicas:
                continue
            in_sync = node_id in partition.isr
            if partition.leader_id != NO_LEADER:
                if not in_sync:
                    partition.isr.append(node_id)
            elif in_sync or _allows_unclean(partition):
                followers = [replica for replica in partition.replicas if replica != node_id]
                partition.isr = [node_id, *(replica for replica in followers if self.is_registered(replica))]
                partition.set_leader(node_id)
                partition.notify()

    # --- reassignment (KIP-455) --------------------------------------------------------------------------------------

    def reassign(self, partition: Partition, target: Sequence[int]) -> None:
        """Begin to move a partition to other replicas. Finish immediately, unless reassignments are held."""
        self._check_replicas(target)
        present = [replica for replica in partition.replicas if replica not in partition.adding]
        partition.adding = [replica for replica in target if replica not in present]
        partition.removing = [replica for replica in present if replica not in target]
        partition.replicas = [*target, *partition.removing]
        if not self.hold_reassignments:
            self.complete_reassignment(partition)

    def cancel_reassignment(self, partition: Partition) -> None:
        partition.replicas = [replica for replica in partition.replicas if replica not in partition.adding]
        partition.adding, partition.removing = [], []

    def complete_reassignment(self, partition: Partition) -> None:
        partition.replicas = [replica for replica in partition.replicas if replica not in partition.removing]
        partition.adding, partition.removing = [], []
        alive = [replica for replica in partition.replicas if self.is_registered(replica)]
        partition.isr = alive or partition.replicas[:1]
        if partition.leader_id not in partition.isr:
            partition.set_leader(alive[0] if alive else NO_LEADER)
            partition.notify()
