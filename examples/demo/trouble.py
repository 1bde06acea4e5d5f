"""Faults that the demo causes in a cluster while events flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.testing import EmbeddedCluster

QUIET, MOVING, DEAD, BACK = "quiet", "moves", "death", "return"
"""Phases of the cluster: no fault, leaders move, a broker is dead, the broker has come back."""
METADATA_DELAY_MS = 100


@dataclass(frozen=True)
class Broker:
    """The current state of a broker."""

    id: int
    address: str
    state: str
    leads: int
    """Number of partitions that it leads."""


class Trouble(Protocol):
    """A cluster and its faults."""

    bootstrap_servers: str
    about: str
    """Description of the cluster."""
    phase: str
    """The current phase."""
    latest: str
    """Description of the latest fault."""
    moves: int
    deaths: int

    async def make(self, seconds: float) -> None:
        """Cause faults, spread over ``seconds`` or longer if the machine is slow."""

    def brokers(self) -> list[Broker]:
        """Return the brokers and the partitions that they lead."""
        ...


class EmbeddedTrouble:
    """Three brokers of an embedded cluster: every leader moves, then a broker is killed and comes back elsewhere."""

    def __init__(self, cluster: EmbeddedCluster, topics: Sequence[str], partitions: int) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self.about = (
            f"3 brokers in this process, which answer Metadata requests after {METADATA_DELAY_MS} ms, "
            "as KIP-951 measured for brokers under load."
        )
        self.phase = QUIET
        self.latest = "nothing yet"
        self.moves = 0
        self.deaths = 0
        self._cluster = cluster
        self._topics = topics
        self._partitions = partitions

    async def make(self, seconds: float) -> None:
        """Move every leader, kill a broker, restart it on another port, and move every leader again."""
        pause = seconds / 6
        await anyio.sleep(pause)
        await self._move_every_leader(pause)
        broker = self._cluster.leader(self._topics[0], 0)
        self.phase, self.latest = DEAD, f"broker {broker} killed"
        await self._cluster.kill_broker(broker)
        self.deaths += 1
        await anyio.sleep(pause)
        await self._cluster.change_address(broker)
        self.phase, self.latest = BACK, f"broker {broker} is back at another address"
        await anyio.sleep(pause)
        await self._move_every_leader(pause)
        self.phase = QUIET
        await anyio.sleep(pause)

    async def _move_every_leader(self, seconds: float) -> None:
        self.phase = MOVING
        for partition in range(self._partitions):
            to = [self._cluster.move_leader(topic, partition) for topic in self._topics]
            self.moves += len(self._topics)
            self.latest = f"leader of partition {partition} moved to broker {to[0]}"
            await anyio.sleep(seconds / self._partitions)

    def brokers(self) -> list[Broker]:
        """Return the brokers and the partitions that they lead."""
        places = [(topic, partition) for topic in self._topics for partition in range(self._partitions)]
        leads = Counter(self._cluster.leader(*place) for place in places)
        return [
            Broker(
                broker,
                self._cluster.address(broker),
                "up" if self._cluster.is_running(broker) else "killed",
                leads[broker],
            )
            for broker in self._cluster.broker_ids
        ]


@asynccontextmanager
async def embedded(topics: Sequence[str], partitions: int) -> AsyncIterator[Trouble]:
    """Run an embedded cluster with the topics."""
    async with EmbeddedCluster(brokers=3) as cluster:
        for topic in topics:
            await cluster.create_topic(topic, partitions=partitions, replication_factor=3)
        cluster.faults.add("Metadata", delay_ms=METADATA_DELAY_MS)
        yield EmbeddedTrouble(cluster, topics, partitions)


class RealTrouble:
    """Topics on a real cluster: each partition's replicas rotate, and with them its leader, twice."""

    def __init__(self, admin: AdminClient, bootstrap_servers: str, topics: Sequence[str], partitions: int) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.about = f"The cluster at {bootstrap_servers}. Kill its brokers yourself."
        self.phase = QUIET
        self.latest = "nothing yet"
        self.moves = 0
        self.deaths = 0
        self._admin = admin
        self._topics = topics
        self._partitions = partitions
        self._brokers: list[Broker] = []

    async def make(self, seconds: float) -> None:
        """Rotate the leaders, wait, and rotate them again."""
        pause = seconds / 5
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            await anyio.sleep(pause)
            await self._rotate(pause)
            self.phase = QUIET
            await anyio.sleep(pause)
            await self._rotate(pause)
            self.phase = QUIET
            await anyio.sleep(pause)
            tasks.cancel_scope.cancel()

    async def _rotate(self, seconds: float) -> None:
        described = await self._admin.describe_topics(self._topics)
        self.phase = MOVING
        for number in range(self._partitions):
            for topic in self._topics:
                first, *others = described[topic].partitions[number].replicas
                if others:
                    partition = TopicPartition(topic, number)
                    await self._admin.alter_partition_reassignments({partition: [*others, first]})
                    await self._admin.elect_leaders([partition])
                    self.moves += 1
                    self.latest = f"leader of partition {number} moved to broker {others[0]}"
            await anyio.sleep(seconds / self._partitions)

    async def _watch(self) -> None:
        while True:
            nodes = (await self._admin.describe_cluster()).brokers
            described = await self._admin.describe_topics(self._topics)
            leads = Counter(partition.leader_id for topic in described.values() for partition in topic.partitions)
            self._brokers = [
                Broker(node.node_id, f"{node.host}:{node.port}", "up", leads[node.node_id]) for node in nodes
            ]
            await anyio.sleep(0.5)

    def brokers(self) -> list[Broker]:
        """Return the brokers and the partitions that they lead, at most half a second old."""
        return self._brokers


@asynccontextmanager
async def real(bootstrap_servers: str, topics: Sequence[str], partitions: int) -> AsyncIterator[Trouble]:
    """Use a real cluster; the topics exist during the block."""
    async with AdminClient(bootstrap_servers) as admin:
        brokers = len((await admin.describe_cluster()).brokers)
        await admin.create_topics([NewTopic(topic, partitions, min(3, brokers)) for topic in topics])
        try:
            yield RealTrouble(admin, bootstrap_servers, topics, partitions)
        finally:
            with anyio.CancelScope(shield=True):
                await admin.delete_topics(topics, timeout_ms=10_000)
