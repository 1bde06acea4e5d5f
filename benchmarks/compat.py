"""Cost of programs written for aiokafka, with `aiokafka_lead.compat` and with aiokafka.

``python -m benchmarks compat`` measures the client's CPU time per record with a sink broker. The programs differ only
in the import. They produce and consume with aiokafka's methods, and with FastStream if it is installed. FastStream also
runs on a client that sends no requests, which shows the cost of FastStream itself. Each run is a separate process.
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
from typing import Any

from .suite.brokers import sink
from .suite.sink import SinkTopic

CLIENTS = ("compat", "aiokafka")
NOTHING = "nothing"
"""Name of the client that sends no requests and returns the same record repeatedly."""
AT_ONCE = 500
"""Number of records in flight before a program waits for them."""
IN_BATCH = 100
"""Number of records in a batch."""
VALUE = bytes(100)


class Meter:
    """Measures CPU time per record, without the first tenth of the records, which includes imports and metadata."""

    def __init__(self, records: int) -> None:
        self._warm = records // 10
        self._records = records
        self._began = 0.0
        self.seen = 0

    def count(self, records: int = 1) -> bool:
        """Count records; return True once there are enough."""
        before, self.seen = self.seen, self.seen + records
        if before < self._warm <= self.seen:
            self._warm = self.seen
            self._began = time.process_time()
        return self.seen >= self._records

    def us(self) -> float:
        """Return the CPU time per record in microseconds."""
        return (time.process_time() - self._began) / (self.seen - self._warm) * 1e6


async def produce(bootstrap: str, topic: str, meter: Meter) -> None:
    """Produce with ``send``, and await many futures."""
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        while not meter.count(AT_ONCE):
            for future in [await producer.send(topic, VALUE) for _ in range(AT_ONCE)]:
                await future


async def consume(bootstrap: str, topic: str, meter: Meter) -> None:
    """Consume with ``async for``."""
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            if not record.value or meter.count():
                break


async def consume_one(bootstrap: str, topic: str, meter: Meter) -> None:
    """Consume with ``getone``."""
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        while not meter.count():
            await consumer.getone()


async def consume_many(bootstrap: str, topic: str, meter: Meter) -> None:
    """Consume with ``getmany``."""
    from aiokafka import AIOKafkaConsumer

    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        while True:
            for records in (await consumer.getmany(timeout_ms=1000, max_records=1000)).values():
                if meter.count(len(records)):
                    return


async def faststream_publish(bootstrap: str, topic: str, meter: Meter) -> None:
    """Publish with a FastStream broker, and wait for many messages at once."""
    from faststream.kafka import KafkaBroker  # pyright: ignore[reportMissingImports]

    async with KafkaBroker(bootstrap, linger_ms=5, logger=None) as broker:
        while not meter.count(AT_ONCE):
            sent = [await broker.publish(VALUE, topic, no_confirm=True) for _ in range(AT_ONCE)]
            for future in sent:
                await future


async def faststream_publish_one(bootstrap: str, topic: str, meter: Meter) -> None:
    """Publish with a FastStream broker, and wait for each message before the next."""
    from faststream.kafka import KafkaBroker  # pyright: ignore[reportMissingImports]

    async with KafkaBroker(bootstrap, logger=None) as broker:
        while not meter.count():
            await broker.publish(VALUE, topic)


async def faststream_publish_batch(bootstrap: str, topic: str, meter: Meter) -> None:
    """Publish a hundred messages at once with a FastStream broker, and wait for them."""
    from faststream.kafka import KafkaBroker  # pyright: ignore[reportMissingImports]

    async with KafkaBroker(bootstrap, logger=None) as broker:
        while not meter.count(IN_BATCH):
            await broker.publish_batch(*[VALUE] * IN_BATCH, topic=topic)


async def faststream_subscribe(bootstrap: str, topic: str, meter: Meter) -> None:
    """Consume with a FastStream subscriber."""
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


async def faststream_subscribe_batch(bootstrap: str, topic: str, meter: Meter) -> None:
    """Consume with a FastStream subscriber that takes a hundred records at a time."""
    from faststream.kafka import KafkaBroker  # pyright: ignore[reportMissingImports]

    broker = KafkaBroker(bootstrap, logger=None)
    done = asyncio.Event()

    async def handle(values: list[bytes]) -> None:
        if meter.count(len(values)):
            done.set()

    broker.subscriber(topic, auto_offset_reset="earliest", batch=True, max_records=IN_BATCH)(handle)
    async with broker:
        await broker.start()
        await done.wait()


Program = Callable[[str, str, Meter], Coroutine[None, None, None]]
PROGRAMS: dict[str, tuple[Program, int]] = {
    "produce": (produce, 60_000),
    "consume, async for": (consume, 300_000),
    "consume, getone": (consume_one, 300_000),
    "consume, getmany": (consume_many, 300_000),
    "FastStream publishes": (faststream_publish, 20_000),
    "FastStream publishes and waits": (faststream_publish_one, 5_000),
    "FastStream publishes batches": (faststream_publish_batch, 20_000),
    "FastStream subscribes": (faststream_subscribe, 20_000),
    "FastStream takes batches": (faststream_subscribe_batch, 50_000),
}
"""Programs, each with its number of records."""


def main(arguments: list[str]) -> None:
    """Run every program on both clients in turn, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compat", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=3, help="runs of each program; the table shows medians (default: 3)"
    )
    parser.add_argument("--run", nargs=4, metavar=("CLIENT", "PROGRAM", "BOOTSTRAP", "TOPIC"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        _run(*options.run)
        return
    clients = (*CLIENTS, NOTHING)
    print(
        f"{'client CPU per record, us':32}{'compat':>10}{'aiokafka':>10}{'share':>8}{'FastStream':>12}{'beside it':>11}"
    )
    with sink() as brokers:
        for name, (_, records) in PROGRAMS.items():
            faststream = name.startswith("FastStream")
            if faststream and find_spec("faststream") is None:
                continue
            kind = SinkTopic(6, 0 if "produce" in name or "publishes" in name else records, len(VALUE))
            topic = brokers.topic(kind)
            found: dict[str, list[float]] = {client: [] for client in (clients if faststream else CLIENTS)}
            for _ in range(options.rounds):
                for client, measured in found.items():
                    measured.append(_child(client, name, brokers.bootstrap, topic))
            own, theirs = (median(found[client]) for client in CLIENTS)
            line = f"{name:32}{own:9.2f}{theirs:9.2f}{own / theirs:8.0%}"
            if faststream:
                alone = median(found[NOTHING])
                line += f"{alone:12.2f}{(own - alone) / (theirs - alone):11.0%}"
            print(line, flush=True)


def _child(client: str, program: str, bootstrap: str, topic: str) -> float:
    command = [sys.executable, "-m", "benchmarks", "compat", "--run", client, program, bootstrap, topic]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    us: float = json.loads(done.stdout)
    return us


def _run(client: str, program: str, bootstrap: str, topic: str) -> None:
    if client != "aiokafka":
        import aiokafka_lead.compat

        aiokafka_lead.compat.install()  # the line in which the programs differ
    if client == NOTHING:
        _do_nothing()
    run, records = PROGRAMS[program]
    meter = Meter(records)
    asyncio.run(run(bootstrap, topic, meter))
    print(json.dumps(meter.us()))


def _do_nothing() -> None:
    """Replace aiokafka's classes with clients that send no requests."""
    from aiokafka_lead import compat

    class Producer(compat.AIOKafkaProducer):
        async def start(self) -> None:
            await super().start()
            self._done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._done.set_result(None)

        async def send(self, topic: str, *_: Any, **__: Any) -> Any:
            return self._done

        async def send_batch(self, batch: Any, topic: str, *, partition: int | None) -> Any:
            return self._done

        def create_batch(self) -> Any:
            return Batch()

    class Batch:
        def append(self, **_: Any) -> Any:
            return self

    class Consumer(compat.AIOKafkaConsumer):
        _again: Any = None
        _many: Any = None
        _given = 0

        async def getone(self, *_: Any) -> Any:
            self._given += 1
            if self._given % AT_ONCE == 0:
                await asyncio.sleep(0)
            self._again = self._again or await super().getone()
            return self._again

        async def getmany(self, *_: Any, **limits: Any) -> Any:
            await asyncio.sleep(0)
            self._many = self._many or await super().getmany(**limits)
            return self._many

    compat.AIOKafkaProducer, compat.AIOKafkaConsumer = Producer, Consumer  # type: ignore[misc]
