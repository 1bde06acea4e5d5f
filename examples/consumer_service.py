"""A consumer service that bills the orders of ``fastapi_orders``, each once, until a signal stops it.

    python examples/consumer_service.py [HOST:PORT]        # default localhost:9092; Ctrl-C or SIGTERM ends it

Start as many instances as you like: they form a group and share the topic's partitions. Each customer's orders are
billed in order, and different customers' orders concurrently. An order may be delivered twice: if an instance was
killed before it had committed, or if a request was repeated although its first record was written. It is billed only
once, because its id is the key of its row in the LEDGER (default: ledger.db). Invalid orders go to ``orders.failed``,
with the cause in their headers. If HEALTH_PORT is set, the service answers an orchestrator's probes at ``/health/live``
and ``/health/ready``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from contextlib import closing

from aiokafka_lead import Consumer, ConsumerRecord

LEDGER = os.environ.get("LEDGER", "ledger.db")


def bill(order_id: str, customer: str, cents: int) -> str:
    """Bill an order, and return a message about it."""
    with closing(sqlite3.connect(LEDGER, timeout=30)) as ledger, ledger:
        entered = ledger.execute("INSERT OR IGNORE INTO bills VALUES (?, ?, ?)", (order_id, customer, cents)).rowcount
        (total,) = ledger.execute("SELECT sum(cents) FROM bills WHERE customer = ?", (customer,)).fetchone()
    return f"{customer} owes {total} cents" if entered else f"{order_id} was billed before"


async def handle(record: ConsumerRecord[bytes | None, bytes | None]) -> None:
    """Bill one order, in a thread so that other orders can be handled meanwhile."""
    place = f"{record.topic}-{record.partition} offset {record.offset}"
    order, order_id = json.loads(record.value or b""), dict(record.headers).get("order-id") or place.encode()
    print(f"{place}: {await asyncio.to_thread(bill, order_id.decode(), order['customer'], order['cents'])}")


async def main() -> None:
    """Run the service until SIGTERM, which an orchestrator sends, or Ctrl-C."""
    with closing(sqlite3.connect(LEDGER, timeout=30)) as ledger, ledger:
        ledger.execute("CREATE TABLE IF NOT EXISTS bills (order_id PRIMARY KEY, customer NOT NULL, cents NOT NULL)")
    servers = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    async with Consumer(
        "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest", close_timeout_ms=20_000
    ) as consumer:
        print(f"handling orders from {servers}")
        port = int(os.environ.get("HEALTH_PORT", "0")) or None
        # Returns after a signal, once running handlers have ended and their offsets are committed.
        await consumer.run(
            handle, concurrency=16, dead_letter_topic="orders.failed", stop_on_signals=True, health_port=port
        )
    print("stopped")


if __name__ == "__main__":
    asyncio.run(main())
