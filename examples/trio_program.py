"""The same client on trio: a task produces, another consumes, and the nursery ends both.

    pip install aiokafka-lead trio
    python examples/trio_program.py [HOST:PORT]

Without an address, it starts an embedded cluster.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack

import trio

from aiokafka_lead import Consumer, Producer
from aiokafka_lead.testing import EmbeddedCluster

TOPIC = "greetings"
COUNT = 10


async def produce(servers: str) -> None:
    """Send COUNT greetings and wait until the brokers have them."""
    async with Producer(servers) as producer:
        deliveries = [await producer.send(TOPIC, f"hello {n}".encode()) for n in range(COUNT)]
        for delivery in deliveries:
            meta = await delivery
            print(f"stored at {meta.topic}-{meta.partition} offset {meta.offset}")


async def consume(servers: str) -> None:
    """Read COUNT greetings from the beginning of the topic."""
    async with Consumer(TOPIC, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        left = COUNT
        async for record in consumer:
            print(f"read {record.value!r}")
            left -= 1
            if not left:
                break


async def main() -> None:
    """Run both tasks concurrently."""
    async with AsyncExitStack() as stack:
        if len(sys.argv) > 1:
            servers = sys.argv[1]
        else:
            cluster = await stack.enter_async_context(EmbeddedCluster(brokers=3))
            servers = cluster.bootstrap_servers
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, servers)
            nursery.start_soon(consume, servers)


if __name__ == "__main__":
    trio.run(main)
