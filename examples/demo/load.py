"""Events at a steady rate, and an auditor that checks that each arrives once."""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

import anyio

from aiokafka_lead import Consumer, Delivery, Producer

EVENT = struct.Struct(">Qd")
"""An event's number, and the time of its send (monotonic seconds of this process)."""
PADDING = bytes(84)
SLICE_S = 0.25
"""Seconds that one bar stands for."""
CATCH_UP_S = 0.1
"""Seconds by which a load may be late. After that it skips events, since a slow machine could never catch up."""
PATIENCE_S = 20
"""Seconds without events after which missing events count as lost."""


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of the values lie; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass
class Waits:
    """Latencies of events in ms, by phase of the cluster and by slice of time."""

    by_phase: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    by_slice: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    """The longest latency of the events that were sent in each slice."""

    def add(self, sent: float, ms: float, phase: str) -> None:
        """Add an event; ``sent`` is in seconds since the start."""
        self.by_phase[phase].append(ms)
        number = int(sent / SLICE_S)
        self.by_slice[number] = max(self.by_slice[number], ms)


@asynccontextmanager
async def connected_load(
    name: str, servers: str, topic: str, hints: Literal["trust", "off"], phase: Callable[[], str]
) -> AsyncIterator[Load]:
    """Yield a load whose clients have started and have metadata of the topic, so that the first events need not wait.

    ``phase`` returns the current phase of the cluster.
    """
    async with (
        Producer[bytes, bytes](servers, linger_ms=0, leader_hint_policy=hints) as producer,
        Consumer[bytes, bytes](
            topic, bootstrap_servers=servers, auto_offset_reset="earliest", leader_hint_policy=hints
        ) as consumer,
    ):
        await producer.partitions_for(topic)
        yield Load(name, topic, producer, consumer, phase)


class Load:
    """A producer and a consumer of one topic, and the outcome of every event."""

    def __init__(
        self,
        name: str,
        topic: str,
        producer: Producer[bytes, bytes],
        consumer: Consumer[bytes, bytes],
        phase: Callable[[], str],
    ) -> None:
        self.name = name
        self.sent = 0
        self.acknowledged = 0
        self.consumed = 0
        """Number of different events that the consumer has read."""
        self.duplicated = 0
        self.errors: list[Exception] = []
        """Errors of events that were not delivered."""
        self.acknowledgements = Waits()
        self.consumptions = Waits()
        self._topic = topic
        self._producer = producer
        self._consumer = consumer
        self._phase = phase
        self._started = 0.0
        self._is_enough = False
        self._is_sent = False
        self._complete = anyio.Event()
        self._seen = bytearray()
        """A byte for each event number: 1 if consumed."""

    @property
    def lost(self) -> int:
        """Return the number of events that were neither consumed nor reported as failed."""
        return max(0, self.sent - len(self.errors) - self.consumed)

    @property
    def is_exact(self) -> bool:
        """Return True if every event was acknowledged and consumed exactly once."""
        return self.sent == self.acknowledged == self.consumed and not self.duplicated

    async def run(self, rate: float) -> None:
        """Send ``rate`` events a second until `end` is called, and consume all. A slow machine sends fewer."""
        self._started = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._audit)
            await self._publish(rate)
            self._is_sent = True
            self._end_when_complete()
            await self._consume_the_rest()
            tasks.cancel_scope.cancel()

    def end(self) -> None:
        """Stop sending."""
        self._is_enough = True

    async def _consume_the_rest(self) -> None:
        consumed = -1
        while consumed < self.consumed and not self._complete.is_set():
            consumed = self.consumed
            with anyio.move_on_after(PATIENCE_S):
                await self._complete.wait()

    async def _publish(self, rate: float) -> None:
        due = time.monotonic()
        async with anyio.create_task_group() as tasks:
            while not self._is_enough:
                now = time.monotonic()
                due = max(due, now - CATCH_UP_S)
                while due <= now:
                    due += 1 / rate
                    sent_at = time.monotonic()
                    key = b"customer-%d" % (self.sent % 997)
                    delivery = await self._producer.send(self._topic, EVENT.pack(self.sent, sent_at) + PADDING, key=key)
                    self.sent += 1
                    tasks.start_soon(self._confirm, delivery, sent_at)
                await anyio.sleep(0.002)

    async def _confirm(self, delivery: Delivery, sent_at: float) -> None:
        try:
            await delivery
        except Exception as error:
            self.errors.append(error)
        else:
            self.acknowledged += 1
            self._time(self.acknowledgements, sent_at)

    async def _audit(self) -> None:
        while True:
            for records in (await self._consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    self._tick_off(record.value)
            self._end_when_complete()

    def _end_when_complete(self) -> None:
        if self._is_sent and not self.lost:
            self._complete.set()

    def _tick_off(self, value: bytes) -> None:
        number, sent_at = EVENT.unpack_from(value)
        if number >= len(self._seen):
            self._seen.extend(bytes(number + 1 - len(self._seen)))
        self.duplicated += self._seen[number]
        self.consumed += not self._seen[number]
        self._seen[number] = 1
        self._time(self.consumptions, sent_at)

    def _time(self, waits: Waits, sent_at: float) -> None:
        waits.add(sent_at - self._started, (time.monotonic() - sent_at) * 1000, self._phase())
