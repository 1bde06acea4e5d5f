"""A transactional outbox: records are published if, and only if, a transaction of your database commits them.

    from aiokafka_lead.outbox import Outbox, Relay

    outbox = Outbox()

    async with AsyncSession(engine) as session, session.begin():
        session.add(order)
        await outbox.enqueue(session, "orders", order.to_json(), key=order.customer)

    async with Client("localhost:9092") as client:
        await Relay(outbox, engine, client).run()

`Outbox.enqueue` writes the record into a table, in the transaction that the application has open. The database is
PostgreSQL or SQLite, used through SQLAlchemy's asyncio extension, asyncpg or aiosqlite; this module imports none of
these libraries. A `Relay` sends the rows in order, and deletes them once Kafka has stored them.

How it works:

- Records of a key are in the same *shard* of the table (CRC32 of the key), and a shard is published in the order of its
  rows. A lease in the database, timed by the database's clock, gives each shard to one relay at a time. Relays divide
  the shards among themselves (`store.share_out`).
- At least once: a relay deletes rows after Kafka has acknowledged them. If it dies in between, the next relay sends the
  rows again, with the same idempotence key in a header.
- Exactly once, with a ``transactional_id``: each shard has a transactional producer. Before sending a batch, the relay
  stores the batch's name and row numbers in the database. The Kafka transaction that carries the batch also commits
  this name, as the metadata of an offset. A relay that takes over a shard first fences the previous producer (KIP-98),
  which completes or aborts its last transaction, and then reads the committed name. If it equals the stored name, the
  batch has been published and its rows are deleted; otherwise they are sent. Kafka Connect's source connectors store
  their position in the same way (KIP-618). An outbox has no position, because rows are not committed in the order of
  their numbers.
"""

from __future__ import annotations

from .options import RelayHealth, RelayMetrics, RelayOptions
from .relay import Relay
from .tables import Outbox

__all__ = ["Outbox", "Relay", "RelayHealth", "RelayMetrics", "RelayOptions"]
