"""A steady flow of numbered records through a cluster, and a check that each arrived once and in order."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskStatus

from aiokafka_lead import Consumer, Producer, RecordMetadata

from .harness import KafkaCluster
from .support import confluent_read, in_thread, make_consumer, make_producer, partitions_of

FLOW_PARTITIONS = 6
"""Number of partitions of the topic that `while_records_flow` creates."""


class Progress:
    """Wakes the tasks that wait for a count to grow."""

    def __init__(self) -> None:
        self._moved = anyio.Event()

    def moved(self) -> None:
        """Wake the tasks after a change."""
        self._moved.set()
        self._moved = anyio.Event()

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Wait until ``condition`` is true; raise TimeoutError if it never is."""
        with anyio.fail_after(timeout_s):
            while not condition():
                await self._moved.wait()


@dataclass
class Flow:
    """Sends 0, 1, 2, ... evenly to each partition of a topic, until it is stopped; keeps the outcomes."""

    producer: Producer
    topic: str
    partitions: int
    per_second: float = 1200
    """Records per second in all partitions together. More would slow concurrent tests."""
    at_once: int = 25
    """Records sent to each partition in one batch; smaller batches would cost the brokers more requests."""
    sent: int = 0
    """Records per partition."""
    failures: list[BaseException] = field(default_factory=list)
    slowest_s: float = 0
    """The longest time from a send to its acknowledgement."""
    acknowledged: int = 0
    _progress: Progress = field(default_factory=Progress)
    _stop: anyio.Event = field(default_factory=anyio.Event)

    def stop(self) -> None:
        """Stop sending."""
        self._stop.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Send until `stop`, then wait for every outcome."""
        task_status.started()
        begin = time.monotonic()
        async with anyio.create_task_group() as tasks:
            while not self._stop.is_set():
                due = (time.monotonic() - begin) * self.per_second / self.partitions
                while self.sent < due and not self._stop.is_set():
                    values = [b"%d" % n for n in range(self.sent, self.sent + self.at_once)]
                    for partition in range(self.partitions):
                        sent_at = time.monotonic()
                        batch = await self.producer.send_many(self.topic, values, partition=partition)
                        tasks.start_soon(self._outcome, batch, sent_at)
                    self.sent += self.at_once
                await anyio.sleep(0.02)

    async def _outcome(self, batch: Awaitable[Sequence[RecordMetadata | BaseException]], sent_at: float) -> None:
        outcomes = await batch
        self.slowest_s = max(self.slowest_s, time.monotonic() - sent_at)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                self.failures.append(outcome)
            else:
                self.acknowledged += 1
        self._progress.moved()

    async def progress(self, records: int, timeout_s: float = 60) -> None:
        """Wait until this many more records per partition have been sent, and acknowledged."""
        target = self.sent + records
        acknowledged = self.acknowledged + records * self.partitions
        await self._progress.until(lambda: self.sent >= target and self.acknowledged >= acknowledged, timeout_s)

    def assert_all_acknowledged(self) -> None:
        """Check that no send failed."""
        assert not self.failures, f"{len(self.failures)} failed, the first: {self.failures[0]!r}"
        assert self.acknowledged == self.sent * self.partitions

    async def assert_stored_once_in_order(self, kafka: KafkaCluster) -> None:
        """Check that another client finds exactly the numbers that were sent, in their order, in each partition."""
        messages = await in_thread(confluent_read, kafka, self.topic, self.partitions)
        found: dict[int, list[int]] = {partition: [] for partition in range(self.partitions)}
        for message in messages:
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert value is not None
            found[partition].append(int(value))
        for partition, numbers in found.items():
            assert len(numbers) == self.sent, f"partition {partition}: {self.sent} sent, {len(numbers)} stored"
            assert numbers == list(range(self.sent)), f"partition {partition} is out of order"


@dataclass
class Follower:
    """Reads a running flow, and checks the order."""

    consumer: Consumer
    partitions: int
    next_number: list[int] = field(init=False)
    _progress: Progress = field(default_factory=Progress)

    def __post_init__(self) -> None:
        self.next_number = [0] * self.partitions

    async def run(self) -> None:
        """Read until cancelled; raise AssertionError at a number that is not its partition's next."""
        async for record in self.consumer:
            assert record.value is not None
            number, expected = int(record.value), self.next_number[record.partition]
            assert number == expected, f"partition {record.partition}: {number} where {expected} is due"
            self.next_number[record.partition] += 1
            self._progress.moved()

    async def caught_up(self, flow: Flow, timeout_s: float = 60) -> None:
        """Wait until everything that the flow sent has been read."""
        await self._progress.until(lambda: all(number >= flow.sent for number in self.next_number), timeout_s)


async def while_records_flow(
    kafka: KafkaCluster, topic: str, trouble: Callable[[Flow], Awaitable[None]], **options: Any
) -> Flow:
    """Run ``trouble`` while an idempotent producer writes and a consumer reads; check stored and consumed records."""
    await in_thread(kafka.create_topic, topic, partitions=FLOW_PARTITIONS, config={"min.insync.replicas": "2"})
    async with make_producer(kafka, linger_ms=2, **options) as producer, make_consumer(kafka) as consumer:
        consumer.assign(partitions_of(topic, FLOW_PARTITIONS))
        flow = Flow(producer, topic, FLOW_PARTITIONS)
        follower = Follower(consumer, FLOW_PARTITIONS)
        async with anyio.create_task_group() as reading:
            reading.start_soon(follower.run)
            async with anyio.create_task_group() as sending:
                await sending.start(flow.run)
                await flow.progress(200)
                await trouble(flow)
                await flow.progress(200)
                flow.stop()
            flow.assert_all_acknowledged()
            await follower.caught_up(flow)
            reading.cancel_scope.cancel()
        await flow.assert_stored_once_in_order(kafka)
    return flow
