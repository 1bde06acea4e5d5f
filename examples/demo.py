"""Events flow while every leader moves and a broker dies and comes back elsewhere: nothing is lost, nobody waits.

    make demo                                            # an embedded cluster of three brokers
    python -m examples.demo --bootstrap HOST:PORT        # a real cluster (leaders move; killing brokers is up to you)

Every event carries its number and the time it was sent. The auditor consumes them, ticks the numbers off and measures.
The exit status is 0 only if every event was acknowledged and consumed exactly once.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
import uuid
from array import array
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio

from aiokafka_lead import Consumer, Producer
from examples.trouble import EmbeddedTrouble, RealTrouble, Trouble

EVENT = struct.Struct(">Qd")
"""An event's number, and when it was sent (monotonic seconds of this process)."""


@dataclass
class Tally:
    """What happened so far."""

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    consumed: int = 0
    duplicated: int = 0
    seen: bytearray = field(default_factory=bytearray)
    """One byte per event number: consumed or not."""
    acknowledged_ms: array[float] = field(default_factory=lambda: array("d"))
    end_to_end_ms: array[float] = field(default_factory=lambda: array("d"))

    @property
    def lost(self) -> int:
        """Acknowledged events that the consumer never saw."""
        return self.sent - self.failed - sum(self.seen)

    def tick_off(self, value: bytes, now: float) -> None:
        """Count one consumed event."""
        number, sent_at = EVENT.unpack_from(value)
        if number >= len(self.seen):
            self.seen.extend(bytes(number + 1 - len(self.seen)))
        if self.seen[number]:
            self.duplicated += 1
        self.seen[number] = 1
        self.consumed += 1
        self.end_to_end_ms.append((now - sent_at) * 1000)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the ordered values lie."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


async def publish(producer: Producer[bytes, bytes], topic: str, rate: float, seconds: float, tally: Tally) -> None:
    """Send events at a steady rate; each acknowledgement is timed on its own."""
    padding = bytes(84)
    started = time.monotonic()
    async with anyio.create_task_group() as tasks:

        async def confirm(delivery: object, sent_at: float) -> None:
            try:
                await delivery  # type: ignore[misc]
            except Exception as error:
                tally.failed += 1
                print(f"\nnot delivered: {error}", file=sys.stderr)
            else:
                tally.acknowledged += 1
                tally.acknowledged_ms.append((time.monotonic() - sent_at) * 1000)

        while (elapsed := time.monotonic() - started) < seconds:
            while tally.sent < elapsed * rate:
                now = time.monotonic()
                delivery = await producer.send(
                    topic, EVENT.pack(tally.sent, now) + padding, key=b"customer-%d" % (tally.sent % 997)
                )
                tally.sent += 1
                tasks.start_soon(confirm, delivery, now)
            await anyio.sleep(0.002)


async def audit(consumer: Consumer[bytes, bytes], tally: Tally, done: anyio.Event) -> None:
    """Consume until the publisher is done and every event it got acknowledged has come by."""
    while not (done.is_set() and sum(tally.seen) >= tally.sent - tally.failed):
        for records in (await consumer.getmany(timeout_ms=200)).values():
            now = time.monotonic()
            for record in records:
                tally.tick_off(record.value, now)


async def show_progress(tally: Tally, trouble: Trouble, started: float) -> None:
    """One line a second."""
    end = "\r" if sys.stdout.isatty() else "\n"
    while True:
        await anyio.sleep(1)
        recent = sorted(tally.acknowledged_ms[-2000:])
        print(
            f"{time.monotonic() - started:5.0f} s  sent {tally.sent:>8,}  acknowledged {tally.acknowledged:>8,}  "
            f"consumed {tally.consumed:>8,}  p99 {percentile(recent, 0.99):6.1f} ms  {trouble.latest:<44}",
            end=end,
            flush=True,
        )


def print_table(tally: Tally, trouble: Trouble) -> None:
    """The outcome."""
    print(f"\n\n{trouble.summary()}\n")
    print(f"{'sent':>10} {'acknowledged':>13} {'consumed':>10} {'lost':>6} {'duplicated':>11}")
    print(f"{tally.sent:>10,} {tally.acknowledged:>13,} {tally.consumed:>10,} {tally.lost:>6} {tally.duplicated:>11}\n")
    print(f"{'':<24}{'p50':>9}{'p99':>9}{'p99.9':>9}{'max':>9}  ms")
    for title, values in (
        ("send to acknowledgement", tally.acknowledged_ms),
        ("send to consumer", tally.end_to_end_ms),
    ):
        ordered = sorted(values)
        row = "".join(f"{percentile(ordered, share):>9.1f}" for share in (0.5, 0.99, 0.999, 1.0))
        print(f"{title:<24}{row}")


async def run(options: argparse.Namespace) -> bool:
    """Run the demo; True if every event came through exactly once."""
    tally = Tally()
    topic = f"demo-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        trouble: Trouble
        if options.bootstrap:
            trouble = await stack.enter_async_context(RealTrouble(options.bootstrap, topic, options.partitions))
        else:
            trouble = await stack.enter_async_context(EmbeddedTrouble(topic, options.partitions))
        servers = trouble.bootstrap_servers
        producer = await stack.enter_async_context(Producer[bytes, bytes](servers, linger_ms=0))
        consumer = await stack.enter_async_context(
            Consumer[bytes, bytes](topic, bootstrap_servers=servers, auto_offset_reset="earliest")
        )
        print(f"{options.rate:,.0f} events a second to {topic} ({options.partitions} partitions) on {servers}\n")
        done = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show_progress, tally, trouble, time.monotonic())
            tasks.start_soon(trouble.make, options.seconds)
            tasks.start_soon(audit_then_stop, consumer, tally, done, tasks.cancel_scope)
            await publish(producer, topic, options.rate, options.seconds, tally)
            await producer.flush()
            done.set()
    print_table(tally, trouble)
    return tally.lost == 0 and tally.duplicated == 0 and tally.failed == 0


async def audit_then_stop(
    consumer: Consumer[bytes, bytes], tally: Tally, done: anyio.Event, scope: anyio.CancelScope
) -> None:
    """Audit to the end, for ten seconds past the last event at most, then end the demo."""

    async def deadline() -> None:
        await done.wait()
        await anyio.sleep(10)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deadline)
        await audit(consumer, tally, done)
        tasks.cancel_scope.cancel()
    scope.cancel()


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", help="HOST:PORT of a real cluster; default: an embedded one")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--rate", type=float, default=1000, help="events a second")
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    options = parser.parse_args()
    sys.exit(0 if anyio.run(run, options, backend=options.backend) else 1)


if __name__ == "__main__":
    main()
