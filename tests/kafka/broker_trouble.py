"""Brokers of a real Kafka that end or freeze one after the other, and come back."""

from __future__ import annotations

import random
from collections.abc import Sequence

import anyio

from .harness import KafkaCluster
from .support import in_thread

INTERNAL = ("__consumer_offsets", "__transaction_state")
"""Coordinators lead their partitions."""

ENDS = ("SIGKILL", "SIGTERM")
ALL_KINDS = (*ENDS, "SIGSTOP", "move")
"""An end, a broker that keeps its connections and does nothing, other leaders for a partition of each topic."""

KEEP_ACKNOWLEDGED = {"transaction.state.log.min.isr": "2"}
"""A cluster's properties for runs in which brokers get SIGKILL: what one of three has acknowledged, another has too."""


class BrokerTrouble:
    """Something happens to one broker at a time, and to the next one when all replicas are in sync again."""

    def __init__(self, kafka: KafkaCluster, topics: list[str], seed: int, kinds: Sequence[str] = ENDS) -> None:
        """``kinds``: one of them at a time, each as likely as it is named often."""
        self._kafka = kafka
        self._topics = topics
        self._rng = random.Random(seed)
        self._kinds = kinds
        self.done: list[str] = []
        """What happened, in order."""

    async def run(self, wait_s: tuple[float, float]) -> None:
        """Until cancelled; between two of them there is a wait of such a length."""
        while True:
            await anyio.sleep(self._rng.uniform(*wait_s))
            await self.one(self._rng.choice(self._kafka.broker_ids), self._rng.choice(self._kinds))

    async def one(self, broker: int, kind: str) -> None:
        """Have this happen to a broker, undo it after a while, and wait until no replica is behind."""
        self.done.append(f"{kind} {broker}")
        away_s = self._rng.uniform(0, 8)
        if kind == "SIGSTOP":
            await in_thread(self._kafka.pause, broker)
            try:
                await anyio.sleep(away_s)
            finally:
                self._kafka.resume(broker)
            await in_thread(self._kafka.wait_for_brokers)
        elif kind == "move":
            for topic in self._topics:
                await in_thread(self._kafka.move_leader, topic, self._rng.randrange(3))
        else:
            await in_thread(self._kafka.kill if kind == "SIGKILL" else self._kafka.terminate, broker)
            await anyio.sleep(away_s)
            await in_thread(self._kafka.start_broker, broker)
        for topic in (*self._topics, *INTERNAL):
            await in_thread(self._kafka.wait_in_sync, topic)
