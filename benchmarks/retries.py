"""Throughput of fresh records while other records wait in retry topics, compared with a run without failures.

``python -m benchmarks retries [--records 100000] [--rounds 3] [--scale 0.1] [--failing 0.05]``: a failing record fails
for 1 to 60 units of time after its first attempt, where ``--scale`` is the unit in seconds. Each run is a process with
one consumer, on an embedded broker in another process. A record is fresh at its first attempt. The table shows fresh
records/s, and CPU time of the consumer's process per fresh record in microseconds, from the first to the last fresh
record. Both figures are from the round with the lowest CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import subprocess
import sys
import time
from typing import Any

from aiokafka_lead import Consumer, Producer
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

TOPIC, PARTITIONS = "orders", 6
DELAYS_S = (10, 60, 600)
"""Delays of the retry topics. Their sum exceeds the time for which any record fails."""


async def handle(servers: str, given: argparse.Namespace) -> None:
    """Handle the records, and print the figures of fresh records."""
    chance = random.Random(1)
    fails_for_s = [
        chance.uniform(1, 60) * given.scale if chance.random() < given.failing else 0.0 for _ in range(given.records)
    ]
    first_at: dict[int, float] = {}
    seen = 0
    began = began_cpu = 0.0
    over = asyncio.Event()

    def count() -> None:
        nonlocal seen, began, began_cpu
        if not seen:
            began, began_cpu = time.monotonic(), time.process_time()
        seen += 1
        if seen == given.records:
            cpu, took = time.process_time() - began_cpu, time.monotonic() - began
            print(seen / took, cpu * 1e6 / seen, flush=True)
            over.set()

    async def work(record: Any) -> None:
        number = int(record.value)
        if given.work_ms:
            await asyncio.sleep(given.work_ms / 1000)
        if not fails_for_s[number]:
            count()
            return
        now = time.monotonic()
        if number not in first_at:
            first_at[number] = now
            count()
        if now < first_at[number] + fails_for_s[number]:
            raise TimeoutError("not yet")

    options: dict[str, Any] = {"auto_offset_reset": "earliest", "group_id": f"{os.getpid()}"}
    async with Consumer(TOPIC, bootstrap_servers=servers, **options) as consumer:
        delays = [f"{int(1000 * given.scale * seconds)}ms" for seconds in DELAYS_S]
        running = asyncio.create_task(
            consumer.run(work, retries=0, retry_topics=delays, retry_order=given.order, dead_letter_topic="dead")
        )
        await over.wait()
        await consumer.stop()
        await running


async def fill(servers: str, records: int) -> None:
    """Write numbered records with 10,000 keys."""
    async with Producer(servers) as producer:
        keys = [b"%d" % (number % 10_000) for number in range(records)]
        await (await producer.send_many(TOPIC, [b"%d" % number for number in range(records)], keys))


def main(arguments: list[str]) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--failing", type=float, default=0.05)
    parser.add_argument("--work-ms", type=float, nargs="+", default=[0.0, 1.0])
    parser.add_argument("--order", choices=["none", "key"], default="none")
    parser.add_argument("--logs", action="store_true", help="format a traceback for each failure, and discard it")
    parser.add_argument("--servers", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.servers is not None:
        logging.getLogger("aiokafka_lead").setLevel(logging.WARNING if given.logs else logging.ERROR)
        given.work_ms = given.work_ms[0]
        asyncio.run(handle(given.servers, given))
        return
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        cluster.create_topic("dead", 1)
        servers = cluster.bootstrap_servers
        asyncio.run(fill(servers, given.records))
        for work_ms in given.work_ms:
            for failing in (0.0, given.failing):
                command = [sys.executable, "-m", "benchmarks", "retries", "--servers", servers]
                command += ["--records", str(given.records), "--scale", str(given.scale), "--order", given.order]
                command += ["--failing", str(failing), "--work-ms", str(work_ms), *(["--logs"] if given.logs else [])]
                figures: list[list[float]] = []
                for _ in range(given.rounds):
                    output = subprocess.run(
                        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
                    ).stdout
                    figures.append([float(figure) for figure in output.split()])
                rate, cpu = min(figures, key=lambda figure: figure[1])
                print(f"handler of {work_ms:g} ms, {failing:.0%} fail: {rate:8.0f} a second, {cpu:6.2f} us of CPU each")
