"""Producers and consumers of the benchmark ``roll``, and their measurements."""

from __future__ import annotations

import asyncio
import itertools
import math
import struct
import time
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from aiokafka_lead import Consumer, Delivery, Producer

from .traces import Trace

SUBSCRIPTIONS = 3
VALUE_BYTES = 512
DRAIN_S = 60.0
RESTART_S = 10.0
"""Seconds after the beginning of a shutdown in which a record that is due is traced as part of the restart."""
_HEAD = struct.Struct(">dq")
"""Start of a record's value: the time when it was due, and its number, which is negative if it does not count."""


class Times:
    """Histogram of times, in tenths of a millisecond."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        self._counts[int(10_000 * seconds)] += 1

    def percentiles(self) -> list[float]:
        """Return p50, p99 and the maximum, in milliseconds."""
        total = self._counts.total()
        found, seen = [], 0
        wanted = [0.5 * total, 0.99 * total, total]
        for tenths, count in sorted(self._counts.items()):
            seen += count
            while wanted and seen >= wanted[0]:
                found.append(tenths / 10)
                wanted.pop(0)
        return found or [math.nan] * 3


class Subscription:
    """Records read by the consumers of one group."""

    def __init__(self) -> None:
        self.read = 0
        self.twice = 0
        self._seen = bytearray()

    def note(self, number: int) -> bool:
        """Count a record. Return True if it was delivered for the first time."""
        if number >= len(self._seen):
            self._seen.extend(bytes(number + 1_000_000 - len(self._seen)))
        if self._seen[number]:
            self.twice += 1
            return False
        self._seen[number] = 1
        self.read += 1
        return True


class Kept:
    """Times at which each record was due, acknowledged, and read by one group, which changes from record to record."""

    def __init__(self) -> None:
        self._due, self._acked, self._read = array("d"), array("d"), array("d")

    def due(self, at: float) -> None:
        """Add a record that is due at this time."""
        self._due.append(at)
        self._acked.append(math.nan)
        self._read.append(math.nan)

    def acked(self, number: int, at: float) -> None:
        self._acked[number] = at

    def read(self, number: int, subscription: int, at: float) -> None:
        if number % SUBSCRIPTIONS == subscription:
            self._read[number] = at

    def traces(self, run: str, client: str, restarts: Sequence[float]) -> Iterator[Trace]:
        """Yield the times of all records. ``restarts`` are the times at which brokers began to shut down, in order."""
        for number, times in enumerate(zip(self._due, self._acked, self._read, strict=True)):
            due, *reached = times
            before = bisect_right(restarts, due)
            restarting = before and due < restarts[before - 1] + RESTART_S
            phase = "a broker restarts" if restarting else "between restarts"
            acked, read = (None if math.isnan(at) else round(1e6 * at) for at in reached)
            yield Trace(run, client, phase, number, round(1e6 * due), acked, read)


class Load:
    """Writers and readers, and their measurements."""

    def __init__(self, topic: str, per_second: float, producers: Sequence[Producer], *, keep: bool = False) -> None:
        """Create a load. With ``keep``, the times of all records are stored in `kept`."""
        self.produce, self.end_to_end = Times(), Times()
        self.subscriptions = [Subscription() for _ in range(SUBSCRIPTIONS)]
        self.sent = self.acknowledged = self.failed = 0
        self.measuring = False
        self.kept = Kept() if keep else None
        self._topic = topic
        self._per_second = per_second
        self._producers = itertools.cycle(producers)
        self._progress = asyncio.Event()

    async def write(self) -> None:
        """Send each record when it is due, even if earlier records are not acknowledged."""
        rest = bytes(VALUE_BYTES - _HEAD.size)
        began, count = time.monotonic(), 0
        while True:
            while (due_at := began + count / self._per_second) <= time.monotonic():
                number = self.sent if self.measuring else -1
                if number >= 0 and self.kept is not None:
                    self.kept.due(due_at)
                delivery = await next(self._producers).send(self._topic, _HEAD.pack(due_at, number) + rest)
                if number >= 0:
                    self.sent += 1
                    delivery.add_done_callback(partial(self._done, due_at, number))
                count += 1
            await asyncio.sleep(0.002)

    def _done(self, due_at: float, number: int, delivery: Delivery) -> None:
        self._progress.set()
        if delivery.exception() is not None:
            self.failed += 1
            return
        now = time.monotonic()
        self.acknowledged += 1
        self.produce.add(now - due_at)
        if self.kept is not None:
            self.kept.acked(number, now)

    async def read(self, consumer: Consumer, number: int) -> None:
        """Read as a member of a group until cancelled."""
        subscription = self.subscriptions[number]
        async for batch in consumer.batches():
            now = time.monotonic()
            for value in batch.values:
                due_at, record = _HEAD.unpack_from(value or b"")
                if record >= 0:
                    self.end_to_end.add(now - due_at)
                    if subscription.note(record) and self.kept is not None:
                        self.kept.read(record, number, now)
            self._progress.set()

    def pending(self) -> tuple[int, int]:
        """Return the number of unacknowledged records, and of records that some group has not read."""
        unread = self.sent - self.failed - min(each.read for each in self.subscriptions)
        return self.sent - self.acknowledged - self.failed, unread

    async def drain(self) -> None:
        """Wait for pending records, with a time limit. Records that take longer are not counted."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while any(self.pending()):
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            pass
