"""Applications: each starts a client, uses it until it is cancelled at any await or stops it, and starts another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import anyio

from aiokafka_lead import AcknowledgeType, AdminClient, Consumer, Delivery, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.testing import EmbeddedCluster

from .plain import clock

INPUT, OUTPUT = "input", "output"
LOSSY = "lossy"
"""A topic of one partition, whose leader loses records that it has acknowledged."""
CLOSE_MS = 3000.0
STOPS_WITHIN_S = CLOSE_MS / 1000 + 3.0
"""Bound of a stop: its timeout, and the 2 s that a cancelled stop has for its orderly part."""

QUICK: dict[str, Any] = {
    "request_timeout_ms": 2000,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 500,
    "reconnect_backoff_max_ms": 500,
    "metadata_max_age_ms": 10_000,
    "socket_connection_setup_timeout_ms": 1000,
    "socket_connection_setup_timeout_max_ms": 2000,
    "metadata_recovery_rebootstrap_trigger_ms": 5000,
    "close_timeout_ms": CLOSE_MS,
}

ASKING: dict[str, Any] = {**QUICK, "default_api_timeout_ms": 5000}
"""The same for clients other than producers."""


class Role(ABC):
    """One application."""

    def __init__(self, cluster: EmbeddedCluster, rng: Random, number: int) -> None:
        self.cluster = cluster
        self.rng = rng
        self.number = number
        self._ending = anyio.Event()
        self.cancels = True
        """True while its uses of a client may be cancelled."""
        self.lives = 0
        self.errors: Counter[str] = Counter()
        self.longest_stop_s = 0.0

    @property
    def over(self) -> bool:
        """True once the application should end by itself."""
        return self._ending.is_set()

    def end(self) -> None:
        """Finish without starting another client."""
        self._ending.set()

    async def run(self) -> None:
        """Use one client after another."""
        while not self.over:
            self.lives += 1
            with anyio.CancelScope() as scope:
                if self.cancels and self.rng.random() < 0.6:
                    scope.deadline = anyio.current_time() + self.rng.choice([0.05, 1.0, 4.0]) * self.rng.random()
                try:
                    await self._live(scope)
                except KafkaError as error:
                    self.errors[type(error).__name__] += 1
                    await anyio.sleep(0.1)

    async def _live(self, scope: anyio.CancelScope) -> None:
        client = self.client()
        ended_at: list[float] = []
        try:
            async with client:
                try:
                    await self.use(client)
                finally:
                    ended_at.append(clock.now)
        finally:
            if not ended_at and scope.cancel_called:
                ended_at.append(scope.deadline)
            self.longest_stop_s = max(self.longest_stop_s, *(clock.now - at for at in ended_at), 0.0)

    def servers(self) -> str:
        """Return, in any order, addresses of some brokers, which may move, and an address that leads to any broker."""
        found = self.cluster.bootstrap_servers.split(",")
        some = self.rng.sample(found, self.rng.randint(1, len(found)))
        return ",".join(self.rng.sample([*some, self.cluster.bootstrap_address], len(some) + 1))

    @abstractmethod
    def client(self) -> Any:
        """Return a new client."""

    @abstractmethod
    async def use(self, client: Any) -> None:
        """Do the application's work until its end."""

    async def pause(self, per_second: float) -> None:
        await anyio.sleep(self.rng.expovariate(per_second))


