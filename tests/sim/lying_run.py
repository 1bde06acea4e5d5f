"""One run in which brokers answer wrongly: checks how soon the clients find a correct answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiokafka_lead.config import ConsumerConfig, ProducerConfig
from tests.core.fetch_world import VERSION
from tests.simulated.timeline import Timeline

from .client import SimClient
from .cluster import BOOTSTRAP, Cluster
from .lies import Nemesis
from .progress import LOOK_EVERY_S, Progress, Stall
from .reader import Reader
from .run import pass_time
from .writer import Writer, check

WITHIN_S = 2.0
"""Bound in seconds on the time until each partition proceeds, once a correct answer is available."""

GRAIN_S = 2 * LOOK_EVERY_S
"""Tolerance in seconds of the measured length of a stall."""

GIVEN_UP_AFTER_S = 60.0

WRITES_PER_SECOND = 20
"""Each of one to four records: every partition has something to do at all times."""


@dataclass
class LyingReport:
    """Figures of a run."""

    records: int = 0
    stalls: list[Stall] = field(default_factory=list)
    vain: tuple[int, int, int] = (0, 0, 0)
    """Maximum within a second: refusals of Produce and of Fetch by one broker; and of Metadata by all brokers."""


class LyingRun:
    """A cluster, a producer and a consumer, and a series of lies."""

    def __init__(self, seed: int) -> None:
        self.timeline = Timeline(seed)
        rng = self.timeline.rng
        self.cluster = Cluster(self.timeline, rng.choice([2, 3, 3, 5]), rng.choice([1, 2, 4]))
        self.cluster.tells_leaders = rng.random() < 0.5
        if len(self.cluster.brokers) > 2 and rng.random() < 0.5:
            self.cluster.nearest = rng.choice(list(self.cluster.brokers))
            for partition in self.cluster.partitions:
                if partition.leader == self.cluster.nearest:
                    self.cluster.move(partition)
        self.timeline.advance(self.timeline.now + 0.1)
        self.options = {
            "retry_backoff_ms": rng.choice([20, 100, 100]),
            "leader_hint_policy": rng.choice(["trust", "trust", "known_nodes", "off"]),
        }
        self._version = rng.choice([11, VERSION, VERSION])
        self._linger_ms = rng.choice([0, 5])
        self.writers: list[Writer] = []
        self.readers: list[Reader] = []
        self._start_writer()
        self._start_reader()
        self._nemesis = Nemesis(self.timeline, self.cluster, self._known)
        self._progress = Progress(self.timeline, self.cluster, self.writers[0], self.readers[0])
        self._writing = False

    def _start_writer(self) -> None:
        options = {**self.options, "linger_ms": self._linger_ms, "delivery_timeout_ms": 3_600_000}
        config = ProducerConfig.from_options(_SERVERS, options)
        self.writers.append(Writer(self.timeline, self.cluster, config, producer_id=1000 + len(self.writers)))

    def _start_reader(self) -> None:
        config = ConsumerConfig.from_options(_SERVERS, {**self.options, "client_rack": "near"})
        self.readers.append(Reader(self.timeline, self.cluster, config, version=self._version, resets=True))

    def play(self, lies: int = 3) -> LyingReport:
        """Play the whole run. Raises AssertionError if a property does not hold."""
        self._settle()
        self._write()
        for _ in range(lies):
            self._lie()
        self._progress.begin("")
        check(self.cluster, *self.writers)
        for stall in self._progress.stalls:
            assert stall.seconds <= WITHIN_S + GRAIN_S, f"{stall}: longer than {WITHIN_S:g} s"
        return LyingReport(
            sum(partition.end for partition in self.cluster.partitions),
            self._progress.stalls,
            (
                max(writer.vain.most for writer in self.writers),
                max(reader.vain.most for reader in self.readers),
                max(client.requests.most for client in self._clients),
            ),
        )

    def _lie(self) -> None:
        rng = self.timeline.rng
        lie = rng.choice(list(self._nemesis.lies)) if self._known() else "name astray"
        self._nemesis.lies[lie]()
        self._progress.begin(lie)
        if rng.random() < 0.3:
            self._replace()
        self._writing = True
        self._pass_time(rng.uniform(1, 5))
        self._nemesis.end()
        self._pass_time(rng.uniform(0, 1))
        self._writing = False
        self._settle()

    @property
    def _clients(self) -> list[SimClient]:
        return [writer.client for writer in self.writers] + [reader.client for reader in self.readers]

    def _known(self) -> set[int]:
        """Return the brokers whose addresses both clients know: all, while these know only the bootstrap servers."""
        known = set(self.cluster.brokers)
        for client in (self.writers[-1].client, self.readers[-1].client):
            if not client.state.bootstrapping:
                known &= {
                    broker.node_id
                    for broker in client.snapshot.brokers.values()
                    if self.cluster.brokers[broker.node_id].endpoint == (broker.host, broker.port)
                }
        return known

    def _replace(self) -> None:
        """Replace the clients by new ones, which know only their configuration."""
        self.writers[-1].client.end()
        self.readers[-1].client.end()
        self._start_writer()
        self._start_reader()
        self._progress.writer, self._progress.reader = self.writers[-1], self.readers[-1]

    def _pass_time(self, seconds: float) -> None:
        pass_time(self.timeline, (self.writers[-1], self.readers[-1]), seconds)

    def _write(self) -> None:
        if self._writing:
            for _ in range(self.timeline.rng.randint(1, 4)):
                self.writers[-1].send(self.timeline.rng.randrange(len(self.cluster.partitions)))
        self.timeline.later(self.timeline.rng.expovariate(WRITES_PER_SECOND), self._write)

    def _settle(self) -> None:
        writer, reader = self.writers[-1], self.readers[-1]

        def done() -> bool:
            # TCP repeats an unanswered connect after 1, 2, 4 s: one that began under a lie would delay the next truth.
            connecting = writer.client.links.connecting or reader.client.links.connecting
            return writer.all_acknowledged() and reader.all_read() and not connecting

        settled = pass_time(self.timeline, (writer, reader), GIVEN_UP_AFTER_S, until=done)
        assert settled, f"not acknowledged or not read {GIVEN_UP_AFTER_S:g} s after a lie"


_SERVERS = f"{BOOTSTRAP[0]}:{BOOTSTRAP[1]}"
