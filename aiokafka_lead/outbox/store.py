"""SQL statements of a relay, and the division of shards among relays.

All times come from the database's clock. Every transaction that writes begins with a write, because SQLite waits for
its lock only in the first statement, and fails immediately if a later statement needs the lock.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from .._io.cancellation import Waits
from ..errors import IllegalStateError
from .databases import Database, Transaction
from .tables import Dialect, Outbox, dialect_of

# --- division of the shards among relays ------------------------------------------------------------------------------
#
# Each relay decides independently, from the leases in the database.
#
# A relay takes every free shard. If another relay has at least two shards more, it requests half of the difference. The
# owner of a requested shard finishes its batch, and hands the shard over. A requested shard counts as handed over, so
# two relays that start at the same time request different shards. In the end, the numbers of shards differ by at most
# one.


class Lease(NamedTuple):
    """The relay that works on a shard, and the relay that has requested it."""

    shard: int
    owner: str | None
    """Relay with the lease; None if the lease has expired or was given back."""
    wanted_by: str | None
    """Relay that has requested the shard from its owner."""


class Plan(NamedTuple):
    """The shards that a relay takes, and those that it requests from other relays."""

    take: list[int]
    """Shards to take, which are free or were handed over to the relay."""
    ask: list[Lease]
    """Shards to request from their owners."""


def share_out(leases: Iterable[Lease], relay: str, held: Collection[int]) -> Plan:
    """Return the next steps of a relay, which already works on the shards in ``held``."""
    leases = list(leases)
    take = [lease.shard for lease in leases if lease.owner in (None, relay) and lease.shard not in held]
    future = {lease.shard: relay if lease.shard in take else lease.wanted_by or lease.owner for lease in leases}
    counts = Counter(future.values())
    ask: list[Lease] = []
    while counts:
        richest, most = max(counts.items(), key=lambda item: item[1])
        found = next((lease for lease in leases if lease.owner == richest == future[lease.shard]), None)
        if most - counts[relay] < 2 or found is None:
            break
        ask.append(found)
        future[found.shard] = relay
        counts[richest] -= 1
        counts[relay] += 1
    return Plan(take, ask)


class LeaseLostError(Exception):
    """The lease of a shard has expired, so another relay may hold the shard."""


class Row(NamedTuple):
    """Row of the table, with a record to publish. It may be invalid if another program has written it."""

    id: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: str
    created: float
    """Time in seconds since 1970."""


class Batch(NamedTuple):
    """The rows that are published together, and the batch's name."""

    name: str
    rows: Sequence[Row]


