"""Load that a large fleet of clients causes on each broker, and the fleet's time to recover from events.

``python -m benchmarks fleet`` simulates 10,000 client processes, half of them producers and half consumers. They use
1,000 topics of 100 partitions on 300 brokers. The simulation runs the clients of one topic in virtual time, with the
policies of this client (``_core``) and simulated connections (``tests/sim``). Each broker leads partitions of a third
of the topics, so each event affects a third of the processes, and the requests of the sample are scaled accordingly.
The results do not depend on the machine. A run takes one or two minutes.
"""

from __future__ import annotations

import argparse
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aiokafka_lead._core.consumer.fetch_plan import FetchLimits
from aiokafka_lead._core.metadata.reachability import Endpoint
from aiokafka_lead._core.producer.delivery import Delivery
from aiokafka_lead._wire.messages.metadata import MetadataResponse
from aiokafka_lead.config import ConsumerConfig, ProducerConfig
from tests.sim.cluster import BOOTSTRAP, Cluster, FaultyBroker, Refusal, Refusals
from tests.sim.dial import Route
from tests.sim.reader import Reader
from tests.sim.run import pass_time
from tests.sim.writer import Writer
from tests.simulated.codes import NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT
from tests.simulated.partition import Partition
from tests.simulated.timeline import Timeline

from .stats import percentile

PROCESSES, PARTITIONS, BROKERS, OF_A_TOPIC = 10_000, 100_000, 300, 100
CONCERNED = PROCESSES * OF_A_TOPIC // BROKERS
"""Number of processes that use at least one partition of a given broker."""
PRODUCERS, CONSUMERS = 14, 2
SAMPLE = PRODUCERS + CONSUMERS
RECORDS_EVERY_S = 0.1
"""Interval in seconds between a producer's records for the partition that moves."""
OTHERS_SHARE = 0.2
"""Number of records for all other partitions together, for each record for the partition that moves."""
LOOK_EVERY_S = 0.01
MIGRATED_S = 10.0
HEARS_WITHIN_S = 0.06
"""Seconds until all brokers have learned of an election."""
NOTICED_AFTER_S = 9.0
"""Seconds after which the cluster considers a silent broker dead (``broker.session.timeout.ms``)."""


class _Logins(list[Any]):
    """List of a broker's connections, which calls ``note`` for each new connection."""

    def __init__(self, note: Callable[[], None]) -> None:
        super().__init__()
        self._note = note

    def append(self, link: Any) -> None:
        super().append(link)
        self._note()


class FleetCluster(Cluster):
    """A simulated cluster that counts requests."""

    def __init__(self, timeline: Timeline, brokers: int, partitions: int) -> None:
        super().__init__(timeline, brokers, partitions)
        self.counts: Counter[tuple[str, int]] = Counter()
        """Number of requests by kind and tenth of a second."""
        self.bootstraps: int | None = None
        """Number of brokers to which the bootstrap server's name resolves; None for all."""
        self.alone: FaultyBroker | None = None
        """The only broker whose requests are counted, if an event concentrates clients on it; None to count all."""
        for broker in self.brokers.values():
            broker.links = _Logins(partial(self._count, "connects", broker))

    def _count(self, kind: str, broker: FaultyBroker) -> None:
        kind = f"{kind} apart" if broker is self.alone else kind
        self.counts[kind, int(self.timeline.now * 10)] += 1

    def most(self, kind: str, tenths: int) -> int:
        """Return the largest number of requests of a kind within a period of this many tenths of a second."""
        times = sorted(at for each, at in self.counts if each == kind)
        return max((sum(self.counts[kind, at + n] for n in range(tenths)) for at in times), default=0)

    def targets(self, endpoint: Endpoint) -> dict[str, FaultyBroker | Route]:
        found = super().targets(endpoint)
        if endpoint == BOOTSTRAP and self.bootstraps is not None:
            kept = sorted(found)[: self.bootstraps]
            found = {address: target for address, target in found.items() if address in kept}
        return found

    def metadata(self, broker: FaultyBroker) -> MetadataResponse:
        self._count("Metadata", broker)
        return super().metadata(broker)

    def append(self, broker: FaultyBroker, partition: Partition, raw: memoryview) -> tuple[int, int, Refusal | None]:
        found = super().append(broker, partition, raw)
        self._count("refused Produce" if found[0] else "Produce", broker)
        return found

    def elect(self, partition: Partition, leader: int) -> None:
        """Elect another leader. Brokers learn of it in ten groups, one after another."""
        partition.elect(leader, list(self.brokers))
        groups: list[list[int]] = [[] for _ in range(10)]
        for broker_id in self.brokers:
            self.timeline.rng.choice(groups).append(broker_id)
        for number, group in enumerate(groups, 1):
            self.timeline.later(number / 10 * HEARS_WITHIN_S, partial(self._all_learn, partition, group))

    def _all_learn(self, partition: Partition, brokers: Sequence[int]) -> None:
        for broker_id in brokers:
            partition.learn(broker_id)
        self.touched(*brokers)


