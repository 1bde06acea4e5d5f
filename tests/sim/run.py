"""One run: storms and calms in turn, with checks of properties throughout, and at the end of each calm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiokafka_lead.config import ConsumerConfig, ProducerConfig
from tests.simulated.timeline import Timeline

from .cluster import BOOTSTRAP, Cluster
from .reader import Reader
from .storm import Storm
from .writer import Writer, check

SETTLES_WITHIN_S = 20.0
"""Bound in seconds after a storm. Clients believe in a false epoch for 5 s and ten answers; backoffs follow."""


@dataclass
class Report:
    """Figures of a run."""

    records: int = 0
    settled_s: float = 0.0
    """The longest time from the end of a storm until everything was acknowledged and read."""
    busiest: tuple[int, ...] = ()
    """Maximum within a second: metadata requests, connects to an address, refusals of Produce, errors of Fetch."""
    rebootstraps: int = 0
    rewinds: int = 0
    hints: int = 0


def pass_time(
    timeline: Timeline, clients: Sequence[Writer | Reader], seconds: float, *, until: Callable[[], bool] | None = None
) -> bool:
    """Let time pass until the condition is true, within a bound; returns True if it became true.

    Clients set ``woken`` for all that may change the time of their next step.
    """
    end = timeline.now + seconds
    dues = [client.next_at() for client in clients]
    looks = True
    while True:
        for number, client in enumerate(clients):
            turns = 0
            while client.client.woken or dues[number] <= timeline.now:
                client.client.woken = False
                client.pump()
                dues[number], looks = client.next_at(), True
                turns += 1
                assert turns < 1000, "it does not come to rest"
        if looks and until is not None and until():
            return True
        if timeline.now >= end:
            return False
        looks = False
        timeline.advance(min(*dues, timeline.next_at(end)))


class Run:
    """A cluster, a producer and a consumer."""

    def __init__(self, seed: int) -> None:
        self.timeline = Timeline(seed)
        rng = self.timeline.rng
        self.cluster = Cluster(self.timeline, rng.choice([1, 2, 3, 3]), rng.choice([1, 2, 4]))
        strategy = rng.choice(["rebootstrap"] * 5 + ["none"])
        options = {
            "retry_backoff_ms": rng.choice([20, 100]),
            "request_timeout_ms": rng.choice([800, 2000]),
            "socket_connection_setup_timeout_ms": 1000,
            "socket_connection_setup_timeout_max_ms": 2000,
            "leader_hint_policy": rng.choice(["trust", "trust", "trust", "known_nodes", "off"]),
            "metadata_recovery_strategy": strategy,
            "metadata_recovery_rebootstrap_trigger_ms": rng.choice([1500, 300_000]),
            "metadata_max_age_ms": rng.choice([500, 300_000]),
        }
        producing = {
            **options,
            "linger_ms": rng.choice([0, 5]),
            "batch_size": (size := rng.choice([1, 200])),
            "batch_size_max": size * rng.choice([1, 5]),
            "delivery_timeout_ms": 3_600_000,
        }
        servers = f"{BOOTSTRAP[0]}:{BOOTSTRAP[1]}"
        self.writer = Writer(self.timeline, self.cluster, ProducerConfig.from_options(servers, producing))
        self.reader = Reader(self.timeline, self.cluster, ConsumerConfig.from_options(servers, options))
        self._storm = Storm(
            self.timeline,
            self.cluster,
            rng.choice([1, 4, 10]),
            # Without a rebootstrap, clients cannot find a cluster whose brokers have all moved.
            addresses_change=strategy == "rebootstrap",
        )
        self._clients = (self.writer, self.reader)
        self._writing = True

    def play(self, storms: int = 2, seconds: float = 2.5) -> Report:
        """Execute the whole run. Raises AssertionError if a property does not hold."""
        report = Report()
        self._settle(report)
        self._write()
        self._read()
        for _ in range(storms):
            self._storm.blow()
            pass_time(self.timeline, self._clients, seconds)
            self._storm.end()
            self._writing = False
            self._settle(report)
            self._writing = True
            self._write()
        self._writing = False
        self._settle(report)
        check(self.cluster, self.writer)
        self._count(report)
        return report

    def _write(self) -> None:
        if self._writing:
            for _ in range(self.timeline.rng.randint(1, 4)):
                self.writer.send(self.timeline.rng.randrange(len(self.cluster.partitions)))
            self.timeline.later(self.timeline.rng.expovariate(40), self._write)

    def _read(self) -> None:
        self.reader.take(self.timeline.rng.randint(1, 40))
        self.timeline.later(self.timeline.rng.expovariate(50), self._read)

    def _settle(self, report: Report) -> None:
        began = self.timeline.now
        settled = pass_time(
            self.timeline,
            self._clients,
            SETTLES_WITHIN_S,
            until=lambda: self.writer.all_acknowledged() and self.reader.all_read(),
        )
        assert settled, f"not acknowledged or not read {SETTLES_WITHIN_S:g} s after the storm"
        report.settled_s = max(report.settled_s, self.timeline.now - began)

    def _count(self, report: Report) -> None:
        clients = (self.writer.client, self.reader.client)
        report.records = sum(len(sent) for sent in self.writer.sent.values())
        report.busiest = (
            max(client.requests.most for client in clients),
            max(client.links.connects.most for client in clients),
            self.writer.refusals.most,
            self.reader.refusals.most,
        )
        for client in clients:
            counters = client.state.counters.snapshot()
            report.hints += counters.hints_accepted
            report.rewinds += counters.rewinds
            report.rebootstraps += counters.rebootstraps_unavailable + counters.rebootstraps_timed_out
            report.rebootstraps += counters.rebootstraps_required
