"""Topics and partitions: replicas, in-sync replicas, leaders and their epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from .configs import TopicConfigs
from .log import PartitionLog

NO_LEADER = -1
"""Leader id of a partition without a leader."""


class PartitionView(NamedTuple):
    """A partition in the state that metadata showed at some time."""

    number: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicView(NamedTuple):
    """A topic in the state that metadata showed at some time."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionView, ...]


class BrokerView(NamedTuple):
    """A broker as shown by metadata."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Resignation(NamedTuple):
    """A change of leader that some brokers do not know yet.

    Until they know, no broker leads (see `Partition.leads`).
    """

    old_leader_id: int
    old_leader_epoch: int
    until: float


class Partition:
    """A partition: its leader and its log.

    Invariants: ``leader_id`` is NO_LEADER or one of ``isr``. ``isr`` is a part of ``replicas``. ``leader_epoch`` never
    decreases, and increases with each change of the leader.
    """

    __slots__ = (
        "adding",
        "index",
        "isr",
        "leader_epoch",
        "leader_id",
        "log",
        "removing",
        "replicas",
        "resignation",
        "topic",
        "watchers",
    )

    def __init__(self, topic: Topic, index: int, replicas: list[int]) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.isr = list(replicas)
        self.leader_id = replicas[0]
        self.leader_epoch = 0
        # Replicas of a pending reassignment (KIP-455).
        self.adding: list[int] = []
        self.removing: list[int] = []
        self.resignation: Resignation | None = None
        self.log = PartitionLog()
        self.log.begin_epoch(0)
        # Fetches that wait here. Each is called with the number of appended bytes, or -1 for any other change. They are
        # in the order of their arrival, so that a simulation can be replayed.
        self.watchers: dict[Callable[[int], None], None] = {}

    def leads(self, node_id: int, now: float) -> bool:
        """Return True if a broker acts as the leader.

        A new leader may learn only later that the old leader has resigned.
        """
        if self.resignation is not None:
            if now < self.resignation.until:
                return False
            self.resignation = None
        return self.leader_id == node_id

    def leader_known_to(self, node_id: int) -> tuple[int, int]:
        """Return the leader and the epoch that a broker knows. The new leader is the last to learn of a change."""
        if self.resignation is not None and node_id == self.leader_id:
            return self.resignation.old_leader_id, self.resignation.old_leader_epoch
        return self.leader_id, self.leader_epoch

    def set_leader(self, node_id: int) -> None:
        """Set the leader, always with a new epoch. It may be another leader, the same leader, or NO_LEADER."""
        self.leader_id = node_id
        self.leader_epoch += 1
        self.resignation = None
        if node_id != NO_LEADER:
            self.log.begin_epoch(self.leader_epoch)

    def notify(self, appended_bytes: int = -1) -> None:
        """Wake the fetches that wait for this partition.

        ``appended_bytes`` is the size of new records, or -1 after any other change.
        """
        for watcher in list(self.watchers):
            watcher(appended_bytes)


class Topic:
    """A topic: its id, its partitions and its configs."""

    __slots__ = ("configs", "deleted", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, configs: TopicConfigs) -> None:
        self.name = name
        self.topic_id = topic_id
        self.configs = configs
        self.partitions: list[Partition] = []
        self.deleted = False
