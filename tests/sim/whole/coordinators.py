"""Coordinators that lie: the time until a group's members continue once some broker could tell the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any

import anyio
import anyio.abc

from aiokafka_lead import Consumer, Producer, ShareConsumer
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions, RequestRecord
from tests.hostile.answers import changed

from .nemesis import OF_COORDINATORS

GROUP, TOPIC = "group", "input"
BROKERS, PARTITIONS = 3, 4
WITHIN_S = 2.0
"""Bound on the time until a member's commits, a new member's assignment, and the handling of records go on."""

REBALANCE_S = 1.0
"""A new member also waits for the heartbeats of the others."""

LIES = 2
LIE_S = 5.0
REFUSALS = (14, 15, 16)
"""An error without explanation (-1) ends a member, as in Java."""

BEAT_MS = 200
GROUPS = GroupOptions(
    consumer_heartbeat_interval_ms=BEAT_MS,
    share_heartbeat_interval_ms=BEAT_MS,
    consumer_session_timeout_ms=20_000,
    share_session_timeout_ms=20_000,
    share_delivery_count_limit=1000,
)


@dataclass
class Waits:
    """Longest waits during each lie, in seconds, by awaited event."""

    records: int = 0
    longest: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))

    def note(self, lie: str, what: str, seconds: float) -> None:
        self.longest[lie, what] = max(self.longest[lie, what], seconds)


async def coordinators(seed: int) -> Waits:
    """Play one group of any kind under lies. Raises AssertionError if a wait is longer than its bound."""
    return await _Play(Random(seed)).play()


class _Play:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._kind = rng.choice(["classic", "consumer", "share"])
        self._lie = "none"
        self._waits = Waits()
        self._sent_at: dict[bytes, float] = {}
        """Send times of records that were not handled yet."""
        self._asked: list[RequestRecord] = []

    async def play(self) -> Waits:
        features = {"transaction.version": 2}
        async with EmbeddedCluster(BROKERS, features=features, groups=GROUPS, request_log_size=0) as self._cluster:
            self._cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=BROKERS)
            self._cluster.shares.configure(GROUP, {"share.auto.offset.reset": "earliest"})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write)
                for _ in range(self._rng.choice([1, 2])):
                    await tasks.start(self._member)
                for _ in range(LIES):
                    await self._lie_for_a_while(tasks)
                tasks.cancel_scope.cancel()
        for (lie, what), seconds in self._waits.longest.items():
            bound_s = WITHIN_S + REBALANCE_S * (what == "assignment")
            assert seconds <= bound_s, f"{self._kind}, {lie}: {what} after {seconds:.2f} s"
        return self._waits

    async def _lie_for_a_while(self, tasks: anyio.abc.TaskGroup) -> None:
        lies: list[Callable[[], None]] = [self._deposed, self._never_knows, self._misnames]
        lie = self._rng.choice(lies)
        lie()
        self._lie = lie.__name__.strip("_")
        if self._rng.random() < 0.5:
            await tasks.start(self._member)
        await anyio.sleep(LIE_S)
        now = anyio.current_time()
        for sent_at in self._sent_at.values():
            self._waits.note(self._lie, "handling", now - sent_at)
        self._cluster.faults.clear()
        self._lie = "none"
        await anyio.sleep(self._rng.uniform(0, 2))

    # --- applications ------------------------------------------------------------------------------------------------

    async def _write(self) -> None:
        async with Producer(self._cluster.bootstrap_servers, linger_ms=0) as producer:
            while True:
                self._waits.records += 1
                value = b"%d" % self._waits.records
                self._sent_at[value] = anyio.current_time()
                await producer.send_and_wait(TOPIC, value, partition=self._waits.records % PARTITIONS)
                await anyio.sleep(0.1)

    def _client(self) -> Any:
        options: dict[str, Any] = {"bootstrap_servers": self._cluster.bootstrap_servers, "group_id": GROUP}
        if self._kind == "share":
            return ShareConsumer(TOPIC, **options)
        more = {} if self._kind == "consumer" else {"heartbeat_interval_ms": BEAT_MS, "session_timeout_ms": 20_000}
        consumer: Any = Consumer
        return consumer(
            TOPIC,
            group_protocol=self._kind,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **options,
            **more,
        )

    async def _member(self, task_status: anyio.abc.TaskStatus[None]) -> None:
        began, lie = anyio.current_time(), self._lie
        async with self._client() as client:
            while not client.assignment():
                await self._read(client, 20)
            self._waits.note(lie, "assignment", anyio.current_time() - began)
            task_status.started()
            committed_at = anyio.current_time()
            while True:
                await self._read(client, 200)
                if self._kind == "share" or not client.assignment():
                    continue
                try:
                    await client.commit(timeout_ms=20_000)
                except KafkaError:
                    continue
                self._waits.note(self._lie, "commit", anyio.current_time() - committed_at)
                committed_at = anyio.current_time()

    async def _read(self, client: Any, timeout_ms: float) -> None:
        read = await client.getmany(timeout_ms=timeout_ms)
        now = anyio.current_time()
        for record in chain.from_iterable(read.values()):
            self._waits.note(self._lie, "handling", now - self._sent_at.pop(record.value, now))

    # --- lies --------------------------------------------------------------------------------------------------------

    def _liars(self) -> list[int]:
        """Return some brokers, but not all."""
        return self._rng.sample(self._cluster.broker_ids, self._rng.randint(1, BROKERS - 1))

    def _move(self) -> tuple[int, int]:
        """Move the coordinator; return the former and the new coordinator."""
        former, new = self._rng.sample(self._cluster.broker_ids, 2)
        self._cluster.move_coordinator(GROUP, former)
        self._cluster.move_coordinator(GROUP, new)
        return former, new

    def _deposed(self) -> None:
        """A former coordinator refuses everything, and some brokers still name it."""
        former, new = self._move()
        error_code = self._rng.choice(REFUSALS)
        for api in OF_COORDINATORS[1:]:
            self._cluster.faults.add(api, broker=former, error_code=error_code)
        self._name([broker for broker in self._liars() if broker != new] or [former], former)

    def _never_knows(self) -> None:
        """Brokers do not know the coordinator, which has moved."""
        self._move()
        error_code = self._rng.choice((7, 14, 15, -1))
        for broker in self._liars():
            self._cluster.faults.add("FindCoordinator", broker=broker, error_code=error_code)

    def _misnames(self) -> None:
        """Brokers name a broker that is not the coordinator."""
        _, new = self._move()
        others = [broker for broker in self._cluster.broker_ids if broker != new]
        self._name(self._liars(), self._rng.choice(others))

    def _name(self, liars: list[int], named: int) -> None:
        host, _, port = self._cluster.address(named).rpartition(":")

        def concerns(record: RequestRecord) -> bool:
            self._asked[:] = [record]
            return record.broker in liars

        def change(answer: Any) -> None:
            for each in answer.coordinators or [answer]:
                each.node_id, each.host, each.port, each.error_code = named, host, int(port), 0

        self._cluster.faults.add(
            "FindCoordinator",
            after=True,
            when=concerns,
            garbage=lambda answer: changed(self._asked[0], answer, change),
        )
