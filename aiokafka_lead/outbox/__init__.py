"""A transactional outbox: records are published if, and only if, a transaction of your database commits them.

    from aiokafka_lead.outbox import Outbox, Relay

    outbox = Outbox()

    async with AsyncSession(engine) as session, session.begin():
        session.add(order)
        await outbox.enqueue(session, "orders", order.to_json(), key=order.customer)

    async with Client("localhost:9092") as client:
        await Relay(outbox, engine, client).run()

`Outbox.enqueue` writes the record into a table, in the transaction that the application has open: with SQLAlchemy's
asyncio extension, asyncpg or aiosqlite. A `Relay` sends the rows in order, and deletes them when Kafka has
stored them. Databases are PostgreSQL and SQLite. The module imports no library of them.

How it adds up:

- Records of a key are in one *shard* of the table (CRC32 of the key), and a shard is published in the order of its
  rows. One relay at a time has a shard, by a lease in the database, whose clock alone counts. Relays share the shards
  out among themselves (`shares`).
- At least once: a relay deletes rows after Kafka has acknowledged them. One that dies in between leaves them, and the
  next one sends them again, with the same idempotence key in a header.
- Exactly once, with a ``transactional_id``: each shard has a transactional producer. Before a batch is sent, its name
  and its rows are noted in the database; the transaction that carries the batch also commits this name, as the metadata
  of an offset. A relay that takes over a shard first fences the producer before it (KIP-98), which settles the last
  transaction, and then reads the name: if it is the noted one, the batch has been published, and its rows are deleted;
  if not, they are sent. Kafka Connect's source connectors keep a position in the same way (KIP-618). There is none
  here, as rows are not committed in the order of their numbers.
"""

from __future__ import annotations

from .options import RelayHealth, RelayMetrics, RelayOptions
from .relay import Relay
from .tables import Outbox

__all__ = ["Outbox", "Relay", "RelayHealth", "RelayMetrics", "RelayOptions"]
