"""Answers with absurd fields, temporarily or permanently from one broker: every kind of client continues."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import anyio

from aiokafka_lead import Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.testing import EmbeddedCluster, RequestRecord
from tests.hostile.answers import with_other_fields

from .campaign import GROUPS
from .nemesis import OF_ANY, OF_COORDINATORS, OF_LEADERS
from .roles import ASKING, QUICK

EVENTS, ORDERS = "events", "orders"
BROKERS, PARTITIONS = 3, 2

BELIEVED = ("JoinGroup", "SyncGroup", "ShareGroupHeartbeat")
"""A readable assignment, or list of members to assign to, cannot be known to be wrong."""

GOES_ON_WITHIN_S = 10.0
"""Bound from the end of the lies: a session of 6 s may have to end first."""

DESPITE_A_LIAR_WITHIN_S = 3.0
"""The same if one broker permanently lies about the cluster."""


async def bent(seed: int) -> None:
    """Play five clients and brokers with absurd answers. Raises AssertionError if a client does not recover in time."""
    rng = Random(seed)
    features = {"transaction.version": rng.choice([1, 2])}
    async with EmbeddedCluster(BROKERS, features=features, groups=GROUPS, request_log_size=0) as cluster:
        for topic in (EVENTS, ORDERS):
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=BROKERS)
        cluster.shares.configure("jobs", {"share.auto.offset.reset": "earliest"})
        clients = _Clients(cluster.bootstrap_servers, rng.choice(["classic", "consumer"]))
        async with anyio.create_task_group() as tasks:
            for work in clients.all_kinds():
                tasks.start_soon(work)
            await anyio.sleep(rng.choice([0, 4]))
            endless = rng.random() < 0.3
            names = OF_ANY if endless else sorted({*OF_COORDINATORS, *OF_LEADERS, *OF_ANY} - {*BELIEVED})
            liars = [rng.choice(cluster.broker_ids)] if endless or rng.random() < 0.7 else cluster.broker_ids
            for api in rng.sample(names, rng.choice([1, 2])):
                _bend(cluster, rng, api, liars)
            await anyio.sleep(rng.choice([0.5, 3, 8]))
            if not endless:
                cluster.faults.clear()
            await clients.go_on(DESPITE_A_LIAR_WITHIN_S if endless else GOES_ON_WITHIN_S)
            tasks.cancel_scope.cancel()


def _bend(cluster: EmbeddedCluster, rng: Random, api: str, liars: list[int]) -> None:
    asked: list[RequestRecord] = []

    def concerns(record: RequestRecord) -> bool:
        asked[:] = [record]
        return record.broker in liars

    cluster.faults.add(
        api, after=True, when=concerns, garbage=lambda answer: with_other_fields(rng, asked[0], answer) or answer
    )


class _Clients:
    """One client of each kind, which starts again after an error that ends it, and the time of its last success."""

    def __init__(self, servers: str, protocol: str) -> None:
        self._servers = servers
        self._protocol = protocol
        self._succeeded_at: dict[tuple[str, int], float] = {}

    def all_kinds(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        return [
            lambda: self._again(self._produce),
            lambda: self._again(self._transact),
            lambda: self._again(self._read, "member", self._member),
            lambda: self._again(self._read, "reader", self._reader),
            lambda: self._again(self._read, "sharer", self._sharer),
        ]

    async def go_on(self, within_s: float) -> None:
        """Wait for a success of every client. Raises AssertionError after ``within_s``."""
        began = anyio.current_time()
        readers = [(name, index) for name in ("member", "reader", "sharer") for index in range(PARTITIONS)]
        awaited = {("producer", 0), ("transactions", 0), *readers}
        while awaited := {key for key in awaited if self._succeeded_at.get(key, 0) <= began}:
            assert anyio.current_time() < began + within_s, f"{sorted(awaited)} did not go on within {within_s:g} s"
            await anyio.sleep(0.05)

    async def _again(self, live: Callable[..., Coroutine[Any, Any, None]], *given: Any) -> None:
        while True:
            try:
                await live(*given)
            except KafkaError:
                await anyio.sleep(0.1)

    def _note(self, name: str, partition: int = 0) -> None:
        self._succeeded_at[name, partition] = anyio.current_time()

    def _producer(self, **options: Any) -> Producer[Any, Any]:
        return Producer(self._servers, linger_ms=0, delivery_timeout_ms=10_000, max_block_ms=3000, **options, **QUICK)

    async def _produce(self) -> None:
        async with self._producer() as producer:
            for number in range(1_000_000):
                await producer.send_and_wait(EVENTS, b"%d" % number, partition=number % PARTITIONS)
                self._note("producer")
                await anyio.sleep(0.05)

    async def _transact(self) -> None:
        async with self._producer(transactional_id="orders", transaction_timeout_ms=10_000) as producer:
            for number in range(1_000_000):
                async with producer.transaction():
                    await producer.send(ORDERS, b"%d" % number, partition=number % PARTITIONS)
                self._note("transactions")
                await anyio.sleep(0.05)

    async def _read(self, name: str, make: Callable[[], Any]) -> None:
        async with make() as client:
            while True:
                for tp in await client.getmany(timeout_ms=200):
                    self._note(name, tp.partition)

    def _member(self) -> Any:
        consumer: Any = Consumer
        return consumer(
            EVENTS,
            bootstrap_servers=self._servers,
            group_id="group",
            group_protocol=self._protocol,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
            auto_commit_interval_ms=200,
            **ASKING,
        )

    def _reader(self) -> Any:
        consumer: Any = Consumer(
            bootstrap_servers=self._servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **ASKING,
        )
        consumer.assign([TopicPartition(ORDERS, index) for index in range(PARTITIONS)])
        return consumer

    def _sharer(self) -> Any:
        return ShareConsumer(EVENTS, bootstrap_servers=self._servers, group_id="jobs", **ASKING)
