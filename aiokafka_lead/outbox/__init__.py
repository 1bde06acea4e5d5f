"""Transactional outbox: publishes records if, and only if, a transaction of your database commits them.

    from aiokafka_lead.outbox import Outbox, Relay

    outbox = Outbox()

    async with AsyncSession(engine) as session, session.begin():
        session.add(order)
        await outbox.enqueue(session, "orders", order.to_json(), key=order.customer)

    async with Client("localhost:9092") as client:
        await Relay(outbox, engine, client).run()

`Outbox.enqueue` writes a record into a table, in the transaction that the application has open. The database is
PostgreSQL or SQLite. The application uses it with SQLAlchemy's asyncio extension, asyncpg or aiosqlite, which this
package does not import. A `Relay` sends the rows in order, and deletes them once Kafka has acknowledged them.

How it works:

- The table is divided into *shards*. All records of a key are in the same shard (CRC32 of the key), and the rows of a
  shard are published in order. A *lease* in the database, with times of the database's clock, assigns each shard to one
  relay at a time. Relays divide the shards among themselves (`store.share_out`).
- Delivery is at least once by default. A relay deletes rows after Kafka has acknowledged them. If it dies in between,
  the next relay sends the rows again, with the same idempotence key in a header.
- Delivery is exactly once with a ``transactional_id``. Each shard then has a transactional producer. Before sending a
  batch, the relay stores the batch's name and row numbers in the database. The Kafka transaction with the batch also
  commits this name, as the metadata of an offset. A relay that takes over a shard first fences the previous producer
  (KIP-98), which completes or aborts its last transaction, and then reads the committed name. If it equals the name in
  the database, the batch has been published, so the relay deletes its rows. Otherwise it sends them. Kafka Connect's
  source connectors store their positions in the same way (KIP-618). An outbox has no position, because rows are not
  committed in the order of their numbers.
"""

from .options import RelayHealth, RelayMetrics, RelayOptions
from .relay import Relay
from .tables import Outbox

__all__ = ["Outbox", "Relay", "RelayHealth", "RelayMetrics", "RelayOptions"]
