"""Latency of a record after a leader move, on an embedded cluster in this process.

``python -m benchmarks moves`` makes 100 moves, with a retry backoff of one second. It prints the time from `send` to
the acknowledgement, and from the acknowledgement to the consumer.

``python -m benchmarks moves storm [--seconds 60]`` makes a move every 50 ms under load, and checks that every record
was written once and in order.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Any

from aiokafka_lead import Consumer, Delivery, Producer
from aiokafka_lead.testing import EmbeddedCluster

from .stats import latency_row, table

MOVES = 100
BACKOFF_MS = 1000
PAUSE_S = 0.02
"""Pause in seconds between two moves, in which the clients are idle."""


async def single_moves(hints: bool) -> list[list[object]]:
    """Send one record after each move, and return the rows of the table."""
    acknowledged: list[float] = []  # in ms
    consumed: list[float] = []
    caps: dict[Any, int] = {} if hints else {"Produce": 9, "Fetch": 15}
    async with EmbeddedCluster(brokers=3, max_versions=caps) as cluster:
        cluster.create_topic("t", replication_factor=3)
        patience: dict[str, Any] = {"retry_backoff_ms": BACKOFF_MS, "retry_backoff_max_ms": BACKOFF_MS}
        async with (
            Producer(cluster.bootstrap_servers, linger_ms=0, **patience) as producer,
            Consumer(
                "t", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", **patience
            ) as consumer,
        ):
            for _ in cluster.broker_ids:  # opens connections to all brokers
                cluster.move_leader("t")
                await producer.send_and_wait("t", b"", partition=0)
                await consumer.getone()
            for _ in range(MOVES):
                await asyncio.sleep(PAUSE_S)
                cluster.move_leader("t")
                began = time.monotonic()
                await producer.send_and_wait("t", b"", partition=0)
                acknowledged.append(1000 * (time.monotonic() - began))
                began = time.monotonic()
                await consumer.getone()
                consumed.append(1000 * (time.monotonic() - began))
    with_or_without = "hints" if hints else "no hints"
    return [
        [f"send to acknowledgement, {with_or_without}", *latency_row(acknowledged)],
        [f"acknowledgement to consumer, {with_or_without}", *latency_row(consumed)],
    ]


async def storm(seconds: float) -> str:
    """Send with idempotence and five requests in flight, with a move every 50 ms. Return a sentence with the result."""
    deliveries: list[Delivery] = []
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t", replication_factor=3)
        async with Producer(cluster.bootstrap_servers, linger_ms=0, batch_size=200) as producer:

            async def write() -> None:
                while asyncio.get_running_loop().time() < end:
                    for _ in range(5):
                        deliveries.append(await producer.send("t", b"%d" % len(deliveries), partition=0))
                    await asyncio.sleep(0.003)

            end = asyncio.get_running_loop().time() + seconds
            writing = asyncio.create_task(write())
            moves = 0
            while not writing.done():
                await asyncio.sleep(0.05)
                cluster.move_leader("t")
                moves += 1
            await writing
            await producer.flush()
            metrics = producer.metrics()
        written = [int(record.value or b"-1") for record in cluster.records("t")]
    right = written == list(range(len(deliveries)))
    verdict = "each once, in order" if right else "LOST, DUPLICATED OR OUT OF ORDER"
    return (
        f"{moves} moves, {len(deliveries)} records: {verdict}; "
        f"{metrics.free_retries} free retries, {metrics.retries - metrics.free_retries} others, "
        f"{metrics.sequence_restarts} sequence restarts; from refusal to acknowledgement by the new leader "
        f"{metrics.leader_move_ms_total / max(1, metrics.leader_moves):.1f} ms on average, "
        f"{metrics.leader_move_ms_max:.1f} ms at most"
    )


def main(arguments: list[str]) -> None:
    """Run one of the two benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks moves")
    parser.add_argument("what", nargs="?", choices=["single", "storm"], default="single")
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args(arguments)
    if options.what == "storm":
        print(asyncio.run(storm(options.seconds)))
        return
    rows = asyncio.run(single_moves(hints=True)) + asyncio.run(single_moves(hints=False))
    print(f"\n{MOVES} moves, retry_backoff_ms={BACKOFF_MS}; ms\n")
    print(table(["", "p50", "p99", "p99.9", "max"], rows))