class Writer(Role):
    """Sends numbered values to the input, with acks from all replicas."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.deliveries: list[tuple[bytes, Delivery]] = []

    def client(self) -> Any:
        return Producer(
            self.servers(),
            linger_ms=self.rng.choice([0, 0, 5]),
            delivery_timeout_ms=60_000,
            max_block_ms=self.rng.choice([500, 10_000]),
            **QUICK,
        )

    async def use(self, client: Any) -> None:
        life, serial, before = self.lives, 0, len(self.deliveries)
        while not self.over:
            partition = self.rng.randrange(self.cluster.partition_count(INPUT))
            serial += 1
            value = b"%d/%d/%d" % (self.number, life, serial)
            try:
                self.deliveries.append((value, await client.send(INPUT, value, partition=partition)))
            except KafkaError as error:
                self.errors[type(error).__name__] += 1
            await self.pause(40)
        for _, delivery in self.deliveries[before:]:
            try:
                await delivery
            except KafkaError as error:
                self.errors[type(error).__name__] += 1


class Reader(Role):
    """Reads the committed records of a topic without a group, from the beginning."""

    def __init__(self, *given: Any, topic: str = INPUT) -> None:
        super().__init__(*given)
        self.topic = topic
        self.read: dict[int, dict[int, bytes]] = defaultdict(dict)
        """Values by partition and offset."""

    def client(self) -> Any:
        consumer: Any = Consumer(
            bootstrap_servers=self.servers(),
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=200,
            **ASKING,
        )
        consumer.assign([TopicPartition(self.topic, index) for index in range(self.cluster.partition_count(INPUT))])
        return consumer

    async def use(self, client: Any) -> None:
        due: Counter[int] = Counter()
        while not self.over:
            for tp, records in (await client.getmany(timeout_ms=200, max_records=self.rng.choice([1, 50]))).items():
                for record in records:
                    as_due = record.offset == due[tp.partition] or (
                        self.topic == OUTPUT and record.offset > due[tp.partition]
                    )
                    assert as_due, f"{tp}: {record.offset}, and {due[tp.partition]} is due"
                    due[tp.partition] = record.offset + 1
                    known = self.read[tp.partition].setdefault(record.offset, record.value)
                    assert known == record.value, f"{tp}, offset {record.offset}: {known!r}, then {record.value!r}"
            await self.pause(50)

    def values(self, partition: int) -> list[bytes]:
        """Return all values read, in the order of their offsets."""
        found = self.read[partition]
        return [found[offset] for offset in sorted(found)]


class LossyWriter(Role):
    """Sends records with acks 0 or 1."""

    def client(self) -> Any:
        return Producer(self.servers(), acks=self.rng.choice([0, 1]), enable_idempotence=False, **QUICK)

    async def use(self, client: Any) -> None:
        serial = 0
        while not self.over:
            serial += 1
            with suppress(KafkaError):
                await client.send(LOSSY, b"%d/%d" % (self.lives, serial))
            await self.pause(20)


class LossyReader(Role):
    """Reads all records, and goes back to the offset at which the log was truncated."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.read: dict[int, bytes] = {}
        """The value read last at each offset."""

    def client(self) -> Any:
        consumer: Any = Consumer(
            bootstrap_servers=self.servers(), auto_offset_reset="earliest", fetch_max_wait_ms=200, **ASKING
        )
        consumer.assign([TopicPartition(LOSSY, 0)])
        return consumer

    async def use(self, client: Any) -> None:
        due = 0
        while not self.over:
            for records in (await client.getmany(timeout_ms=200)).values():
                for record in records:
                    assert record.offset <= due, f"offset {record.offset}, and {due} is due"
                    due = record.offset + 1
                    self.read[record.offset] = record.value
            await self.pause(50)

    def has_all(self) -> bool:
        """Return True if the log as it is now was read."""
        log = self.cluster.records(LOSSY, 0)
        return all(self.read.get(record.offset) == record.value for record in log)


class Member(Role):
    """A member of a group that handles each value of the input at least once."""

    def __init__(self, *given: Any, group_id: str, protocol: str) -> None:
        super().__init__(*given)
        self.group_id = group_id
        self.protocol = protocol
        self.handled: Counter[bytes] = Counter()

    def client(self) -> Any:
        static = self.rng.random() < 0.3
        self.by_hand = self.rng.random() < 0.5
        consumer: Any = Consumer
        return consumer(
            INPUT,
            bootstrap_servers=self.servers(),
            group_id=self.group_id,
            group_protocol=self.protocol,
            group_instance_id=f"{self.group_id}-{self.number}" if static else None,
            auto_offset_reset="earliest",
            enable_auto_commit=not self.by_hand,
            auto_commit_interval_ms=self.rng.choice([100, 1000]),
            fetch_max_wait_ms=200,
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
            max_poll_interval_ms=20_000,
            **ASKING,
        )

    async def use(self, client: Any) -> None:
        while not self.over:
            for records in (await client.getmany(timeout_ms=200, max_records=self.rng.choice([1, 50]))).values():
                self.handled.update(record.value for record in records)
            if self.by_hand:
                try:
                    await client.commit(timeout_ms=1000)
                except KafkaError as error:
                    self.errors[type(error).__name__] += 1
            await self.pause(50)


