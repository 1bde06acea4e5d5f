"""What one leader move costs, move by move, beside the time that the brokers themselves needed for that very move.

``python -m benchmarks each_move [--rounds 10] [--moves 20] [--busy]``: three brokers of the newest Apache Kafka, and
one client at a time, in random order within each round. Each writes at a steady rate to a partition whose leader
moves, again and again (the replicas are put in another order, and the preferred one is elected), while a consumer of
the same client reads it. A move's figures are the time between the last acknowledgement before it and the first one
after it, less the time in which the partition had no leader (a prober asks every 2 ms); and, for the consumer, how
long after its acknowledgement the first record of the new leader was in its hands. Medians and percentiles come with
95 % confidence intervals (percentile bootstrap over moves). With ``--busy`` other producers load the brokers until
their answer to Metadata takes 50 ms or more: KIP-951's own condition.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import time
import uuid
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.admin import NewTopic

from .busy import busy_brokers
from .failover import apache
from .leader_move import CLIENTS, output_of, program, start
from .peers import FOREIGN, available, load_command
from .stats import percentile, table

READERS = ("lead", "lead-no-hints", "aiokafka", "confluent")
"""The clients whose consumer takes part, too."""
SETTLE_S = 1.5
EVERY_S = 0.5
"""From one move to the next: longer than any client needs in ordinary times."""
RESAMPLES = 2_000


class Move(NamedTuple):
    """The leader of the partition was to change."""

    at: float
    """Wall-clock second at which it was asked for."""
    leader: int
    """The index of the new leader among the brokers that the prober asks."""


class Figures(NamedTuple):
    """One move, in milliseconds."""

    leaderless: float
    acknowledged: float
    """The client's gap less the brokers'."""
    consumed: float | None
    """From the acknowledgement of the first record after the move to the consumer's hands."""


# --- a round ---------------------------------------------------------------------------------------------------------


async def move(admin: AdminClient, topic: str, servers: Sequence[str]) -> Move:
    """Give the partition another leader."""
    (partition,) = (await admin.describe_topics([topic]))[topic].partitions
    replicas = [*partition.replicas[1:], partition.replicas[0]]
    target = TopicPartition(topic, 0)
    await admin.alter_partition_reassignments({target: replicas})
    brokers = {broker.node_id: f"{broker.host}:{broker.port}" for broker in (await admin.describe_cluster()).brokers}
    began = time.time()
    await admin.elect_leaders([target])
    return Move(began, servers.index(brokers[replicas[0]]))


async def measure(client: str, bootstrap: str, backoff_ms: int, options: argparse.Namespace) -> list[Figures]:
    """One client's moves of one round."""
    topic = f"each-move-{uuid.uuid4().hex[:8]}"
    seconds = options.moves * (EVERY_S + 0.2) + 2 * SETTLE_S
    async with AdminClient(bootstrap) as admin, AsyncExitStack() as ended:
        await admin.create_topics([NewTopic(topic, 1, 3)])
        where: list[object] = ["--bootstrap", bootstrap, "--topic", topic]
        reader = None
        if client in READERS:
            reader = await program("reader", client, *where, "--retry-backoff-ms", backoff_ms)
            ended.callback(end, reader)
        load = await start(
            load_command(client), *where, "--partitions", 1, "--rate", options.rate, "--seconds", seconds,
            "--size", 200, "--retry-backoff-ms", backoff_ms,
        )  # fmt: skip
        ended.callback(end, load)
        assert load.stderr is not None
        while (line := await load.stderr.readline()) and line != b"ready\n":
            pass
        prober = await program("prober", *where, "--partitions", 1, "--seconds", seconds - 0.5, "--every-answer")
        ended.callback(end, prober)
        results = asyncio.gather(output_of(load), output_of(prober))
        await asyncio.sleep(SETTLE_S)
        moves: list[Move] = []
        last = time.monotonic() + seconds - 2 * SETTLE_S
        while len(moves) < options.moves and time.monotonic() < last:
            due = time.monotonic() + EVERY_S * random.uniform(0.8, 1.2)
            moves.append(await move(admin, topic, bootstrap.split(",")))
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        result, led = await results
        seen = {}
        if reader is not None:
            reader.terminate()
            seen = dict(await output_of(reader))
        await admin.delete_topics([topic])
    if result["failed"]:
        print(f"{client}: {result['failed']} records failed")
    return list(figures(moves, result["samples"], led, seen))


