"""Cost of each leader move for a client, without the time that the brokers needed for the same move.

``python -m benchmarks each_move [--rounds 10] [--moves 20] [--busy]`` starts three brokers of the newest Apache Kafka,
and runs one client at a time, in random order within each round. The client writes to a partition at a steady rate, and
a consumer of the same client reads it. The leader of the partition moves repeatedly: the benchmark reorders the
replicas, and triggers an election of the preferred replica.

The basic figure is the time between the last acknowledgement before a move and the first acknowledgement after it. Each
table subtracts another time:

- The brokers' own time. A prober sends a record to every broker every 2 ms, and this is the time in which no broker has
  acknowledged its records. It includes the new leader's wait for its followers.
- The time in which no broker led the partition.
- The time of an ideal client, which learns of the move immediately: the acknowledgement of the first record that the
  prober sent to the new leader after the old leader had stopped. If brokers are busy, both clients wait in the same
  queue.

The consumer's figure is the time from the new leader's first acknowledgement until the consumer receives this record.
With ``--group``, the consumer is the only member of a group; otherwise the partition is assigned to it. Medians and
percentiles have 95% confidence intervals (percentile bootstrap over moves). With ``--busy``, other producers load the
brokers until a Metadata response takes 50 ms or more, the condition for which KIP-951 was written. ``agree`` compares
the results of several runs. With ``--traces HOST:PORT``, the times of all records and moves are written to topics of
this cluster, from which ``spark_moves`` computes the same tables.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.admin import NewTopic

from .busy import busy_brokers, slow_disks
from .failover import apache
from .leader_gaps import HEADER, IDLE, SHARES, TABLES, Figures, Move, Round, figures, move_traces, record_traces
from .leader_move import CLIENTS, output_of, program, start
from .peers import FOREIGN, available, load_command, reader_command
from .stats import estimate, percentile, quantile, table
from .traces import MOVES, TRACES, prepare_topic, write_traces

GROUPS = {"classic": set(CLIENTS), "consumer": {"lead", "lead-no-hints", "confluent", "java"}}
"""Group protocols, with the clients that support them."""
SETTLE_S = 1.5
EVERY_S, BUSY_EVERY_S = 0.5, 2.5
"""Seconds from one move to the next, with idle and with busy brokers. Every client needs less time."""
BACKOFFS = 2.5
"""Minimum time between two moves in multiples of the retry backoff, so the backoff ends before the next move."""
WARM_UP_MOVES = 40
"""Number of moves at the beginning that do not count, because new JVMs compile code for half a minute."""
BUSY_CONNECTIONS = 32
"""Number of the probers' connections to each busy broker, so they still get a response every few milliseconds."""


# --- a round ---------------------------------------------------------------------------------------------------------


async def move(admin: AdminClient, topic: str, servers: Sequence[str]) -> Move:
    """Move the leader of the partition, and return the move."""
    (partition,) = (await admin.describe_topics([topic]))[topic].partitions
    replicas = [*partition.replicas[1:], partition.replicas[0]]
    target = TopicPartition(topic, 0)
    await admin.alter_partition_reassignments({target: replicas})
    brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in (await admin.describe_cluster()).brokers}
    began = time.time()
    await admin.elect_leaders([target])
    return Move(began, servers.index(brokers[replicas[0]]))


async def measure(client: str, bootstrap: str, backoff_ms: int, options: argparse.Namespace) -> Round:
    """Measure the moves of one client in one round."""
    topic = f"each-move-{uuid.uuid4().hex[:8]}"
    every_s = max(BUSY_EVERY_S if options.busy else EVERY_S, BACKOFFS * backoff_ms / 1000)
    seconds = options.moves * (every_s + 0.2) + 2 * SETTLE_S
    async with AdminClient(bootstrap) as admin, AsyncExitStack() as ended:
        await admin.create_topics([NewTopic(topic, 1, 3)])
        where: list[object] = ["--bootstrap", bootstrap, "--topic", topic]
        reader = None
        if options.group is None or client in GROUPS[options.group]:
            member = [] if options.group is None else ["--group-protocol", options.group]
            reader = await start(reader_command(client), *where, *member, "--retry-backoff-ms", backoff_ms)
            ended.callback(end, reader)
        load = await start(
            load_command(client), *where, "--partitions", 1, "--rate", options.rate, "--seconds", seconds,
            "--size", 200, "--retry-backoff-ms", backoff_ms,
        )  # fmt: skip
        ended.callback(end, load)
        assert load.stderr is not None
        while (line := await load.stderr.readline()) and line != b"ready\n":
            pass
        probers = [
            await program(
                "prober", *where, "--partitions", 1, "--seconds", seconds - 0.5, "--every-answer", *kind,
                "--connections", BUSY_CONNECTIONS if options.busy else 1,
            )
            for kind in ((), ("--writes",))
        ]  # fmt: skip
        for prober in probers:
            ended.callback(end, prober)
        results = asyncio.gather(*map(output_of, [load, *probers]))
        await asyncio.sleep(SETTLE_S)
        moves: list[Move] = []
        last = time.monotonic() + seconds - 2 * SETTLE_S
        while len(moves) < options.moves and time.monotonic() < last:
            due = time.monotonic() + every_s * random.uniform(0.8, 1.2)
            moves.append(await move(admin, topic, bootstrap.split(",")))
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        result, led, wrote = await results
        seen = {}
        if reader is not None:
            reader.terminate()
            seen = dict(await output_of(reader))
        await admin.delete_topics([topic])
    if result["failed"]:
        print(f"{client}: {result['failed']} records failed")
    return Round(moves, result["samples"], led, wrote, seen)


