"""Clusters whose brokers the benchmark ``roll`` restarts.

``python -m benchmarks.roll_clusters`` runs the embedded cluster.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiokafka_lead.testing import EmbeddedCluster

BROKERS = 3
DOWN_S = 1.0
DRAIN_MS = 300
"""Milliseconds for which a broker still responds during a clean shutdown, after its leaders have moved."""
REAL_OPTIONS = {
    # With Kafka's defaults, a follower may wait for a second after a move, which delays every acknowledgement.
    "replica.fetch.backoff.ms": "20",
    "replica.fetch.wait.max.ms": "20",
    # The benchmark moves leaders back to their preferred brokers.
    "auto.leader.rebalance.enable": "false",
}

Restart = Callable[[int], Awaitable[None]]


@asynccontextmanager
async def embedded() -> AsyncIterator[tuple[str, Restart]]:
    """Run an embedded cluster in a separate process, which reads one command per line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.roll_clusters", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def restart(broker: int) -> None:
        stdin.write(b"%d\n" % broker)
        await stdout.readline()

    try:
        yield (await stdout.readline()).decode().strip(), restart
    finally:
        stdin.close()
        await process.wait()


async def serve() -> None:
    """Restart the brokers named on standard input, until it is closed."""
    async with EmbeddedCluster(BROKERS) as cluster:
        gc.disable()  # a collection would visit every stored record, and block all brokers
        sys.stdout.write(f"{cluster.bootstrap_servers}\n")
        sys.stdout.flush()
        while line := await asyncio.to_thread(sys.stdin.readline):
            broker = int(line)
            await cluster.stop_broker(broker, drain_ms=DRAIN_MS)
            await asyncio.sleep(DOWN_S)
            await cluster.start_broker(broker)
            sys.stdout.write("done\n")
            sys.stdout.flush()


@asynccontextmanager
async def apache() -> AsyncIterator[tuple[str, Restart]]:
    """Run three brokers of the newest Apache Kafka, with controlled shutdowns."""
    from tests.kafka.harness import NEWEST, KafkaCluster

    cluster = KafkaCluster(NEWEST, brokers=BROKERS, properties=REAL_OPTIONS, heap_mib=768, optimise=True)

    async def restart(broker: int) -> None:
        await asyncio.to_thread(cluster.terminate, broker)
        await asyncio.to_thread(cluster.start_broker, broker)

    try:
        await asyncio.to_thread(cluster.start)
        yield cluster.bootstrap(), restart
    finally:
        await asyncio.to_thread(cluster.stop)


if __name__ == "__main__":
    asyncio.run(serve())
