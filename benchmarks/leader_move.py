"""Latency while every leader moves twice under a steady load: KIP-951's micro-benchmark, scaled to one machine.

``python -m benchmarks leader_move [--real HOST:PORT,...] [--runs 3]`` uses the embedded cluster in a separate process.
It runs first without delays, then with Metadata responses that take 100 ms, as KIP-951 reports for brokers under load.
With ``--real``, it also uses a real cluster. The clients take turns on the same cluster, each with its load in a
separate process. Meanwhile a prober measures the time in which the brokers had no leader. The benchmark writes a table,
JSON and an SVG. With ``--traces HOST:PORT``, records are also consumed, and their times are written to the topic
``traces`` of this cluster (see ``spark_traces``). franz-go is included if Go is installed, and the Java client if a JDK
and Maven are installed.

The followers of a real cluster should fetch quickly (``replica.fetch.backoff.ms=20``,
``replica.fetch.wait.max.ms=20``). With Kafka's defaults of 1,000 and 500 ms, a follower that fetches from a leader just
before its election waits for this time before it fetches again. Every acknowledgement with ``acks=all`` waits for the
follower, whatever the client does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import time
import uuid
from asyncio.subprocess import Process
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.admin import NewTopic

from .embedded import embedded_cluster
from .peers import FOREIGN, available, load_command
from .stats import latency_picture, latency_row, table
from .traces import TRACES, Trace, prepare_topic, write_traces

CLIENTS = {
    "lead": "aiokafka_lead",
    "lead-no-hints": "aiokafka_lead, hints off",
    "aiokafka": "aiokafka",
    "confluent": "confluent-kafka",
    "franz-go": "franz-go",
    "java": "the Java client",
}
CHUNK = 10
"""Number of partitions moved at a time."""
SLOW_METADATA_MS = 100.0
SETTLE_S = 2.0
"""Seconds of steady load before the first and after the last move."""


async def rotate(admin: AdminClient, topic: str, partitions: int, pause_s: float) -> None:
    """Make the next replica of every partition its leader, `CHUNK` partitions at a time."""
    described = (await admin.describe_topics([topic]))[topic].partitions
    for first in range(0, partitions, CHUNK):
        chunk = described[first : first + CHUNK]
        await admin.alter_partition_reassignments(
            {TopicPartition(topic, p.partition): [*p.replicas[1:], p.replicas[0]] for p in chunk}
        )
        await admin.elect_leaders([TopicPartition(topic, p.partition) for p in chunk])
        await asyncio.sleep(pause_s)


def start(command: list[str], *arguments: object) -> Awaitable[Process]:
    """Start a program, with its output in a pipe."""
    return asyncio.create_subprocess_exec(
        *command, *map(str, arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def program(module: str, *arguments: object) -> Awaitable[Process]:
    """Start a program of this package."""
    return start([sys.executable, "-m", f"benchmarks.{module}"], *arguments)


async def output_of(process: Process) -> Any:
    """Wait until a program has ended, and return its output, which is JSON."""
    stdout, stderr = await process.communicate()
    if process.returncode:
        raise RuntimeError(stderr.decode()[-2000:])
    return json.loads(stdout)


async def measure(client: str, bootstrap: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one client's run, and the brokers' gaps during it."""
    topic = f"leader-move-{uuid.uuid4().hex[:8]}"
    async with AdminClient(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, options.partitions, 3)])
        every_broker = ",".join(f"{b.host}:{b.port}" for b in (await admin.describe_cluster()).brokers)
        where: list[object] = ["--topic", topic, "--partitions", options.partitions]
        follower = await program("follower", "--bootstrap", bootstrap, "--topic", topic) if options.traces else None
        load = await start(
            load_command(client), "--bootstrap", bootstrap, *where, "--rate", options.rate, "--seconds", options.seconds
        )
        assert load.stderr is not None
        while (line := await load.stderr.readline()) and line != b"ready\n":
            pass
        prober = await program("prober", "--bootstrap", every_broker, *where, "--seconds", options.seconds - 1)
        results = asyncio.gather(output_of(load), output_of(prober))
        pause_s = (options.seconds - 2 * SETTLE_S) / (2 * options.partitions / CHUNK) * 0.7
        await asyncio.sleep(SETTLE_S)
        began = time.time()
        await rotate(admin, topic, options.partitions, pause_s)
        await rotate(admin, topic, options.partitions, pause_s)
        moved = began, time.time()
        result, gaps = await results
        consumed = []
        if follower is not None:
            await asyncio.sleep(SETTLE_S)
            follower.terminate()
            consumed = await output_of(follower)
        await admin.delete_topics([topic])
    return {**result, "leaderless": gaps, "moved": moved, "consumed": dict(consumed)}


