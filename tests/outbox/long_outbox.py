"""Publishes 50,000 records from an outbox on PostgreSQL, while its relays and the database are killed.

    python -m tests.outbox.long_outbox                      # exactly once; --at-least-once
    python -m tests.outbox.long_outbox --rows 5000 --kills 6 --seed 7

Two relays run as processes. At random times one of them, or PostgreSQL, gets SIGKILL, and is restarted. Brokers are
embedded. The exit status is 0 only if each record is read once (with ``--at-least-once``: once or more, with the same
idempotence key), and the first occurrences of each key's records are in the order in which they were enqueued.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter, defaultdict

import asyncpg

from aiokafka_lead import Consumer, TopicPartition
from aiokafka_lead.outbox import Outbox
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster
from tests.programs import Program

from .postgres import Postgres

TOPIC, PARTITIONS, KEYS = "orders", 6, 200
OUTBOX = Outbox()
BATCH = 100
"""Records of one transaction of the application."""
ENDS_WITHIN_S = 1800
_began = time.monotonic()


def say(what: str) -> None:
    """Report progress."""
    print(f"+{time.monotonic() - _began:.1f} s: {what}", flush=True)


async def in_database(server: Postgres, work: str, *, start: int = 0, rows: int = 0) -> int:
    """Enqueue rows from ``start``, or count pending ones, retrying until the database succeeds."""
    while True:
        try:
            connection = await asyncpg.connect(server.url())
            try:
                if work == "count":
                    return int(await connection.fetchval(f"SELECT count(*) FROM {OUTBOX.name}"))
                async with connection.transaction():
                    if await connection.fetchval("SELECT count(*) FROM done WHERE number = $1", start):
                        return rows  # the previous commit was not confirmed
                    await connection.execute("INSERT INTO done VALUES ($1)", start)
                    for number in range(start, start + rows):
                        key = b"%d" % (number % KEYS)
                        await OUTBOX.enqueue(connection, TOPIC, b"%d" % number, key, idempotence_key=str(number))
                return rows
            finally:
                await asyncio.wait_for(connection.close(), 5)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            await asyncio.sleep(0.05)


async def enqueue(server: Postgres, total: int) -> None:
    """Enqueue all rows, in consecutive transactions."""
    for start in range(0, total, BATCH):
        await in_database(server, "enqueue", start=start, rows=min(BATCH, total - start))
    say(f"{total} records are enqueued")


async def counted(servers: str) -> list[tuple[bytes | None, int]]:
    """Return key and number of each committed record, sorted by partition and offset."""
    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    found: list[tuple[bytes | None, int]] = []
    async with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        while not all([await consumer.position(place) >= end for place, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found += [(record.key, int(record.value or b"")) for record in records]
    return found


async def trial(arguments: argparse.Namespace, server: Postgres, cluster: ClusterThread) -> bool:
    """Return True if all records add up."""
    rng = random.Random(arguments.seed)
    connection = await asyncpg.connect(server.url())
    async with connection.transaction():
        await OUTBOX.create(connection)
        await connection.execute("CREATE TABLE done (number INTEGER PRIMARY KEY)")
    await connection.close()
    ids = [] if arguments.at_least_once else ["orders-outbox"]
    command = ("-m", "tests.outbox.relay_process", server.url("postgresql+asyncpg"), cluster.bootstrap_servers, *ids)
    relays = [Program(*command) for _ in range(2)]
    killed: Counter[str] = Counter()
    try:
        writing = asyncio.create_task(enqueue(server, arguments.rows))
        while sum(killed.values()) < arguments.kills or not writing.done() or await in_database(server, "count"):
            if time.monotonic() - _began > ENDS_WITHIN_S:
                say(f"{await in_database(server, 'count')} rows still wait")
                return False
            await asyncio.sleep(rng.uniform(0.3, 2))
            if sum(killed.values()) >= arguments.kills:
                continue
            what = rng.choice(["relay", "relay", "database"])
            killed[what] += 1
            if what == "database":
                server.kill()
                await asyncio.to_thread(server.start)
            else:
                index = rng.randrange(2)
                relays[index].__exit__(None, None, None)
                relays[index] = Program(*command)
        await writing
    finally:
        for relay in relays:
            relay.__exit__(None, None, None)
            if "Traceback" in relay.output:
                print(relay.output)
    say(f"published; killed: {dict(killed)}")
    return judge(arguments, await counted(cluster.bootstrap_servers))


def judge(arguments: argparse.Namespace, found: list[tuple[bytes | None, int]]) -> bool:
    """Compare the records that count with the enqueued ones."""
    times = Counter(number for _, number in found)
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for key, number in found:
        by_key[key].append(number)
    lost = arguments.rows - len(times)
    again = len(found) - len(times)
    disordered = [key for key, numbers in by_key.items() if [*dict.fromkeys(numbers)] != sorted({*numbers})]
    say(f"{len(times)} records count, {lost} lost, {again} more than once, {len(disordered)} keys out of order")
    return not lost and not disordered and (arguments.at_least_once or not again)


def main() -> int:
    """Run the trial."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-least-once", action="store_true")
    arguments = parser.parse_args()
    server = Postgres(durable=True)
    try:
        server.start()
        with ClusterThread(EmbeddedCluster(3)) as cluster:
            cluster.create_topic(TOPIC, PARTITIONS)
            return 0 if asyncio.run(trial(arguments, server, cluster)) else 1
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
