"""Load the brokers until Metadata responses become slow, the condition for which KIP-951 was written.

``python -m benchmarks.busy --bootstrap A,B,C --topic T --connections N`` keeps one batch in flight on each of N
connections to every broker until it is killed. Each broker has one request handler (``num.io.threads``), and flushes
each batch to its disk (``flush.messages``), which takes 10 ms (`slow_disks`). All other requests therefore wait behind
these Produce requests. The processors, which brokers and clients share, are mostly idle.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from aiokafka_lead import AdminClient
from aiokafka_lead._records import StoredRecord, build_batch
from aiokafka_lead._wire import encode_request
from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType, NewTopic

SLOW_DISK = Path(__file__).with_name("slow_disk.c")
SLOW_MS = 50.0
FLUSH_MS = 10
FIRST_CONNECTIONS, LAST_CONNECTIONS = 2, 128
"""First and last number of connections to each broker. The number is doubled until responses are slow."""
BROKERS = ConfigResource(ConfigResourceType.BROKER, "")
PARTITIONS = 30
BATCH = 1_000
HANDLERS = (4, 2, 1)
"""Numbers of request handlers, set one after another, because a change may at most halve the number (8 by default)."""
WATCH_S = 4.0
_VERSION = 9


@contextmanager
def slow_disks() -> Iterator[None]:
    """During a block, start brokers whose flushes take `FLUSH_MS` longer for topics of `busy_brokers`. Needs gcc."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "slow_disk.so")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, SLOW_DISK, "-ldl"], check=True)
        preloaded = {"LD_PRELOAD": str(library), "SLOW_DISK_MS": str(FLUSH_MS)}
        before = {name: os.environ.get(name) for name in preloaded}
        os.environ.update(preloaded)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


@asynccontextmanager
async def busy_brokers(bootstrap: str) -> AsyncIterator[float]:
    """Load the brokers until a Metadata response takes at least `SLOW_MS`. Yield its median time in milliseconds.

    Raises RuntimeError if the brokers do not become slow.
    """
    topic = f"busy-{uuid.uuid4().hex[:8]}"
    connections, took = FIRST_CONNECTIONS, 0.0
    config: dict[str, str | None] = {
        "flush.messages": "1",
        "retention.bytes": "20000000",
        "segment.bytes": "10000000",
    }
    async with AdminClient(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1, topic_configs=config)])
        for handlers in HANDLERS:
            await admin.incremental_alter_configs({BROKERS: [ConfigChange("num.io.threads", str(handlers))]})
            await asyncio.sleep(1)  # every broker must apply the change before it accepts the next one
    while connections <= LAST_CONNECTIONS:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.busy", "--bootstrap", bootstrap, "--topic", topic,
            "--connections", str(connections), stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await asyncio.sleep(WATCH_S)
            took = await metadata_ms(bootstrap, WATCH_S)
            if took >= SLOW_MS:
                yield took
                return
        finally:
            process.kill()
            await process.wait()
        connections *= 2
    raise RuntimeError(f"Metadata takes only {took:.0f} ms")


async def metadata_ms(bootstrap: str, seconds: float) -> float:
    """Return the brokers' median response time to Metadata, in milliseconds."""
    took: list[float] = []
    async with asyncio.TaskGroup() as tasks:
        for server in bootstrap.split(","):
            tasks.create_task(_ask(server, seconds, took))
    return statistics.median(took)


async def _ask(server: str, seconds: float, took: list[float]) -> None:
    host, port = server.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    until = time.monotonic() + seconds
    correlation_id = 0
    while time.monotonic() < until:
        correlation_id += 1
        began = time.monotonic()
        writer.writelines(encode_request(MetadataRequest(topics=[]), _VERSION, correlation_id, "busy"))
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        took.append(1000 * (time.monotonic() - began))
        await asyncio.sleep(0.05)
    writer.close()


async def keep_busy(options: argparse.Namespace) -> None:
    """Send a batch on each connection as soon as the previous batch is answered."""
    async with AdminClient(options.bootstrap) as admin:
        described = (await admin.describe_topics([options.topic]))[options.topic].partitions
        brokers = {each.node_id: (each.host, each.port) for each in (await admin.describe_cluster()).brokers}
    led = {
        node_id: itertools.cycle([each.partition for each in described if each.leader_id == node_id])
        for node_id in brokers
    }
    async with asyncio.TaskGroup() as tasks:
        for _ in range(options.connections):
            for node_id, (host, port) in brokers.items():
                tasks.create_task(_write(host, port, options.topic, next(led[node_id])))


async def _write(host: str, port: int, topic: str, partition: int) -> None:
    record = StoredRecord(int(time.time() * 1000), value=random.Random(1).randbytes(BATCH // 2).hex().encode())
    data = PartitionProduceData(index=partition, records=memoryview(build_batch([record])))
    request = ProduceRequest(
        acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )
    frame = b"".join(encode_request(request, _VERSION, 1, "busy"))
    reader, writer = await asyncio.open_connection(host, port)
    while True:
        writer.write(frame)
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--connections", type=int, default=FIRST_CONNECTIONS, help="connections to each broker")
    asyncio.run(keep_busy(parser.parse_args()))


if __name__ == "__main__":
    main()
