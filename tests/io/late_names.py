"""Clients of every kind whose bootstrap name resolves late (KIP-909): ``python -m tests.io.late_names --after 10``.

Each client has a separate name, and a thread with a separate event loop. Until ``--after`` seconds have passed, the
resolver does not know the names, or with ``--silent`` it does not answer, like an unreachable DNS server. Each kind of
client is started with ``bootstrap_resolve_timeout_ms``, and with ``start(wait=False)``. The table shows the seconds
from the time when the names resolve to the client's first result that needs a broker, and the number of look-ups.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer, TransactionPipeline
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from ..names import Names, resolving
from ..share.support import configure, fill

RESOLVED_BY_S = 60.0
SILENCE_S = 30.0
"""Longest time that the resolver does not answer."""

Start = Callable[[Any], Awaitable[Any]]


class LateNames(Names):
    """Names without an address at first; counts the look-ups of each."""

    def __init__(self, *, silent: bool = False) -> None:
        super().__init__()
        self.lookups: Counter[str] = Counter()
        self.answered = 0
        """Number of silent look-ups that have ended."""
        self._come = threading.Event()
        self._silent = silent

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.endswith(".test")

    def __getitem__(self, name: str) -> Sequence[str]:
        self.lookups[name] += 1
        if self._silent:
            self._come.wait(SILENCE_S)
            self.answered += 1
        return ["127.0.0.1"] if self._come.is_set() else []

    def come(self) -> None:
        """Give all names an address."""
        self._come.set()


async def produce(start: Start, **options: Any) -> None:
    """Store a record."""
    producer = await start(Producer(**options))
    await producer.send_and_wait("late", b"v")
    await producer.stop()


async def transact(start: Start, **options: Any) -> None:
    """Commit a transaction."""
    producer = await start(Producer(**options, transactional_id=options["bootstrap_servers"]))
    async with producer.transaction() as txn:
        await txn.send("late", b"v")
    await producer.stop()


async def pipe(start: Start, **options: Any) -> None:
    """Commit a transaction of a pipeline."""
    pipeline = await start(TransactionPipeline(**options, transactional_id=options["bootstrap_servers"], in_flight=2))
    async with pipeline.transaction() as txn:
        await txn.send("late", b"v")
    await pipeline.stop()


async def consume(start: Start, *, protocol: str | None = None, **options: Any) -> None:
    """Read the first record, as a member of a group or alone."""
    if protocol is not None:
        options |= {"group_id": options["bootstrap_servers"], "group_protocol": protocol}
    consumer = await start(Consumer("first", auto_offset_reset="earliest", **options))
    assert (await consumer.getone()).value == b"0"
    await consumer.stop()


async def share(start: Start, **options: Any) -> None:
    """Take a record as a member of a share group."""
    consumer = await start(ShareConsumer("first", group_id="late", **options))
    async for record in consumer:
        assert record.value == b"0"
        break
    await consumer.stop()


async def administer(start: Start, **options: Any) -> None:
    """List the topics."""
    admin = await start(AdminClient(**options))
    assert "first" in await admin.list_topics()
    await admin.stop()


async def share_connections(start: Start, **options: Any) -> None:
    """Store a record and read one with clients that share connections."""
    client = await start(Client(**options))
    async with client.producer() as producer, client.consumer("first", auto_offset_reset="earliest") as consumer:
        await producer.send_and_wait("late", b"v")
        assert (await consumer.getone()).value == b"0"
    await client.stop()


KINDS: dict[str, Callable[..., Awaitable[None]]] = {
    "producer": produce,
    "transactions": transact,
    "pipeline": pipe,
    "consumer": consume,
    "classic": partial(consume, protocol="classic"),
    "KIP-848": partial(consume, protocol="consumer"),
    "share": share,
    "admin": administer,
    "client": share_connections,
}
"""Programs, each for one kind of client. They start it with the given function, and need a broker once."""


async def run(kind: str, servers: str, *, wait: bool) -> None:
    """Run the program of a kind, started with a time for names to resolve or, if not ``wait``, without waiting."""

    async def start(client: Any) -> Any:
        await client.start(wait=wait)
        return client

    options = {"bootstrap_resolve_timeout_ms": RESOLVED_BY_S * 1000} if wait else {}
    await KINDS[kind](start, bootstrap_servers=servers, **options)


async def prepare(cluster: EmbeddedCluster | ClusterThread) -> int:
    """Create what the programs need; return the port of a broker."""
    for topic in ("first", "late"):
        cluster.create_topic(topic)
    await fill(cluster.bootstrap_servers, "first", 1)
    await configure(cluster.bootstrap_servers, "late")
    return int(cluster.address(1).rpartition(":")[2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--after", type=float, default=10.0, help="seconds until the names resolve")
    parser.add_argument("--silent", action="store_true", help="the resolver does not answer until then")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args()
    done: dict[tuple[str, bool], float] = {}
    names = LateNames(silent=options.silent)
    with ClusterThread(EmbeddedCluster(brokers=3)) as cluster, resolving(names):
        port = anyio.run(prepare, cluster)
        each = [(kind, wait) for kind in KINDS for wait in (True, False)]

        def name_of(kind: str, wait: bool) -> str:
            return f"{kind.lower()}-{'waits' if wait else 'started'}.test"

        def work(kind: str, wait: bool) -> None:
            anyio.run(partial(run, kind, f"{name_of(kind, wait)}:{port}", wait=wait), backend=options.backend)
            done[kind, wait] = time.monotonic()

        threads = [threading.Thread(target=work, args=one, daemon=True) for one in each]
        for thread in threads:
            thread.start()
        time.sleep(options.after)
        names.come()
        came = time.monotonic()
        for thread in threads:
            thread.join(RESOLVED_BY_S)
    sys.stdout.write("| kind | waits: s | look-ups | wait=False: s | look-ups |\n|---|--:|--:|--:|--:|\n")
    for kind in KINDS:
        cells = [kind]
        for wait in (True, False):
            at = done.get((kind, wait))
            cells += ["-" if at is None else f"{at - came:.2f}", str(names.lookups[name_of(kind, wait)])]
        sys.stdout.write(f"| {' | '.join(cells)} |\n")
    return 0 if len(done) == len(each) else 1


if __name__ == "__main__":
    sys.exit(main())