class Fleet:
    """Running clients of one topic, as a sample of the fleet."""

    def __init__(self, seed: int, options: dict[str, Any]) -> None:
        self.timeline = Timeline(seed)
        self.cluster = FleetCluster(self.timeline, BROKERS, OF_A_TOPIC)
        servers = f"{BOOTSTRAP[0]}:{BOOTSTRAP[1]}"
        writing = ProducerConfig.from_options(servers, {"linger_ms": 0, "delivery_timeout_ms": 3_600_000, **options})
        reading = ConsumerConfig.from_options(servers, {"fetch_max_wait_ms": 2000, **options})
        self.writers = [
            Writer(self.timeline, self.cluster, writing, producer_id=1000 + number) for number in range(PRODUCERS)
        ]
        limits = FetchLimits(reading.fetch_max_bytes, reading.max_partition_fetch_bytes)
        self.readers = [Reader(self.timeline, self.cluster, reading, limits=limits) for _ in range(CONSUMERS)]
        self._clients: list[Writer | Reader] = [*self.writers, *self.readers]
        self._pending: list[deque[tuple[float, Delivery]]] = [deque() for _ in self.writers]
        """Send times and deliveries of each producer's records for the partition that moves."""
        self._behind_since: list[float | None] = [None] * len(self.readers)
        self.waits_s = [0.0] * SAMPLE
        """Longest time in seconds until a record of each client was acknowledged (producers) or read (consumers)."""

    def start(self) -> None:
        """Connect all clients to the brokers that they need, and start to measure."""
        self.pass_time(3.0)
        for writer in self.writers:
            for index in range(OF_A_TOPIC):
                writer.send(index)
        self.pass_time(2.0)
        for number in range(len(self.writers)):
            self._write(number)
        self._look()
        self.pass_time(2.0)
        self.cluster.counts.clear()
        self.waits_s = [0.0] * SAMPLE

    def pass_time(self, seconds: float) -> None:
        pass_time(self.timeline, self._clients, seconds)

    def _write(self, number: int) -> None:
        writer, rng = self.writers[number], self.timeline.rng
        writer.send(0)
        self._pending[number].append((self.timeline.now, writer.sent[0][-1][1]))
        if rng.random() < OTHERS_SHARE:
            writer.send(rng.randrange(1, OF_A_TOPIC))
        self.timeline.later(rng.uniform(0.5, 1.5) * RECORDS_EVERY_S, partial(self._write, number))

    def _look(self) -> None:
        now, moved = self.timeline.now, self.cluster.partitions[0]
        for number, pending in enumerate(self._pending):
            while pending and pending[0][1].done():
                self._waited(number, pending.popleft()[0])
        for number, reader in enumerate(self.readers):
            reader.take(100_000)
            since = self._behind_since[number]
            behind = reader.position(reader.tps[0]) < moved.end
            if since is not None and not behind:
                self._waited(len(self.writers) + number, since)
            self._behind_since[number] = (now if since is None else since) if behind else None
        self.timeline.later(LOOK_EVERY_S, self._look)

    def _waited(self, number: int, since: float) -> None:
        self.waits_s[number] = max(self.waits_s[number], self.timeline.now - since)


# --- events ----------------------------------------------------------------------------------------------------------


def nothing(fleet: Fleet) -> None:
    """Simulate ten seconds without an event."""
    fleet.pass_time(10.0)


def roll(fleet: Fleet) -> None:
    """Shut the leader down cleanly, start it again, and make it the leader again."""
    cluster, moved = fleet.cluster, fleet.cluster.partitions[0]
    broker = cluster.brokers[moved.leader]
    cluster.move(moved)
    fleet.pass_time(0.5)
    cluster.kill(broker, 0.0)
    fleet.pass_time(10.0)
    cluster.alone = broker
    cluster.restart(broker, elsewhere=False)
    fleet.pass_time(2.0)
    cluster.elect(moved, broker.broker_id)
    fleet.pass_time(3.0)


