"""A consumer microservice: handles the orders of ``fastapi_orders``, many at once, until it gets a signal to stop.

    python examples/consumer_service.py [HOST:PORT]        # default localhost:9092; Ctrl-C or SIGTERM ends it

Start it as often as you like: the instances form a group and share the topic's partitions. Each customer's orders are
handled in order, those of different customers side by side. An order that cannot be handled ends up in
``orders.failed`` with the cause in its headers, and the others go on.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter

from aiokafka_lead import Consumer, ConsumerRecord

TOPIC = "orders"


async def main() -> None:
    """Run the service; SIGTERM, as an orchestrator sends it, ends it as cleanly as Ctrl-C."""
    servers = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    totals: Counter[str] = Counter()

    async def handle(record: ConsumerRecord[bytes | None, bytes | None]) -> None:
        order = json.loads(record.value or b"")
        await asyncio.sleep(0.01)  # a database, say, or another service
        customer = order["customer"]
        totals[customer] += order["cents"]
        print(f"{record.topic}-{record.partition} offset {record.offset}: {customer} owes {totals[customer]} cents")

    consumer = Consumer(TOPIC, bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest")
    stopping = asyncio.Event()

    async def stop_at_a_signal() -> None:
        await stopping.wait()
        await consumer.stop()

    async with consumer, asyncio.TaskGroup() as tasks:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)
        tasks.create_task(stop_at_a_signal())
        print(f"handling {TOPIC} from {servers}")
        # Returns once stopped: handlers at work have ended, and what they did is committed.
        await consumer.run(handle, concurrency=16, order="key", dead_letter_topic=f"{TOPIC}.failed")
    print("stopped")


if __name__ == "__main__":
    asyncio.run(main())
