"""Two members of a share group in a separate process: ``python -m tests.kafka.share_worker SERVERS TOPIC GROUP``.

They write each record's value to the standard output when its handler has succeeded, until the process is killed.
"""

from __future__ import annotations

import random
import sys

import anyio

from aiokafka_lead import ShareConsumer, ShareRecord


async def handle(record: ShareRecord[bytes | None, bytes | None]) -> None:
    """Take some time, and fail now and then, with unlimited attempts."""
    await anyio.sleep(random.random() * 0.05)
    if record.delivery_count == 1 and random.random() < 0.1:
        raise RuntimeError("now and then")
    assert record.value is not None
    sys.stdout.buffer.write(record.value + b"\n")
    sys.stdout.buffer.flush()


async def main(*arguments: str) -> None:
    servers, topic, group = arguments
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(work, servers, topic, group)


async def work(servers: str, topic: str, group: str) -> None:
    async with ShareConsumer(topic, bootstrap_servers=servers, group_id=group) as jobs:
        await jobs.run(handle, concurrency=8, retry_backoff_ms=10)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
