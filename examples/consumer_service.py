"""A consumer microservice: totals per customer from the orders of ``fastapi_orders``, until it is told to stop.

    python examples/consumer_service.py [HOST:PORT]        # default localhost:9092; Ctrl-C or SIGTERM ends it

It reads every partition of the topic from the beginning, batch by batch, and prints the totals whenever they changed.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter

from aiokafka_lead import Consumer

TOPIC = "orders"


async def serve(servers: str) -> None:
    """Fold orders into totals until the task is cancelled."""
    totals: Counter[str] = Counter()
    async with Consumer(TOPIC, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        print(f"reading {TOPIC} from {servers}")
        async for batch in consumer.batches():
            for value in batch.values:
                if value is None:
                    continue  # a tombstone
                order = json.loads(value)
                totals[order["customer"]] += order["cents"]
            print(f"{batch.topic}-{batch.partition} up to {batch.offsets[-1]}: {dict(totals)}")


async def main() -> None:
    """Run the service; SIGTERM, as an orchestrator sends it, ends it as cleanly as Ctrl-C."""
    service = asyncio.create_task(serve(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, service.cancel)
    try:
        await service
    except asyncio.CancelledError:
        print("stopped")


if __name__ == "__main__":
    asyncio.run(main())
