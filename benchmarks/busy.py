"""Other producers that keep the brokers busy, until Metadata answers become slow: KIP-951's own condition.

``python -m benchmarks.busy --bootstrap A,B,C --topic T --partitions N`` keeps one batch on its way to each partition,
until it is killed. The topic is compressed by the brokers, so that each batch costs them time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead._wire import encode_request
from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead.admin import NewTopic

SLOW_MS = 50.0
FIRST_PARTITIONS, LAST_PARTITIONS = 6, 192
BATCH = 200_000
WATCH_S = 4.0
_VERSION = 9


@asynccontextmanager
async def busy_brokers(bootstrap: str) -> AsyncIterator[float]:
    """Load the brokers until they take `SLOW_MS` for Metadata; gives the median milliseconds that they take then.

    Raises `RuntimeError` where they do not become so slow.
    """
    topic = f"busy-{uuid.uuid4().hex[:8]}"
    partitions, took = FIRST_PARTITIONS, 0.0
    config: dict[str, str | None] = {
        "compression.type": "zstd",
        "retention.bytes": "20000000",
        "segment.bytes": "10000000",
    }
    async with AdminClient(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, LAST_PARTITIONS, 3, topic_configs=config)])
    while partitions <= LAST_PARTITIONS:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.busy", "--bootstrap", bootstrap, "--topic", topic,
            "--partitions", str(partitions), stdout=subprocess.DEVNULL,
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
        partitions *= 2
    raise RuntimeError(f"Metadata takes {took:.0f} ms only")


async def metadata_ms(bootstrap: str, seconds: float) -> float:
    """The median time that the brokers take to answer Metadata."""
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
    """One batch after the other to each partition."""
    content = random.Random(1).randbytes(BATCH // 2).hex().encode()

    async def one(producer: Producer, partition: int) -> None:
        while True:
            await producer.send_and_wait(options.topic, content, partition=partition)

    async with (
        Producer(options.bootstrap, linger_ms=0, delivery_timeout_ms=600_000) as producer,
        asyncio.TaskGroup() as tasks,
    ):
        for partition in range(options.partitions):
            tasks.create_task(one(producer, partition))


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=FIRST_PARTITIONS)
    asyncio.run(keep_busy(parser.parse_args()))


if __name__ == "__main__":
    main()
