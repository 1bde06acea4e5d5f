"""The outbox pattern: what is written to a database and what is published cannot differ.

    python examples/outbox.py [HOST:PORT]        # default localhost:9092

An order and its event are written in one transaction of the database; nothing is sent there. A relay then sends the
events in their order, and deletes those that are acknowledged. If it dies in between, it sends some again: each event
has its order's id in a header, by which consumers know what they have seen, as ``consumer_service.py`` does. SQLite
stands for a database of yours.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import uuid
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from aiokafka_lead import Producer
from aiokafka_lead.errors import KafkaError

TOPIC = "orders"
BATCH = 500
LOOK_EVERY_S = 0.1
"""How often the relay looks for events while there are none."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL);
"""


def open_database(path: Path) -> None:
    """Create what is not there yet."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)


def place_order(path: Path, customer: str, cents: int) -> str:
    """What a request does: the order and its event, both or neither."""
    order_id = str(uuid.uuid4())
    event = json.dumps({"order": order_id, "customer": customer, "cents": cents})
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO orders VALUES (?, ?, ?)", (order_id, customer, cents))
        database.execute("INSERT INTO outbox (id, key, value) VALUES (?, ?, ?)", (order_id, customer, event))
    return order_id


def waiting(path: Path) -> list[tuple[int, str, str, str]]:
    """The oldest events that are not known to be stored in Kafka."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT * FROM outbox ORDER BY number LIMIT ?", (BATCH,)).fetchall()


def forget(path: Path, numbers: list[int]) -> None:
    """These are stored in Kafka. By their numbers, and not up to the last: a lower one may be committed later."""
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany("DELETE FROM outbox WHERE number = ?", [(number,) for number in numbers])


async def relay(path: Path, producer: Producer[bytes, bytes]) -> int:
    """Send what waits, and return how much that was.

    One relay at a time, so that the order stays: with several processes, hold a lock of the database meanwhile.
    """
    events = await asyncio.to_thread(waiting, path)
    deliveries = [
        await producer.send(TOPIC, value.encode(), key=key.encode(), headers=[("order-id", order_id.encode())])
        for _, order_id, key, value in events
    ]
    for delivery in deliveries:
        await delivery  # the first one that fails ends the relay: it and all after it are sent again
    await asyncio.to_thread(forget, path, [number for number, *_ in events])
    return len(events)


async def relay_until(stop: asyncio.Event, path: Path, producer: Producer[bytes, bytes]) -> None:
    """Send what waits, again and again, until stopped, and then the rest. While Kafka is away events wait here."""
    sent = 0
    while sent or not stop.is_set():
        try:
            sent = await relay(path, producer)
        except KafkaError as error:
            print(f"not published, and tried again: {error}")
            sent = 0
        if sent:
            print(f"published {sent} orders")
        else:
            with suppress(TimeoutError):  # or wait for the database to tell: LISTEN in PostgreSQL
                await asyncio.wait_for(stop.wait(), LOOK_EVERY_S)


async def main() -> None:
    """Place some orders, and relay them meanwhile."""
    servers = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "orders.db"
        open_database(path)
        async with Producer(servers, client_id="outbox") as producer, asyncio.TaskGroup() as tasks:
            stop = asyncio.Event()
            tasks.create_task(relay_until(stop, path, producer))
            for number in range(1000):
                await asyncio.to_thread(place_order, path, f"customer-{number % 7}", 100 + number)
            stop.set()


if __name__ == "__main__":
    asyncio.run(main())
