"""Latency of each client in the first seconds after the brokers have started.

``python -m benchmarks cold [--rounds 2] [--clients lead confluent ...]`` starts three brokers of the newest Apache
Kafka for each client, which immediately writes 300 records/s to 30 partitions, with ``acks=all`` and no linger. Brokers
that have just started are slow, and process the requests of a connection in order. The figures therefore show the delay
that a client adds by queueing requests. Times are from `send` to the acknowledgement.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
from collections import defaultdict

from aiokafka_lead import AdminClient
from aiokafka_lead.admin import NewTopic

from .failover import apache
from .leader_move import CLIENTS, output_of, start
from .peers import FOREIGN, available, load_command
from .stats import percentile, table

PARTITIONS = 30
TOPIC = "cold"
SECONDS = (0, 2, 6, 12)
"""Boundaries of the parts of a run, in seconds from its first record."""
SHARES = (0.5, 0.9, 0.99)


async def measure(client: str, rate: float) -> list[list[float]]:
    """Start brokers and run one client. Return the latencies in milliseconds for each part of the run."""
    async with apache() as cluster:
        async with AdminClient(cluster.bootstrap) as admin:
            await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
        load = await start(
            load_command(client), "--bootstrap", cluster.bootstrap, "--topic", TOPIC, "--partitions", PARTITIONS,
            "--rate", rate, "--size", 200, "--seconds", SECONDS[-1], "--warm-up-s", 0.01,
        )  # fmt: skip
        samples = (await output_of(load))["samples"]
    first = min(sent for _, sent, _ in samples)
    return [
        [ms for _, sent, ms in samples if begin <= sent - first < end] for begin, end in itertools.pairwise(SECONDS)
    ]


async def run(options: argparse.Namespace) -> None:
    """Run every client in every round, in random order."""
    found: dict[str, list[list[float]]] = defaultdict(lambda: [[] for _ in SECONDS[1:]])
    for _ in range(options.rounds):
        for client in random.sample(options.clients, len(options.clients)):
            for part, times in zip(found[client], await measure(client, options.rate), strict=True):
                part += times
            print(f"{client}: {len(found[client][0])} records in the first part", flush=True)
    rows = [
        [CLIENTS[client], *(percentile(sorted(part), share) for part in found[client] for share in SHARES)]
        for client in options.clients
    ]
    parts = [f"{begin} to {end} s" for begin, end in itertools.pairwise(SECONDS)]
    print(f"\nLatency after the brokers' start, {options.rate:g} records/s, acks=all, linger 0; ms\n")
    print(table(["client", *(f"{part} p{100 * share:g}" for part in parts for share in SHARES)], rows))


def main(arguments: list[str]) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "benchmarks cold", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    clients: list[str] = ["lead", *(client for client in ("confluent", "aiokafka", *FOREIGN) if _is_here(client))]
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--clients", nargs="+", choices=list(CLIENTS), default=clients)
    asyncio.run(run(parser.parse_args(arguments)))


def _is_here(client: str) -> bool:
    return client not in FOREIGN or client in available()
