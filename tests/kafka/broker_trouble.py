"""Faults of a real Kafka's brokers, in turn: each is killed, stopped or frozen, and recovers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import anyio

from .harness import KafkaCluster
from .support import in_thread

INTERNAL = ("__consumer_offsets", "__transaction_state")
"""Internal topics, whose leaders are the coordinators."""

ENDS = ("SIGKILL", "SIGTERM")
ALL_KINDS = (*ENDS, "SIGSTOP", "move")
"""Kinds of faults: ends of a broker, a frozen broker with open connections, a moved leader in each topic."""

KEEP_ACKNOWLEDGED = {"transaction.state.log.min.isr": "2"}
"""Properties for runs in which brokers get SIGKILL: two of three brokers have every acknowledged record."""


class BrokerTrouble:
    """Causes a fault of one broker at a time, and the next fault when all replicas are in sync again."""

    def __init__(self, kafka: KafkaCluster, topics: list[str], seed: int, kinds: Sequence[str] = ENDS) -> None:
        """``kinds``: chosen one at a time; repeating a name makes it more likely."""
        self._kafka = kafka
        self._topics = topics
        self._rng = random.Random(seed)
        self._kinds = kinds
        self.moving = anyio.Lock()
        """Held while replicas of some partition are reassigned: Kafka's tool refuses to begin meanwhile."""
        self.done: list[str] = []
        """Faults so far, in order."""

    async def run(self, wait_s: tuple[float, float]) -> None:
        """Cause faults until cancelled, with waits of this length in between."""
        while True:
            await anyio.sleep(self._rng.uniform(*wait_s))
            await self.one(self._rng.choice(self._kafka.broker_ids), self._rng.choice(self._kinds))

    async def one(self, broker: int, kind: str) -> None:
        """Cause this fault of a broker, repair it after a while, and wait until all replicas are in sync."""
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
                async with self.moving:
                    await in_thread(self._kafka.move_leader, topic, self._rng.randrange(3))
        else:
            await in_thread(self._kafka.kill if kind == "SIGKILL" else self._kafka.terminate, broker)
            await anyio.sleep(away_s)
            await in_thread(self._kafka.start_broker, broker)
        for topic in (*self._topics, *INTERNAL):
            await in_thread(self._kafka.wait_in_sync, topic)