def death(fleet: Fleet) -> None:
    """Kill the leader; the cluster notices after `NOTICED_AFTER_S`."""
    cluster = fleet.cluster
    cluster.kill(cluster.brokers[cluster.partitions[0].leader], NOTICED_AFTER_S)
    fleet.pass_time(NOTICED_AFTER_S + 5.0)


def sickness(fleet: Fleet) -> None:
    """Isolate the leader. It then refuses all requests, and does not know the new leader."""
    cluster, moved = fleet.cluster, fleet.cluster.partitions[0]
    broker = cluster.brokers[moved.leader]
    broker.refuses = Refusals([REQUEST_TIMED_OUT], [NOT_LEADER_OR_FOLLOWER])
    broker.stale = cluster.view(broker)
    cluster.move(moved)
    fleet.pass_time(10.0)


def migration(fleet: Fleet, bootstraps: int | None) -> None:
    """Restart all brokers at new addresses within a second. Only the name of the bootstrap server stays the same."""
    cluster = fleet.cluster
    cluster.bootstraps = bootstraps

    def arrive(broker: FaultyBroker) -> None:
        broker.endpoint = "moved", broker.broker_id
        cluster.restart(broker, elsewhere=False)

    for broker in cluster.brokers.values():
        cluster.kill(broker, 0.5)
        cluster.timeline.later(cluster.timeline.rng.uniform(0.5, 1.5), partial(arrive, broker))
    fleet.pass_time(MIGRATED_S)


def outage(fleet: Fleet) -> None:
    """Stop all brokers, and restart them at the same addresses after half a minute."""
    cluster = fleet.cluster
    for broker in cluster.brokers.values():
        cluster.kill(broker, 0.5)
    fleet.pass_time(30.0)
    cluster.counts.clear()
    for broker in cluster.brokers.values():
        cluster.restart(broker, elsewhere=False)
    fleet.pass_time(15.0)


Event = Callable[[Fleet], None]
HINTS: dict[str, dict[str, Any]] = {"with hints": {}, "without hints": {"leader_hint_policy": "off"}}
EVENTS: list[tuple[str, Event, int, dict[str, dict[str, Any]]]] = [
    ("nothing happens", nothing, PROCESSES, {"": {}}),
    ("rolling restart, one broker: its leaders move away, it restarts, they return", roll, CONCERNED, HINTS),
    ("a broker dies, noticed after 9 s", death, CONCERNED, HINTS),
    ("a broker is cut off, and refuses all requests", sickness, CONCERNED, {"with doubt": {}}),
    ("all brokers move, 300 bootstrap servers", partial(migration, bootstraps=None), PROCESSES, {"": {}}),
    ("all brokers move, 3 bootstrap servers", partial(migration, bootstraps=3), PROCESSES, {"": {}}),
    ("all brokers are down for 30 s", outage, PROCESSES, {"": {}}),
]
"""Events, each with the number of processes affected, and the options to compare."""


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fleet", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    columns = ["event", "", "Metadata/s", "connects/s", "connects in 0.1 s", "connects to it in 0.1 s"]
    columns += ["refused Produce/s", "records wait, p50", "longest"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * 2}{'--:|' * (len(columns) - 2)}")
    for name, event, concerned, variants in EVENTS:
        for variant, given in variants.items():
            fleet = Fleet(options.seed, given)
            fleet.start()
            event(fleet)
            print(f"| {name} | {variant} | {_figures(fleet, concerned)} |", flush=True)


def _figures(fleet: Fleet, concerned: int) -> str:
    """Return the cells of a row: requests to each broker in the busiest second, and recovery times."""
    most, scale = fleet.cluster.most, concerned / SAMPLE
    waits = sorted(fleet.waits_s)
    return " | ".join(
        [
            f"{most('Metadata', 10) * scale / BROKERS:,.0f}",
            f"{most('connects', 10) * scale / BROKERS:,.0f}",
            f"{most('connects', 1) * scale / BROKERS:,.0f}",
            f"{most('connects apart', 1) * scale:,.0f}",
            f"{most('refused Produce', 10) * scale:,.0f}",
            f"{percentile(waits, 0.5):.2f} s",
            f"{waits[-1]:.2f} s",
        ]
    )