def end(process: asyncio.subprocess.Process) -> None:
    """Kill the process if it is still running after a failed run."""
    if process.returncode is None:
        process.kill()


# --- the whole -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def condition(bootstrap: str, busy: bool) -> AsyncIterator[str]:
    """Load the brokers during a block if ``busy`` is True. Yield the name of the condition."""
    if not busy:
        yield IDLE
        return
    async with busy_brokers(bootstrap) as metadata_ms:
        yield f"busy brokers, Metadata takes {metadata_ms:.0f} ms"


async def run(options: argparse.Namespace) -> None:
    """Run every client in every round, in random order."""
    found: dict[tuple[int, str], list[Figures]] = defaultdict(list)
    warm_up = argparse.Namespace(**{**vars(options), "moves": WARM_UP_MOVES, "busy": False})
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())  # identifies this run in the topics
    if options.traces:
        for topic in (TRACES, MOVES):
            await prepare_topic(options.traces, topic)
    async with AsyncExitStack() as started:
        with slow_disks() if options.busy else nullcontext():
            cluster = await started.enter_async_context(apache())
        await measure("lead", cluster.bootstrap, options.backoff_ms[0], warm_up)  # discarded: the JVMs are cold
        async with condition(cluster.bootstrap, options.busy) as name:
            for number in range(options.rounds):
                cases = [(backoff_ms, client) for backoff_ms in options.backoff_ms for client in options.clients]
                random.shuffle(cases)
                for backoff_ms, client in cases:
                    seen = await measure(client, cluster.bootstrap, backoff_ms, options)
                    moves = figures(seen)
                    found[backoff_ms, client] += moves
                    middle = percentile(sorted(one.over_floor for one in moves), 0.5)
                    print(f"round {number + 1:2} {client:14} backoff {backoff_ms:5} ms: {middle:7.1f} ms", flush=True)
                    if options.traces:
                        run = f"{began} {name}, backoff {backoff_ms} ms, round {number + 1}"
                        await write_traces(options.traces, TRACES, record_traces(seen, run, client))
                        moved = move_traces(seen, run, client, name, backoff_ms)
                        await write_traces(options.traces, MOVES, moved)
    report(name, found, options)


def report(name: str, found: dict[tuple[int, str], list[Figures]], options: argparse.Namespace) -> None:
    """Print four tables, and write all figures as JSON."""
    for field, title in TABLES.items():
        rows: list[list[object]] = []
        for (backoff_ms, client), moves in sorted(found.items()):
            values = [value for one in moves if (value := getattr(one, field)) is not None]
            brokers = ([move.leaderless for move in moves], [move.floor for move in moves])
            middles = [percentile(sorted(each), 0.5) for each in brokers]
            if values:
                label = f"{CLIENTS[client]}, backoff {backoff_ms} ms"
                rows.append([label, len(values), *middles, *(estimate(values, quantile(share)) for share in SHARES)])
        print(f"\nTime of a leader move, {name}: {title}; ms [95% interval]\n")
        print(table(HEADER, rows))
    options.out.mkdir(parents=True, exist_ok=True)
    every = [
        {"condition": name, "client": client, "backoff_ms": backoff_ms, **one._asdict()}
        for (backoff_ms, client), moves in found.items()
        for one in moves
    ]
    stem = "each_move_busy" if options.busy else "each_move"
    (options.out / stem).with_suffix(".json").write_text(json.dumps(every, indent=1))


def main(arguments: list[str]) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "benchmarks each_move", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every: list[str] = [client for client in CLIENTS if client not in FOREIGN or client in available()]
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--moves", type=int, default=20, help="moves for each client in each round")
    parser.add_argument("--clients", nargs="+", choices=list(CLIENTS), default=every)
    parser.add_argument("--backoff-ms", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--busy", action="store_true", help="let other producers load the brokers")
    parser.add_argument("--group", choices=list(GROUPS), help="let consumers join groups with this protocol")
    parser.add_argument("--traces", metavar="HOST:PORT", help="cluster to write the times of records and moves to")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    asyncio.run(run(parser.parse_args(arguments)))
