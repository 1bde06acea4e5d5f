"""Cost of handlers with different parameters, and of FastStream and Prosody: CPU time per record in microseconds.

``python -m benchmarks handlers [--records 100000] [--rounds 5] [--faststream PYTHON] [--prosody PYTHON]``: PYTHON is
the interpreter of an environment with faststream[kafka], pydantic and msgspec, or with prosody-events. The cases take
turns. Each case runs in a separate process, on an embedded broker in another process. The figure is the minimum over
all rounds of the user and system time of the process, from the first handled record to the last, including garbage
collection and commits.

Prosody needs Cassandra, except with its mock broker. The mock broker runs in the same process, but the time of its
thread is not counted. Because it serves only a few hundred records/s, Prosody handles 5% of the records.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pydantic

from aiokafka_lead import Consumer, Handlers, Producer
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

TOPIC, PARTITIONS = "orders", 6
ORDER = b'{"customer": "ann", "cents": 1250, "items": [{"name": "tea", "count": 2}, {"name": "cup", "count": 1}]}'


class Counted:
    """Counts records, and prints the CPU time that they took."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._count = 0
        self._began = 0.0
        self.over = asyncio.Event()

    def count(self) -> None:
        """Count a record."""
        if not self._count:
            self._began = time.process_time()
        self._count += 1
        if self._count == self._records:
            print((time.process_time() - self._began) * 1e6 / self._records, flush=True)
            self.over.set()


class Item(pydantic.BaseModel):
    name: str
    count: int


class Order(pydantic.BaseModel):
    customer: str
    cents: int
    items: list[Item]


class ItemStruct(msgspec.Struct):
    name: str
    count: int


class OrderStruct(msgspec.Struct):
    customer: str
    cents: int
    items: list[ItemStruct]


def handler_of(case: str, counted: Counted) -> Any:
    """Return the handler of a case."""

    async def plain(record):  # type: ignore[no-untyped-def]
        counted.count()

    async def by_hand(record):  # type: ignore[no-untyped-def]
        Order.model_validate_json(record.value)
        counted.count()

    async def by_pydantic(order: Order) -> None:
        counted.count()

    async def by_msgspec(order: OrderStruct) -> None:
        counted.count()

    async def waiting(record):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0)
        counted.count()

    handlers = Handlers()
    handlers.on(TOPIC)(plain)
    handlers.on("others")(by_pydantic)
    handlers.on("more")(by_msgspec)
    return {
        "plain": plain,
        "pydantic, called by hand": by_hand,
        "pydantic": by_pydantic,
        "msgspec": by_msgspec,
        "routed by topic": handlers,
        "plain, and waits once": waiting,
    }[case]


CASES = [
    "plain",
    "routed by topic",
    "plain, and waits once",
    "pydantic, called by hand",
    "pydantic",
    "msgspec",
]


async def handle(servers: str, records: int, case: str) -> None:
    """Handle the records."""
    counted = Counted(records)
    topics = (TOPIC, "others", "more") if case == "routed by topic" else (TOPIC,)
    options: dict[str, Any] = {"auto_offset_reset": "earliest", "group_id": f"{os.getpid()}"}
    async with Consumer(*topics, bootstrap_servers=servers, **options) as consumer:
        running = asyncio.create_task(consumer.run(handler_of(case, counted)))
        await counted.over.wait()
        await consumer.stop()
        await running


FASTSTREAM = """
import asyncio, os, sys, time
import msgspec, pydantic
from faststream import FastStream
from faststream.kafka import KafkaBroker
from faststream.kafka.annotations import KafkaMessage
servers, records, case = sys.argv[1], int(sys.argv[2]), sys.argv[3]
class Item(pydantic.BaseModel):
    name: str
    count: int
class Order(pydantic.BaseModel):
    customer: str
    cents: int
    items: list[Item]
seen, began, over = 0, 0.0, asyncio.Event()
def count():
    global seen, began
    if not seen:
        began = time.process_time()
    seen += 1
    if seen == records:
        print((time.process_time() - began) * 1e6 / records, flush=True)
        over.set()
async def plain(message: KafkaMessage):  # annotated as bytes, it would be refused: JSON is decoded before
    count()
async def by_pydantic(order: Order):
    count()
broker = KafkaBroker(servers, logger=None)
options = {"group_id": str(os.getpid()), "auto_offset_reset": "earliest"}
broker.subscriber("orders", **options)(plain if case == "plain" else by_pydantic)
async def main():
    async with broker:
        await broker.start()
        await over.wait()
asyncio.run(main())
"""
FASTSTREAM_CASES = ["plain", "pydantic"]

PROSODY = """
import asyncio, pathlib, sys
from prosody import EventHandler, ProsodyClient
records, order = int(sys.argv[1]), {
    "customer": "ann", "cents": 1250, "items": [{"name": "tea", "count": 2}, {"name": "cup", "count": 1}]
}
def ticks():
    total = 0
    for task in pathlib.Path("/proc/self/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        if name != "rdk:mock":
            total += sum(map(int, rest.split()[11:13]))
    return total
seen, began, over = 0, 0, asyncio.Event()
class Plain(EventHandler):
    async def on_message(self, context, message):
        global seen, began
        if not seen:
            began = ticks()
        seen += 1
        if seen == records:
            print((ticks() - began) * 1e4 / records, flush=True)
            over.set()
    async def on_excise(self, context, message): ...
    async def on_timer(self, context, timer): ...
async def main():
    client = await ProsodyClient.create(
        mock=True, bootstrap_servers="localhost:9092", group_id="handlers", source_system="load",
        subscribed_topics="orders", probe_port=None,
    )
    for first in range(0, records, 500):
        await asyncio.gather(*(client.send("orders", str(n % 1000), order) for n in range(first, first + 500)))
    await client.subscribe(Plain())
    await over.wait()
    await client.shutdown()
asyncio.run(main())
"""


async def fill(servers: str, records: int) -> None:
    """Write the records."""
    async with Producer(servers) as producer:
        keys = [b"%d" % (number % 1000) for number in range(records)]
        await (await producer.send_many(TOPIC, [ORDER] * records, keys))


def took(*command: str) -> float:
    """Run a process, and return the microseconds that it prints."""
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def main(arguments: list[str]) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--faststream", metavar="PYTHON")
    parser.add_argument("--prosody", metavar="PYTHON")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.case is not None:
        asyncio.run(handle(given.servers, given.records, given.case))
        return
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        for name in (TOPIC, "others", "more"):
            cluster.create_topic(name, PARTITIONS)
        servers = cluster.bootstrap_servers
        asyncio.run(fill(servers, given.records))
        runs: dict[str, Callable[[], float]] = {}
        for case in CASES:
            command = (sys.executable, "-m", "benchmarks", "handlers", "--records", str(given.records))
            runs[case] = partial(took, *command, "--case", case, "--servers", servers)
        for case in FASTSTREAM_CASES if given.faststream else ():
            command = (given.faststream, "-c", FASTSTREAM, servers, str(given.records), case)
            runs[f"FastStream, {case}"] = partial(took, *command)
        if given.prosody:
            records = max(1, given.records // 20 // 500) * 500
            runs["Prosody, plain"] = partial(took, given.prosody, "-c", PROSODY, str(records))
        found: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(given.rounds):
            for name, run in runs.items():
                found[name].append(run())
    for name, figures in found.items():
        print(f"{name:28} {min(figures):8.2f} us   (rounds: {', '.join(f'{each:.2f}' for each in figures)})")
