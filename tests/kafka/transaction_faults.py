"""Faults of transactions on a real Kafka: cancelled anywhere, a coordinator killed, epochs used up."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel

from aiokafka_lead import Producer, TopicPartition, Transaction
from aiokafka_lead._wire.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdRequest
from aiokafka_lead.errors import TransactionAbortedError
from tests.testing.raw import connected

from .harness import KafkaCluster
from .support import by_partition, in_thread, read_topic

PARTITIONS = 3
GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""
LAST_EPOCH = 32_766

Said = list[bytes]
"""The values of committed transactions, as their writer has learnt; each is in all partitions."""


class Warnings(logging.Handler):
    """Collects the client's warnings while used as a context manager.

    It leaves out warnings of the metadata, which name brokers that keep refusing, as they do on a busy machine.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "aiokafka_lead.metadata":
            self.texts.append(record.getMessage())

    def __enter__(self) -> Warnings:
        logging.getLogger("aiokafka_lead").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("aiokafka_lead").removeHandler(self)


async def one(txn: Transaction[bytes, bytes], topic: str, value: bytes) -> None:
    """Send a record to each partition, and offsets."""
    async with txn:
        for partition in range(PARTITIONS):
            await txn.send(topic, value, partition=partition)
            await anyio.lowlevel.checkpoint()
        await txn.send_offsets({TopicPartition(topic, 0): 1}, f"{topic}-group")


async def cancelled_at_random(producer: Producer, topic: str, rounds: int, rng: random.Random) -> Said:
    """Run transactions that are cancelled in body, send, commit or abort, and an uncancelled one after each."""
    said: Said = [b"first", b"second", b"third"]
    takes_s = 1.0
    for value in said:
        began = anyio.current_time()
        await one(producer.transaction(), topic, value)
        takes_s = min(takes_s, anyio.current_time() - began)
    for number in range(rounds):
        value = b"%d" % number
        txn = producer.transaction()
        with anyio.move_on_after(1.5 * takes_s * rng.random()) as scope:
            await one(txn, topic, value)
        assert scope.cancelled_caught or txn.outcome == "committed"
        assert txn.outcome != "unknown"
        if txn.outcome == "committed":
            said.append(value)
    await one(producer.transaction(), topic, b"last")
    return [*said, b"last"]


async def coordinator(kafka: KafkaCluster, kind: int, key: str) -> int:
    """Return the id of the broker that coordinates a group or a transactional id."""
    async with connected(kafka.bootstrap().split(",")[0]) as client:
        while True:
            answer = await client.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
            if not answer.coordinators[0].error_code:
                return answer.coordinators[0].node_id
            await anyio.sleep(0.1)


STEPS = 4
"""After the begin, after the sends, after the offsets, during the commit."""


async def with_a_kill(
    producer: Producer, kafka: KafkaCluster, topic: str, value: bytes, kind: int, key: str, step: int
) -> bool:
    """Run a transaction during which a coordinator gets SIGKILL, and restart it; return True if it committed."""
    killed: list[int] = []

    async def kill() -> None:
        killed.append(await coordinator(kafka, kind, key))
        await in_thread(kafka.kill, killed[0])

    offsets = {TopicPartition(topic, 0): 1}
    calls: list[Callable[[], Awaitable[Any]]] = [
        producer.begin_transaction,
        partial(_send_all, producer, topic, value),
        partial(producer.send_offsets_to_transaction, offsets, f"{topic}-group"),
    ]
    committed = False
    try:
        for number, call in enumerate(calls):
            await call()
            if number == step:
                await kill()
        async with anyio.create_task_group() as tasks:
            if step == len(calls):
                tasks.start_soon(kill)
            await producer.commit_transaction()
        committed = True
    except* TransactionAbortedError:
        pass
    await in_thread(kafka.start_broker, killed[0])
    for each in (topic, "__consumer_offsets", "__transaction_state"):
        await in_thread(kafka.wait_in_sync, each)
    return committed


async def _send_all(producer: Producer, topic: str, value: bytes) -> None:
    for partition in range(PARTITIONS):
        await producer.send(topic, value, partition=partition)


async def use_epochs_up(kafka: KafkaCluster, transactional_id: str, last: int) -> int:
    """Request producer ids until an epoch is reached, a minute for the full range; return the producer id."""
    broker = await coordinator(kafka, TRANSACTION, transactional_id)
    async with connected(kafka.address(broker)) as client:
        while True:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
            answer = await client.call(request, 4)
            if not answer.error_code and answer.producer_epoch >= last:
                return answer.producer_id


async def check(kafka: KafkaCluster, topic: str, said: Said) -> None:
    """Check that a reader of committed records sees exactly these, in order."""
    count = PARTITIONS * len(said)
    seen = by_partition(await read_topic(kafka, topic, PARTITIONS, count, isolation_level="read_committed"))
    assert {partition: [record.value for record in records] for partition, records in seen.items()} == dict.fromkeys(
        range(PARTITIONS), said
    )
