"""What the demo does to a cluster while events flow."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

import anyio

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.testing import EmbeddedCluster


class Trouble(Protocol):
    """A cluster, and what happens to it."""

    bootstrap_servers: str
    latest: str
    """What was done last, for the progress line."""

    async def make(self, seconds: float) -> None:
        """Make trouble, spread over ``seconds``."""

    def summary(self) -> str:
        """What was done in all."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class EmbeddedTrouble:
    """An embedded cluster of three brokers: every leader moves, then a broker is killed and replaced."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.cluster = EmbeddedCluster(brokers=3)
        self.bootstrap_servers = ""
        self.latest = ""
        self.moves = 0
        self.replaced: list[int] = []

    async def __aenter__(self) -> Self:
        await self.cluster.__aenter__()
        self.bootstrap_servers = self.cluster.bootstrap_servers
        await self.cluster.create_topic(self.topic, partitions=self.partitions, replication_factor=3)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cluster.__aexit__(kind, error, trace)

    async def make(self, seconds: float) -> None:
        """Move every leader, kill a broker, let it come back on another port, move every leader again."""
        pause = seconds / 6
        await anyio.sleep(pause)
        await self._move_every_leader(pause)
        broker = self.cluster.leader(self.topic, 0)
        await self.cluster.kill_broker(broker)
        self.latest = f"broker {broker} killed"
        await anyio.sleep(pause)
        await self.cluster.change_address(broker)
        self.replaced.append(broker)
        self.latest = f"broker {broker} is back at another address"
        await anyio.sleep(pause)
        await self._move_every_leader(pause)

    async def _move_every_leader(self, seconds: float) -> None:
        for partition in range(self.partitions):
            leader = self.cluster.move_leader(self.topic, partition)
            self.moves += 1
            self.latest = f"leader of partition {partition} moved to broker {leader}"
            await anyio.sleep(seconds / self.partitions)

    def summary(self) -> str:
        """What was done in all."""
        brokers = ", ".join(str(broker) for broker in self.replaced) or "none"
        return f"{self.moves} leader moves; brokers killed and replaced: {brokers}"


class RealTrouble:
    """A topic on a real cluster: each partition's replicas rotate, and with them its leader, twice."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.bootstrap_servers = bootstrap_servers
        self.latest = ""
        self.moves = 0
        self.admin = AdminClient(bootstrap_servers)

    async def __aenter__(self) -> Self:
        await self.admin.start()
        brokers = len((await self.admin.describe_cluster()).brokers)
        await self.admin.create_topics([NewTopic(self.topic, self.partitions, min(3, brokers))])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.admin.delete_topics([self.topic], timeout_ms=10_000)
            await self.admin.stop()

    async def make(self, seconds: float) -> None:
        """Rotate the leaders, wait, rotate them on."""
        pause = seconds / 5
        await anyio.sleep(pause)
        await self._rotate(pause)
        await anyio.sleep(pause)
        await self._rotate(pause)

    async def _rotate(self, seconds: float) -> None:
        topic = (await self.admin.describe_topics([self.topic]))[self.topic]
        for described in topic.partitions:
            partition = TopicPartition(self.topic, described.partition)
            first, *others = described.replicas
            if not others:
                continue
            await self.admin.alter_partition_reassignments({partition: [*others, first]})
            await self.admin.elect_leaders([partition])
            self.moves += 1
            self.latest = f"leader of partition {partition.partition} moved to broker {others[0]}"
            await anyio.sleep(seconds / self.partitions)

    def summary(self) -> str:
        """What was done in all."""
        return f"{self.moves} leader moves"