class Store:
    """Accesses the tables of an outbox for one relay. All methods raise the errors of the database."""

    def __init__(self, outbox: Outbox, database: Database, relay: str, lease_s: float) -> None:
        self._outbox = outbox
        self._database = database
        self._relay = relay
        self._lease_s = lease_s
        self._end_by = math.inf
        self._transactions = Waits()

    def hurry(self, until: float) -> None:
        """Cancel transactions that have not ended by the time ``until`` (monotonic seconds)."""
        self._end_by = until
        self._transactions.hurry(until)

    async def check(self) -> None:
        """Check that the tables can be read and fit the outbox.

        Raises `ConfigError` if the database is not supported, `IllegalStateError` if the table has another number of
        shards, and the errors of the database.
        """
        async with self._begin() as transaction:
            dialect_of(transaction.dialect)
            ((found,),) = await transaction.execute(f"SELECT count(*) FROM {self._outbox.name}_shards", {})
            await transaction.execute(f"SELECT id FROM {self._outbox.name} LIMIT 0", {})
        if found != self._outbox.shards:
            raise IllegalStateError(
                f"table {self._outbox.name}_shards has {found} shards, but the Outbox has shards={self._outbox.shards}"
            )

    # --- leases ------------------------------------------------------------------------------------------------------

    async def renew(self) -> list[Lease]:
        """Renew the leases of the relay, and return the state of all shards."""
        async with self._begin() as transaction:
            now = dialect_of(transaction.dialect).now
            table = f"{self._outbox.name}_shards"
            await self._execute(
                transaction,
                f"UPDATE {table} SET lease_until = {now} + CAST(:lease AS DOUBLE PRECISION) "
                f"WHERE owner = :relay AND lease_until > {now}",
                lease=self._lease_s,
                relay=self._relay,
            )
            rows = await self._execute(
                transaction,
                f"SELECT shard, CASE WHEN lease_until > {now} THEN owner END, wanted_by FROM {table} ORDER BY shard",
            )
            return [Lease(*row) for row in rows]

    async def take(self, shard: int) -> bool:
        """Take a free shard. Return False if another relay has taken it first."""
        return await self._change(
            shard,
            "owner = :relay, wanted_by = NULL, lease_until = {now} + CAST(:lease AS DOUBLE PRECISION)",
            "(owner = :relay OR lease_until <= {now})",
            relay=self._relay,
            lease=self._lease_s,
        )

    async def ask(self, lease: Lease) -> None:
        """Request this shard from the relay that holds it. That relay hands it over after its current batch."""
        where = "owner = :owner AND wanted_by IS NULL"
        await self._change(lease.shard, "wanted_by = :relay", where, relay=self._relay, owner=lease.owner)

    async def give(self, shard: int) -> None:
        """Hand a shard over to the relay that has requested it, or free it if there is no request."""
        await self._change(
            shard,
            "owner = wanted_by, wanted_by = NULL, "
            "lease_until = CASE WHEN wanted_by IS NULL THEN 0 ELSE {now} + CAST(:lease AS DOUBLE PRECISION) END",
            "owner = :relay",
            relay=self._relay,
            lease=self._lease_s,
        )

    async def _change(self, shard: int, change: str, where: str, **values: object) -> bool:
        async with self._begin() as transaction:
            now = dialect_of(transaction.dialect).now
            statement = f"UPDATE {self._outbox.name}_shards SET {change} WHERE shard = :shard AND {where}"
            return bool(
                await self._execute(transaction, f"{statement.format(now=now)} RETURNING shard", shard=shard, **values)
            )

    # --- rows --------------------------------------------------------------------------------------------------------

    async def stray(self) -> int | None:
        """Return the number of a shard that has rows but does not exist, or None."""
        async with self._begin() as transaction:
            name = self._outbox.name  # two subqueries, because SQLite uses the index only for a single min or max
            ends = [f"(SELECT {end}(shard) FROM {name} WHERE refusal IS NULL)" for end in ("min", "max")]
            ((lowest, highest),) = await self._execute(transaction, f"SELECT {', '.join(ends)}")
            return next((shard for shard in (lowest, highest) if shard is not None and not self._exists(shard)), None)

    def _exists(self, shard: int) -> bool:
        return 0 <= shard < self._outbox.shards

    async def waiting(self) -> Mapping[int, float]:
        """Return the age in seconds of the oldest waiting row, for each shard of this relay with rows."""
        async with self._begin() as transaction:
            now = dialect_of(transaction.dialect).now
            name = self._outbox.name
            first = f"SELECT created FROM {name} WHERE shard = shards.shard AND refusal IS NULL ORDER BY id LIMIT 1"
            rows = await self._execute(
                transaction,
                f"SELECT shard, {now} - ({first}) FROM {name}_shards AS shards WHERE owner = :relay",
                relay=self._relay,
            )
            return {shard: max(0.0, age) for shard, age in rows if age is not None}

    async def turn(self, shard: int, done: Collection[int], limit: int, *, noted: bool) -> Batch:
        """Delete the rows in ``done``, and return the next rows of a shard, at most ``limit``, in one transaction.

        With ``noted``, also store the name and the row ids of the returned batch in the table of shards. After a
        failure, `settle` can then find out if this batch was published. Raises `LeaseLostError` if another relay holds
        the shard.
        """
        async with self._begin() as transaction:
            its = dialect_of(transaction.dialect)
            await self._own(transaction, its, shard)
            await self._delete(transaction, its, json.dumps(list(done)))
            rows = await self._execute(
                transaction,
                f"SELECT id, topic, key, value, headers, created FROM {self._outbox.name} "
                "WHERE shard = :shard AND refusal IS NULL ORDER BY id LIMIT :limit",
                shard=shard,
                limit=limit,
            )
            batch = Batch(uuid.uuid4().hex, [Row(*row) for row in rows])
            if noted:
                await self._execute(
                    transaction,
                    f"UPDATE {self._outbox.name}_shards SET batch = :name, batch_ids = :ids WHERE shard = :shard",
                    name=batch.name,
                    ids=json.dumps([row.id for row in batch.rows]),
                    shard=shard,
                )
            return batch

    async def settle(self, shard: int, published: Collection[str]) -> None:
        """Delete the rows of the stored batch if its name is in ``published``.

        Raises `LeaseLostError` if another relay holds the shard.
        """
        async with self._begin() as transaction:
            its = dialect_of(transaction.dialect)
            name, ids = await self._own(transaction, its, shard)
            if name in published:
                await self._delete(transaction, its, ids)

    async def refuse(self, row: Row, why: str) -> None:
        """Set a row aside by storing the reason ``why`` in its column ``refusal``. The row is then not published."""
        async with self._begin() as transaction:
            statement = f"UPDATE {self._outbox.name} SET refusal = :why WHERE id = :id"
            await self._execute(transaction, statement, why=why, id=row.id)

    async def _own(self, transaction: Transaction, its: Dialect, shard: int) -> tuple[str | None, str]:
        """Renew a lease. Return the name and the rows of the stored batch. Raises `LeaseLostError`."""
        found = await self._execute(
            transaction,
            f"UPDATE {self._outbox.name}_shards SET lease_until = {its.now} + CAST(:lease AS DOUBLE PRECISION) "
            f"WHERE shard = :shard AND owner = :relay AND lease_until > {its.now} RETURNING batch, batch_ids",
            lease=self._lease_s,
            shard=shard,
            relay=self._relay,
        )
        if not found:
            raise LeaseLostError
        ((name, ids),) = found
        return name, ids or "[]"

    async def _delete(self, transaction: Transaction, its: Dialect, ids: str) -> None:
        if ids != "[]":
            await self._execute(transaction, f"DELETE FROM {self._outbox.name} WHERE id IN ({its.ids})", ids=ids)

    @asynccontextmanager
    async def _begin(self) -> AsyncIterator[Transaction]:
        """Run a transaction during a block, with the duration of a lease as a time limit.

        A cancellation waits for the end of the transaction. Otherwise, a cancelled statement would break the
        connection, and with SQLAlchemy and SQLite, the database would stay locked for seconds.
        """
        within_s = max(0.0, min(self._lease_s, self._end_by - time.monotonic()))
        with self._transactions.within(within_s, shield=True) as scope:
            async with self._database.begin() as transaction:
                yield transaction
        if scope.cancelled_caught:
            raise TimeoutError(f"a transaction took longer than {within_s:.3g} s")

    async def _execute(self, transaction: Transaction, statement: str, **values: object) -> Sequence[Sequence[Any]]:
        return await transaction.execute(statement, values)
