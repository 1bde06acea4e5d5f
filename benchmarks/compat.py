"""What programs written for aiokafka cost on `aiokafka_lead.compat`, beside themselves on aiokafka.

``python -m benchmarks compat``: client CPU a record of the same programs, unchanged but for one line, on a sink broker.
They produce and consume with aiokafka's own calls, and with FastStream where that is installed. Each run is a process
of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from statistics import median

from .suite.brokers import sink
from .suite.sink import SinkTopic

CLIENTS = ("compat", "aiokafka")
AT_ONCE = 500
"""Records that are on their way before a program waits for them."""
VALUE = bytes(100)


class Meter:
    """CPU a record, from the end of the first tenth on: imports and the first metadata do not count."""

    def __init__(self, records: int) -> None:
        self._warm = records // 10
        self._records = records
        self._began = 0.0
        self.seen = 0

    def count(self, records: int = 1) -> bool:
        """So many records more; whether that was enough."""
        before, self.seen = self.seen, self.seen + records
        if before < self._warm <= self.seen:
            self._warm = self.seen
            self._began = time.process_time()
        return self.seen >= self._records

    def us(self) -> float:
        """Microseconds of CPU a record."""
        return (time.process_time() - self._began) / (self.seen - self._warm) * 1e6


async def produce(bootstrap: str, topic: str, meter: Meter) -> None:
    """Futures by the hundred, each awaited."""
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        while not meter.count(AT_ONCE):
            for future in [await producer.send(topic, VALUE) for _ in range(AT_ONCE)]:
                await future


async def consume(bootstrap: str, topic: str, meter: Meter) -> None:
    """``async for``."""
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            if not record.value or meter.count():
                break


async def consume_many(bootstrap: str, topic: str, meter: Meter) -> None:
    """``getmany``."""
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        while True:
            for records in (await consumer.getmany(timeout_ms=1000, max_records=1000)).values():
                if meter.count(len(records)):
                    return


async def faststream_publish(bootstrap: str, topic: str, meter: Meter) -> None:
    """A FastStream broker that publishes, and waits for many at once."""
    from faststream.kafka import KafkaBroker  # pyright: ignore[reportMissingImports]

    async with KafkaBroker(bootstrap, linger_ms=5, logger=None) as broker:
        while not meter.count(AT_ONCE):
            sent = [await broker.publish(VALUE, topic, no_confirm=True) for _ in range(AT_ONCE)]
            for future in sent:
                await future


async def faststream_subscribe(bootstrap: str, topic: str, meter: Meter) -> None:
    """A FastStream subscriber."""
    from faststream.kafka import KafkaBroker  # pyright: ignore[reportMissingImports]

    broker = KafkaBroker(bootstrap, logger=None)
    done = asyncio.Event()

    async def handle(value: bytes) -> None:
        if meter.count():
            done.set()

    broker.subscriber(topic, auto_offset_reset="earliest")(handle)
    async with broker:
        await broker.start()
        await done.wait()


Program = Callable[[str, str, Meter], Coroutine[None, None, None]]
PROGRAMS: dict[str, tuple[Program, int]] = {
    "produce": (produce, 60_000),
    "consume, async for": (consume, 300_000),
    "consume, getmany": (consume_many, 300_000),
    "FastStream publishes": (faststream_publish, 20_000),
    "FastStream subscribes": (faststream_subscribe, 20_000),
}
"""Each with its number of records."""


def main(arguments: list[str]) -> None:
    """Run every program on both clients in turn, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compat", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run; the median counts (default: 3)")
    parser.add_argument("--run", nargs=4, metavar=("CLIENT", "PROGRAM", "BOOTSTRAP", "TOPIC"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        _run(*options.run)
        return
    print(f"{'client CPU a record, us':28}{'compat':>10}{'aiokafka':>10}{'share':>8}")
    with sink() as brokers:
        for name, (_, records) in PROGRAMS.items():
            if name.startswith("FastStream") and find_spec("faststream") is None:
                continue
            kind = SinkTopic(6, 0 if "produce" in name or "publishes" in name else records, len(VALUE))
            topic = brokers.topic(kind)
            found: dict[str, list[float]] = {client: [] for client in CLIENTS}
            for _ in range(options.rounds):
                for client in CLIENTS:
                    found[client].append(_child(client, name, brokers.bootstrap, topic))
            own, theirs = (median(found[client]) for client in CLIENTS)
            print(f"{name:28}{own:10.2f}{theirs:10.2f}{own / theirs:8.0%}", flush=True)


def _child(client: str, program: str, bootstrap: str, topic: str) -> float:
    command = [sys.executable, "-m", "benchmarks", "compat", "--run", client, program, bootstrap, topic]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    us: float = json.loads(done.stdout)
    return us


def _run(client: str, program: str, bootstrap: str, topic: str) -> None:
    if client == "compat":
        import aiokafka_lead.compat

        aiokafka_lead.compat.install()  # the one line
    run, records = PROGRAMS[program]
    meter = Meter(records)
    asyncio.run(run(bootstrap, topic, meter))
    print(json.dumps(meter.us()))
