"""Cost of a record, and of a leader move, in share groups, by client.

``python -m benchmarks share`` acquires and accepts records on Apache Kafka with this client, confluent-kafka's
ShareConsumer and Java's KafkaShareConsumer. Acknowledgements are implicit or explicit. This client is also measured
with its other methods.

``python -m benchmarks share --moves 20`` moves the leader of a partition this many times for each client, which takes
ten records at a time and waits for their acknowledgements. The figure of a move is the time from the last
acknowledgement that the old leader accepts to the first that the new leader accepts, minus the brokers' own time. A
prober measures the brokers' time with continuous requests to all brokers.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
import uuid
from collections.abc import Sequence
from functools import partial

import anyio

from aiokafka_lead import AdminClient
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType

from .each_move import end, move
from .leader_gaps import Move
from .leader_move import output_of, program
from .peers import available
from .stats import percentile, table
from .suite.brokers import Brokers, kafka
from .suite.report import bars, cost_table
from .suite.rounds import OURS, Case, Contender, parser, play, save, spreads
from .suite.sink import SinkTopic
from .suite.workload import Workload

PARTITIONS = 3
PEERS = [Contender("confluent"), *(Contender("java") for client in available() if client == "java")]
SETTLE_S = 3.0
EVERY_S = 1.5
"""Seconds from one move to the next."""
MOVED_RECORDS = 20_000
"""Number of records per move, more than any client takes between two moves."""


async def new_group(bootstrap: str) -> str:
    """Create a share group that starts at the beginning of topics, and return its name."""
    group = f"benchmark-{uuid.uuid4().hex}"
    resource = ConfigResource(ConfigResourceType.GROUP, group)
    async with AdminClient(bootstrap) as admin:
        await admin.incremental_alter_configs({resource: [ConfigChange("share.auto.offset.reset", "earliest")]})
    return group


def case(name: str, contenders: list[Contender], records: int, method: str) -> Case:
    """Return a case with records of three partitions."""
    topic = SinkTopic(PARTITIONS, -(-records * 3 // 2 // PARTITIONS))

    def workload(contender: Contender, place: Brokers) -> Workload:
        return Workload(
            "share", contender.client, place.bootstrap, place.topic(topic), method, loop=contender.loop,
            pure=contender.pure, records=int(records * (0.2 if contender.pure else 1.0)),
            group=anyio.run(new_group, place.bootstrap),
        )  # fmt: skip

    return Case(name, contenders, workload)


# --- leader moves ----------------------------------------------------------------------------------------------------


async def moved(client: str, place: Brokers, topic: str, count: int) -> list[tuple[float, float]]:
    """Return the client's gap and the brokers' gap for each move, in milliseconds."""
    seconds = count * (EVERY_S + 0.2) + 2 * SETTLE_S
    group = await new_group(place.bootstrap)
    work = Workload("share_moves", client, place.bootstrap, topic, group=group, seconds=seconds)
    async with AdminClient(place.bootstrap) as admin:
        topic_id = (await admin.describe_topics([topic]))[topic].topic_id
        servers = [f"{each.host}:{each.port}" for each in (await admin.describe_cluster()).brokers]
        load = await program("suite.worker", work.to_json())
        await asyncio.sleep(SETTLE_S)
        prober = await program(
            "share_prober", "--bootstrap", ",".join(servers), "--topic-id", topic_id, "--group", group,
            "--seconds", seconds - 1.5 * SETTLE_S,
        )  # fmt: skip
        results = asyncio.gather(output_of(load), output_of(prober))
        try:
            await asyncio.sleep(SETTLE_S / 2)
            moves = []
            for _ in range(count):
                moves.append(await move(admin, topic, servers))
                await asyncio.sleep(EVERY_S)
            taken, floor = await results
        finally:
            end(load)
            end(prober)
    return gaps([*moves, Move(time.time(), -1)], taken, floor)


def gaps(
    moves: Sequence[Move], taken: Sequence[float], floor: Sequence[tuple[float, int]]
) -> list[tuple[float, float]]:
    """Return the gaps of the moves whose end both the client and the prober have seen.

    The client's gap is the longest gap that overlaps the prober's time without acknowledgements, because a busy machine
    causes other gaps.
    """
    found = []
    for this, following in itertools.pairwise(moves):
        new = [at for at, leader in floor if leader == this.leader and this.at <= at < following.at]
        old = [at for at, leader in floor if leader != this.leader and new and at < new[0]]
        if not new or not old:
            continue
        without = [
            later - earlier for earlier, later in itertools.pairwise(taken) if earlier < new[0] and later > old[-1]
        ]
        if without:
            found.append((1000 * max(without), 1000 * (new[0] - old[-1])))
    return found


def compare_moves(place: Brokers, options: argparse.Namespace) -> None:
    """Measure the moves of all clients in turn. The first turn warms the brokers up."""
    topic = place.topic(SinkTopic(1, MOVED_RECORDS * (options.moves + 5), replicas=3))
    asyncio.run(moved("lead", place, topic, 2))
    rows: list[list[object]] = []
    every = {}
    for client in ["lead", *(peer.client for peer in PEERS)]:
        if options.client not in client:
            continue
        try:
            found = every[client] = asyncio.run(moved(client, place, topic, options.moves))
        except RuntimeError as error:
            print(f"{client}: {error}", file=sys.stderr)
            continue
        figures = [[own for _, own in found], [gap for gap, _ in found], [gap - own for gap, own in found]]
        rows.append(
            [client, len(found), *(percentile(sorted(each), share) for each in figures for share in (0.5, 0.9))]
        )
        print(f"{client}: {len(found)} moves", file=sys.stderr)
    header = ["client", "moves", *(f"{what} p{n}" for what in ("brokers' own", "gap", "over it") for n in (50, 90))]
    print(f"\nAcknowledgements of a share group while the leader moves; ms\n\n{table(header, rows)}\n")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "share_moves.json").write_text(json.dumps(every, indent=1))


def main(arguments: list[str]) -> None:
    made = parser("share", __doc__)
    made.set_defaults(on="kafka", rounds=3, records=200_000)
    made.add_argument("--moves", type=int, default=0, help="measure this many leader moves per client instead of costs")
    made.add_argument("--brokers", type=int, default=3, help="number of brokers to start")
    options = made.parse_args(arguments)
    with kafka(options.kafka, options.brokers) as brokers:
        if options.moves:
            compare_moves(brokers, options)
            return
        make = partial(case, records=options.records)
        cases = [
            make("implicit", [*OURS, *PEERS], method="implicit"),
            make("explicit", [*OURS, *PEERS], method="explicit"),
            make("async for", OURS, method="async_for"),
            make("batches", OURS[:1], method="batches"),
            make("run", OURS, method="run"),
        ]
        samples = play(cases, brokers, options)
        print(f"\nRecords of a share group on {brokers.name}\n\n{cost_table(samples)}\n")
        pictures = {
            "cpu": bars("Records of a share group: client CPU per record", "us", spreads(samples, "cpu_us")),
            "wall": bars("Records of a share group", "records/s", spreads(samples, "per_second", max)),
        }
        save(options, "share", samples, pictures)
