"""Random faults of brokers, of the network and of the clients' processes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import anyio
from confluent_kafka.cimpl import NewPartitions

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.errors import KafkaError
from tests.kafka.broker_trouble import ALL_KINDS, BrokerTrouble
from tests.kafka.harness import KafkaCluster
from tests.kafka.support import in_thread

from .network import Network, ProxiedNetwork
from .workers import Workers

__all__ = ["Faults"]

MOST_PARTITIONS_MORE = 3
REASSIGNED_WITHIN_S = 60.0


class Faults:
    """Causes faults until cancelled. Afterwards `heal` repairs them all."""

    def __init__(
        self,
        kafka: KafkaCluster,
        network: Network | ProxiedNetwork,
        workers: Workers,
        topics: Sequence[str],
        seed: int,
        seconds: float,
    ) -> None:
        """Create faults that move leaders and replicas of ``topics``; ``seconds`` is the planned duration."""
        self._kafka = kafka
        self._network = network
        self._workers = workers
        self._topics = list(topics)
        self._seed = seed
        self._brokers = BrokerTrouble(kafka, self._topics, seed, ALL_KINDS)
        self._seconds = seconds
        self.done: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of faults of each kind, by label in the page."""
        brokers = Counter(f"broker {each.split()[0]}" for each in self._brokers.done)
        processes = {f"process {kind}": count for kind, count in self._workers.done.items()}
        return {**dict(sorted(brokers.items())), **dict(sorted(self.done.items())), **dict(sorted(processes.items()))}

    async def run(self) -> None:
        """Cause faults until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._brokers.run, (2.0, 6.0))
            tasks.start_soon(self._strike_network)
            tasks.start_soon(self._strike_processes)
            tasks.start_soon(self._reassign)
            tasks.start_soon(self._add_partitions)

    async def heal(self) -> None:
        """Undo every fault."""
        await in_thread(self._network.heal)
        for worker in self._workers.all:
            worker.thaw()
        await in_thread(self._kafka.start_missing)
        for topic in self._topics:
            await in_thread(self._kafka.wait_in_sync, topic)

    def _rng(self, target: str) -> random.Random:
        """Return a random source for one target, since the order among targets depends on the machine's speed."""
        return random.Random(f"{self._seed} {target}")

    async def _strike_network(self) -> None:
        rng = self._rng("network")
        while True:
            await anyio.sleep(rng.uniform(1, 5))
            broker, other = rng.sample(self._kafka.broker_ids, 2)
            kind = rng.choice(self._network.kinds)
            self.done[f"network {kind}"] += 1
            await in_thread(self._network.strike, broker, kind, other)
            await anyio.sleep(rng.uniform(0.1, 4))
            await in_thread(self._network.heal)

    async def _strike_processes(self) -> None:
        rng = self._rng("processes")
        while True:
            await anyio.sleep(rng.uniform(1, 6))
            await in_thread(self._workers.strike)

    async def _reassign(self) -> None:
        """Take a replica from a partition, and add it back, with all its records."""
        rng = self._rng("replicas")
        while True:
            await anyio.sleep(rng.uniform(10, 25))
            where = TopicPartition(rng.choice(self._topics), rng.randrange(3))
            brokers = rng.sample(self._kafka.broker_ids, 3)
            try:
                async with self._brokers.moving, AdminClient(self._kafka.bootstrap()) as admin:
                    await admin.alter_partition_reassignments({where: brokers[:2]})
                    await anyio.sleep(rng.uniform(1, 4))
                    await admin.alter_partition_reassignments({where: brokers})
                    with anyio.move_on_after(REASSIGNED_WITHIN_S):
                        while await admin.list_partition_reassignments([where]):  # noqa: ASYNC110 - it has no event
                            await anyio.sleep(0.2)
            except KafkaError:
                self.done["reassignment refused"] += 1
            else:
                self.done["reassignment"] += 1

    async def _add_partitions(self) -> None:
        count = self._workers.all[0].options["partitions"]
        for more in range(1, MOST_PARTITIONS_MORE + 1):
            await anyio.sleep(self._seconds / (MOST_PARTITIONS_MORE + 1))
            admin = self._kafka.admin()
            wanted = [NewPartitions(topic, count + more) for topic in self._topics]
            for future in (await in_thread(admin.create_partitions, wanted)).values():
                try:
                    await in_thread(future.result, 60)
                except Exception:
                    self.done["partition increase refused"] += 1
                else:
                    self.done["partition increase"] += 1
            for worker in self._workers.all:
                worker.options["partitions"] = count + more