def end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing behind when a run fails."""
    if process.returncode is None:
        process.kill()


def figures(
    moves: Sequence[Move],
    samples: Sequence[tuple[int, float, float]],
    led: Sequence[tuple[float, int]],
    seen: dict[int, float],
) -> list[Figures]:
    """What each move has cost; those of which the prober or the load did not see the end are left out.

    ``samples`` are [number, second of the send, milliseconds to the acknowledgement], ``led`` are [second of a leader's
    answer, its index], ``seen`` when the consumer had which record.
    """
    acknowledged = sorted((sent + ms / 1000, number) for number, sent, ms in samples)
    times = [at for at, _ in acknowledged]
    found = []
    for this, following in itertools.pairwise([*moves, Move(times[-1], -1)]):
        new = [at for at, leader in led if leader == this.leader and this.at <= at < following.at]
        old = [at for at, leader in led if leader != this.leader and this.at - EVERY_S <= at < following.at]
        if not new or not old:
            continue
        leaderless = max(0.0, new[0] - old[-1])
        first, last = max(1, bisect_left(times, this.at)), bisect_left(times, following.at)
        if first >= last:
            continue
        gap, at = max((times[index] - times[index - 1], index) for index in range(first, last))
        read = seen.get(acknowledged[at][1])
        found.append(
            Figures(
                1000 * leaderless,
                1000 * (gap - leaderless),
                None if read is None else 1000 * max(0.0, read - times[at]),
            )
        )
    return found


# --- the whole -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def condition(bootstrap: str, busy: bool) -> AsyncIterator[str]:
    """The brokers as they are, or under load; gives the condition's name."""
    if not busy:
        yield "idle brokers"
        return
    async with busy_brokers(bootstrap) as metadata_ms:
        yield f"busy brokers, Metadata takes {metadata_ms:.0f} ms"


async def run(options: argparse.Namespace) -> None:
    """Every client in every round, in random order."""
    found: dict[tuple[int, str], list[Figures]] = defaultdict(list)
    async with apache() as cluster:
        for backoff_ms in options.backoff_ms:  # a young JVM's first seconds are nobody's
            await measure("lead", cluster.bootstrap, backoff_ms, options)
        async with condition(cluster.bootstrap, options.busy) as name:
            for number in range(options.rounds):
                cases = [(backoff_ms, client) for backoff_ms in options.backoff_ms for client in options.clients]
                random.shuffle(cases)
                for backoff_ms, client in cases:
                    moves = await measure(client, cluster.bootstrap, backoff_ms, options)
                    found[backoff_ms, client] += moves
                    middle = percentile(sorted(one.acknowledged for one in moves), 0.5)
                    print(f"round {number + 1:2} {client:14} backoff {backoff_ms:5} ms: {middle:7.1f} ms", flush=True)
    report(name, found, options)


def report(name: str, found: dict[tuple[int, str], list[Figures]], options: argparse.Namespace) -> None:
    """Two tables on the screen, and everything as JSON."""
    for title, field in (
        ("from the last acknowledgement to the next, less the brokers' own time", "acknowledged"),
        ("from the acknowledgement to the consumer's hands, of a new leader's first record", "consumed"),
    ):
        rows: list[list[object]] = []
        for (backoff_ms, client), moves in sorted(found.items()):
            values = [value for one in moves if (value := getattr(one, field)) is not None]
            floor = percentile(sorted(one.leaderless for one in moves), 0.5)
            if values:
                label = f"{CLIENTS[client]}, backoff {backoff_ms} ms"
                rows.append([label, len(values), floor, *(interval(values, share) for share in (0.5, 0.9, 0.99))])
        print(f"\nA leader move, {name}: {title}; ms [95 % interval]\n")
        print(table(["client", "moves", "leaderless, p50", "p50", "p90", "p99"], rows))
    options.out.mkdir(parents=True, exist_ok=True)
    every = [
        {"condition": name, "client": client, "backoff_ms": backoff_ms, **one._asdict()}
        for (backoff_ms, client), moves in found.items()
        for one in moves
    ]
    stem = "each_move_busy" if options.busy else "each_move"
    (options.out / stem).with_suffix(".json").write_text(json.dumps(every, indent=1))


def interval(values: Sequence[float], share: float) -> str:
    """A percentile with its confidence interval."""
    value = percentile(sorted(values), share)
    low, high = bootstrap_interval(values, lambda some: percentile(sorted(some), share))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def bootstrap_interval(values: Sequence[float], statistic: Callable[[Sequence[float]], float]) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of the statistic over resamples (the same ones in each call)."""
    draw = random.Random(1)
    resampled = sorted(statistic(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return percentile(resampled, 0.025), percentile(resampled, 0.975)


def main(arguments: list[str]) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "benchmarks each_move", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every: list[str] = [client for client in CLIENTS if client not in FOREIGN or client in available()]
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--moves", type=int, default=20, help="of each client in each round")
    parser.add_argument("--clients", nargs="+", choices=list(CLIENTS), default=every)
    parser.add_argument("--backoff-ms", nargs="+", type=int, default=[100, 1000])
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--busy", action="store_true", help="other producers load the brokers")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    asyncio.run(run(parser.parse_args(arguments)))