def traces(run: str, client: str, result: dict[str, Any]) -> Iterator[Trace]:
    """Yield the times of every record of a run."""
    first, last = result["moved"]
    for number, sent, ms in result["samples"]:
        phase = "before" if sent < first else "leaders move" if sent < last else "after"
        consumed = result["consumed"].get(number)
        sent_us = int(sent * 1e6)
        consumed_us = None if consumed is None else int(consumed * 1e6)
        yield Trace(run, client, phase, number, sent_us, sent_us + int(ms * 1e3), consumed_us)


async def compare(title: str, bootstrap: str, options: argparse.Namespace) -> None:
    """Run the clients in turn, as often as requested; print the results and write them to files and to a topic."""
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())  # identifies this run in the topic
    await measure("lead", bootstrap, argparse.Namespace(**{**vars(options), "seconds": 8}))  # warm up the brokers
    runs: dict[str, list[dict[str, Any]]] = {client: [] for client in options.clients}
    for number in range(options.runs):
        for client, results in runs.items():
            result = await measure(client, bootstrap, options)
            results.append(result)
            if options.traces:
                name = f"{began} {title}, run {number + 1}"
                await write_traces(options.traces, TRACES, traces(name, client, result))
    report(title, runs, options)


def report(title: str, runs: dict[str, list[dict[str, Any]]], options: argparse.Namespace) -> None:
    """Print a table; write it as JSON, and a picture of the last runs."""
    rows: list[list[object]] = []
    series = {}
    for client, results in runs.items():
        for result in results:
            gaps = sorted(ms for _, ms in result["leaderless"])
            rows.append(
                [CLIENTS[client], *latency_row([ms for *_, ms in result["samples"]]),
                 result["failed"], gaps[-1] if gaps else 0.0, result["cpu_us_per_record"]]
            )  # fmt: skip
        start = min(at for _, at, _ in results[-1]["samples"])
        series[CLIENTS[client]] = [(at - start, ms) for _, at, ms in results[-1]["samples"]]
    header = ["client", "p50", "p99", "p99.9", "max", "failed", "leaderless", "us/record"]
    print(f"\n{title}: send to acknowledgement in ms; the brokers' longest time without a leader; client CPU\n")
    print(table(header, rows))
    options.out.mkdir(parents=True, exist_ok=True)
    name = options.out / "_".join(["leader_move", *re.findall(r"\w+", title.lower())])
    name.with_suffix(".json").write_text(json.dumps([dict(zip(header, row, strict=True)) for row in rows], indent=1))
    name.with_suffix(".svg").write_text(
        latency_picture(f"{title}: every leader moves twice, {options.rate:g} records/s, acks=all", series)
    )


async def run(options: argparse.Namespace) -> None:
    """Compare the clients on embedded clusters, and on the real cluster if one is given."""
    if options.traces:
        await prepare_topic(options.traces, TRACES)
    if not options.only_real:
        async with embedded_cluster() as bootstrap:
            await compare("Embedded cluster", bootstrap, options)
        async with embedded_cluster(metadata_delay_ms=SLOW_METADATA_MS) as bootstrap:
            await compare(f"Embedded cluster, Metadata takes {SLOW_METADATA_MS:g} ms", bootstrap, options)
    if options.real:
        options.rate, options.partitions = options.real_rate, options.real_partitions
        await compare("Real Apache Kafka", options.real, options)


def main(arguments: list[str]) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "benchmarks leader_move", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", help="bootstrap servers of a real cluster to measure, too")
    parser.add_argument("--only-real", action="store_true")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--clients",
        nargs="+",
        choices=list(CLIENTS),
        default=[client for client in CLIENTS if client not in FOREIGN or client in available()],
    )
    parser.add_argument("--rate", type=float, default=2000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--real-rate", type=float, default=300, help="records/s on the real cluster (default: 300)")
    parser.add_argument("--real-partitions", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--traces", help="cluster to which the times of every record are written")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    asyncio.run(run(parser.parse_args(arguments)))
