"""Transactions of several writers under constant faults on an embedded cluster: a history for the checker."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel

from aiokafka_lead import Consumer, Producer, TopicPartition, TransactionPipeline
from aiokafka_lead.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    InvalidTxnStateError,
    KafkaError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    TransactionAbortableError,
    UnknownServerError,
)
from aiokafka_lead.testing import EmbeddedCluster, Fault

from .history import History, Value, Written

TOPIC = "history"
PARTITIONS = 4
APIS = ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "Produce")
ERRORS = (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    InvalidTxnStateError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    TransactionAbortableError,
    UnknownServerError,
)
QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 40, "max_block_ms": 5_000, "request_timeout_ms": 300}


class Writer:
    """Runs one transaction after another under one transactional id."""

    def __init__(self, number: int, servers: str, history: History, rng: random.Random, topic: str = TOPIC) -> None:
        self.number = number
        self._servers = servers
        self._history = history
        self._rng = rng
        self._topic = topic
        self._transaction = 0
        self.pause_s = 0.0
        """Time that some transactions stay open, in seconds."""

    async def run(self, transactions: int, **options: Any) -> None:
        """Run this number of transactions. A producer that is fenced or fails to stop is replaced by another."""
        end = self._transaction + transactions
        name = f"writer-{self.number}"
        while self._transaction < end:
            try:
                async with Producer(self._servers, transactional_id=name, linger_ms=0, **options) as producer:
                    while self._transaction < end and producer.transaction_health().phase != "fenced":
                        await self._one(producer)
            except KafkaError:
                pass  # could not be started

    async def _one(self, producer: Producer) -> None:
        rng = self._rng
        self._transaction += 1
        written = self._history.written[self.number, self._transaction] = Written()
        txn = producer.transaction()
        with anyio.CancelScope() as scope:
            if rng.random() < 0.2:
                scope.deadline = anyio.current_time() + rng.random() * 0.05
            try:
                async with txn:
                    await self._fill(txn, written)
                    if rng.random() < 0.2:
                        raise ZeroDivisionError
            except (KafkaError, ZeroDivisionError):
                pass
        written.outcome = "aborted" if txn.outcome is None and not written.values else txn.outcome
        if written.outcome is None:
            await self._settle(producer, txn, written)

    async def _fill(self, txn: Any, written: Written) -> None:
        for index in range(self._rng.randrange(1, 8)):
            partition = self._rng.randrange(PARTITIONS)
            value = Value(self.number, self._transaction, index)
            written.values.append((partition, value))
            await txn.send(self._topic, value.encoded(), partition=partition)
            if self._rng.random() < 0.3:
                await anyio.sleep(self._rng.random() * 0.003)
        if self.pause_s and self._rng.random() < 0.02:
            await anyio.sleep(self.pause_s)
        if self._rng.random() < 0.3:
            await txn.send_offsets({TopicPartition(self._topic, 0): self._transaction}, f"group-{self.number}")

    async def _settle(self, producer: Producer, txn: Any, written: Written) -> None:
        """Determine outcomes that were not known in time."""
        for end in (producer.commit_transaction, producer.abort_transaction):
            try:
                await end()
            except KafkaError:
                pass
        written.outcome = txn.outcome


class PipelinedWriter(Writer):
    """The same with a pipeline: the outcome of a transaction is known after its successors have begun."""

    async def run(self, transactions: int, **options: Any) -> None:
        """Run this number of transactions. A pipeline that is fenced or fails to stop is replaced by another."""
        end = self._transaction + transactions
        name = f"writer-{self.number}"
        begun: list[tuple[Any, Written]] = []
        while self._transaction < end:
            try:
                async with TransactionPipeline(
                    self._servers, transactional_id=name, in_flight=IN_FLIGHT, linger_ms=0, **options
                ) as pipeline:
                    while self._transaction < end and not _is_fenced(pipeline):
                        await self._one_of(pipeline, begun)
            except KafkaError:
                pass  # could not be started, or not everything was committed
        for txn, written in begun:
            written.outcome = "aborted" if txn.outcome is None and not written.values else txn.outcome

    async def _one_of(self, pipeline: TransactionPipeline, begun: list[tuple[Any, Written]]) -> None:
        rng = self._rng
        self._transaction += 1
        written = self._history.written[self.number, self._transaction] = Written()
        txn = pipeline.transaction()
        begun.append((txn, written))
        with anyio.CancelScope() as scope:
            if rng.random() < 0.1:
                scope.deadline = anyio.current_time() + rng.random() * 0.05
            try:
                async with txn:
                    await self._fill(txn, written)
                    if rng.random() < 0.1:
                        raise ZeroDivisionError
                if rng.random() < 0.1:
                    await pipeline.settle()
            except (KafkaError, ZeroDivisionError):
                pass


IN_FLIGHT = 3


def _is_fenced(pipeline: TransactionPipeline) -> bool:
    return any(health.phase == "fenced" for health in pipeline.transaction_health())


class Troublemaker:
    """Causes a fault on an embedded cluster every few milliseconds."""

    def __init__(self, cluster: EmbeddedCluster, transactional_ids: list[str], rng: random.Random) -> None:
        self._cluster = cluster
        self._ids = transactional_ids
        self._rng = rng
        self._acts: list[Callable[[], Any]] = [
            self._fault,
            self._fault,
            self._fault,
            self._time_out,
            self._move_coordinator,
            self._move_leader,
            self._slow_markers,
            self._let_go,
        ]
        self._held: list[Fault] = []

    async def run(self) -> None:
        """Cause faults until cancelled."""
        while True:
            await anyio.sleep(self._rng.random() * 0.02)
            self._rng.choice(self._acts)()

    def _fault(self) -> None:
        rng = self._rng
        kind: dict[str, Any] = rng.choice(
            (
                {"disconnect": True},
                {"disconnect": True, "after": True},
                {"delay_ms": rng.randrange(1, 60)},
                {"delay_ms": rng.randrange(1, 60), "after": True},
                {"error_code": rng.choice(ERRORS)},
                {"hold": True},
                {"hold": True, "after": True},
            )
        )
        fault = self._cluster.faults.add(rng.choice(APIS), count=1, **kind)
        if "hold" in kind:
            self._held.append(fault)

    def _let_go(self) -> None:
        """Deliver requests that a slow network has held, even if the client has given them up."""
        held, self._held = self._held, []
        for fault in held:
            fault.remove()

    def _time_out(self) -> None:
        if self._rng.random() < 0.3:
            self._cluster.transactions.time_out(self._some_writer())

    def _move_coordinator(self) -> None:
        self._cluster.transactions.move_coordinator(self._some_writer())

    def _move_leader(self) -> None:
        self._cluster.move_leader(TOPIC, self._rng.randrange(PARTITIONS))

    def _slow_markers(self) -> None:
        self._cluster.transactions.marker_delay_ms = self._rng.choice((0, 0, 5, 30))

    def _some_writer(self) -> str:
        return self._rng.choice(self._ids)


async def read_all(servers: str, ends: dict[TopicPartition, int]) -> dict[int, list[Value]]:
    """Read the committed records up to these offsets."""
    options: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    seen: dict[int, list[Value]] = {tp.partition: [] for tp in ends}
    async with Consumer(bootstrap_servers=servers, **options) as consumer:
        consumer.assign(list(ends))
        with anyio.fail_after(60):
            while True:
                positions = [await consumer.position(tp) >= end for tp, end in ends.items()]
                if all(positions):
                    return seen
                for tp, records in (await consumer.getmany(timeout_ms=50)).items():
                    seen[tp.partition] += [Value.decoded(record.value) for record in records]


async def read_along(servers: str, topic: str, seen: dict[int, list[Value]]) -> None:
    """Read committed records as they come, until cancelled."""
    options: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    async with Consumer(bootstrap_servers=servers, **options) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
        while True:
            for tp, records in (await consumer.getmany(timeout_ms=50)).items():
                seen[tp.partition] += [Value.decoded(record.value) for record in records]


async def trouble(seed: int, transactions: int, version: int, writers: int = 3, *, pipelines: bool = False) -> History:
    """Run this number of transactions for each writer; the seed determines the faults."""
    rng = random.Random(seed)
    ids = [f"writer-{number}" for number in range(writers)]
    if pipelines:
        ids = [f"{name}-{number}" for name in ids for number in range(IN_FLIGHT)]
    kind = PipelinedWriter if pipelines else Writer
    history = History()
    async with EmbeddedCluster(brokers=3, features={"transaction.version": version}) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        servers = cluster.bootstrap_servers
        along: dict[int, list[Value]] = {partition: [] for partition in range(PARTITIONS)}
        async with anyio.create_task_group() as background:
            background.start_soon(Troublemaker(cluster, ids, random.Random(rng.random())).run)
            background.start_soon(read_along, servers, TOPIC, along)
            async with anyio.create_task_group() as group:
                for number in range(writers):
                    writer = kind(number, servers, history, random.Random(rng.random()))
                    group.start_soon(partial(writer.run, transactions, **QUICK))
            background.cancel_scope.cancel()
        cluster.faults.clear()
        cluster.transactions.marker_delay_ms = 0
        cluster.transactions.write_markers()
        ends = {TopicPartition(TOPIC, p): cluster.end_offset(TOPIC, p) for p in range(PARTITIONS)}
        history.reads = [along, await read_all(servers, ends)]
    return history