class Sharer(Role):
    """A member of a share group."""

    group_id = "share"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.handled: Counter[bytes] = Counter()
        self.accepted: dict[bytes, float] = {}
        """Times of confirmed acknowledgements."""
        self.again: list[bytes] = []
        """Values handed out after their acceptance was confirmed."""

    def client(self) -> Any:
        return ShareConsumer(
            INPUT,
            bootstrap_servers=self.servers(),
            group_id=self.group_id,
            share_acknowledgement_mode="explicit",
            fetch_max_wait_ms=200,
            **ASKING,
        )

    async def use(self, client: Any) -> None:
        while not self.over:
            found = await client.getmany(timeout_ms=200, max_records=self.rng.choice([1, 20]))
            for record in (record for records in found.values() for record in records):
                self.handled[record.value] += 1
                chance = self.rng.random()
                if chance < 0.02:
                    continue  # its lock expires
                if chance < 0.1:
                    client.acknowledge(record, AcknowledgeType.RELEASE)
                    continue
                if chance < 0.2:
                    client.acknowledge(record, AcknowledgeType.RENEW)
                await self._accept(client, record)
            await self.pause(50)

    async def _accept(self, client: Any, record: Any) -> None:
        if record.value in self.accepted:
            self.again.append(record.value)
        outcome = client.acknowledge(record)
        if self.rng.random() < 0.2:
            try:
                await outcome
            except KafkaError as error:
                self.errors[type(error).__name__] += 1
            else:
                self.accepted[record.value] = clock.now


class Copier(Role):
    """Copies the input to the output, exactly once."""

    group_id = "copy"

    def client(self) -> Any:
        consumer: Any = Consumer
        return consumer(
            INPUT,
            bootstrap_servers=self.servers(),
            group_id=self.group_id,
            group_protocol=self.protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=200,
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
            **ASKING,
        )

    def __init__(self, *given: Any, protocol: str) -> None:
        super().__init__(*given)
        self.protocol = protocol

    async def use(self, client: Any) -> None:
        producer = Producer(
            self.servers(),
            transactional_id=f"copy-{self.number}",
            transaction_timeout_ms=10_000,
            max_block_ms=5000,
            **QUICK,
        )

        async def copy(record: Any, txn: Any) -> None:
            if self.rng.random() < 0.1:
                await self.pause(100)
            await txn.send(OUTPUT, record.value, partition=record.partition)

        async with producer, anyio.create_task_group() as tasks:
            tasks.start_soon(self._end, client)
            try:
                await client.run(
                    copy, exactly_once=producer, concurrency=8, max_transaction_records=self.rng.choice([5, 100])
                )
            except KafkaError as error:
                self.errors[type(error).__name__] += 1
            tasks.cancel_scope.cancel()

    async def _end(self, client: Any) -> None:
        await self._ending.wait()
        await client.stop()


class Admin(Role):
    """Sends various requests of an admin client."""

    def client(self) -> Any:
        return AdminClient(self.servers(), **ASKING)

    async def use(self, client: Any) -> None:
        calls = [
            lambda: client.list_topics(),
            lambda: client.describe_cluster(),
            lambda: client.describe_topics([INPUT, "none"]),
            lambda: client.list_transactions(),
            lambda: client.describe_consumer_groups(["classic", "consumer"]),
            lambda: client.list_consumer_group_offsets("classic"),
            lambda: client.list_offsets({TopicPartition(INPUT, 0): 0}),
            lambda: client.describe_producers([TopicPartition(INPUT, 0)]),
        ]
        while not self.over:
            try:
                await self.rng.choice(calls)()
            except KafkaError as error:
                self.errors[type(error).__name__] += 1
            await self.pause(5)
