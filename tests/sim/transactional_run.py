"""One run with transactions: writers during storms, a reader of committed records, and a check of the history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from aiokafka_lead._records import ConsumerRecord
from aiokafka_lead.config import ConsumerConfig, ProducerConfig
from tests.simulated.timeline import Timeline
from tests.transactions.history import History, Value

from .cluster import BOOTSTRAP
from .reader import Reader
from .run import SETTLES_WITHIN_S, pass_time
from .storm import Storm
from .transactional_cluster import TransactionalCluster
from .transactional_pipeline import PipelinedWriter, SimPipeline
from .transactional_writer import TransactionalWriter
from .writer import Writer

TIMEOUT_MS = 2500


class CommittedReader(Reader):
    """Records its observations."""

    def __init__(self, timeline: Timeline, cluster: TransactionalCluster, config: ConsumerConfig) -> None:
        super().__init__(timeline, cluster, config, read_committed=True)
        self._logs = cluster.logs
        self.seen: dict[int, list[Value]] = {tp.partition: [] for tp in self.tps}

    def _see(self, record: ConsumerRecord[bytes | None, bytes | None]) -> None:
        self.seen[record.partition].append(Value.decoded(record.value))

    def all_read(self) -> bool:
        return all(self.seen[log.index] == log.committed() for log in self._logs)


class TransactionalStorm(Storm):
    """Coordinators move, too, transactions are timed out, and markers take their time."""

    _cluster: TransactionalCluster

    def __init__(self, timeline: Timeline, cluster: TransactionalCluster, per_second: float, ids: list[str]) -> None:
        super().__init__(timeline, cluster, per_second, addresses_change=True)
        self._ids = ids
        self._accidents += [(20, cluster.move_coordinator), (6, self._time_out), (6, self._slow_markers)]

    def _time_out(self) -> None:
        self._cluster.transactions.time_out(self._ids[self._rng.randrange(len(self._ids))])

    def _slow_markers(self) -> None:
        self._cluster.transactions.marker_delay_ms = self._rng.choice([0, 5, 200])


@dataclass
class TransactionalReport:
    """Figures of a run."""

    outcomes: Counter[str | None] = field(default_factory=Counter)
    rotations: int = 0
    """Number of times that a producer with no epochs left got another id."""
    coordinator_moves: int = 0
    overlapping: int = 0
    """Number of transactions that began while other transactions of their pipeline were in flight."""


class TransactionalRun:
    """A cluster of one version of transactions, two producers or pipelines, and a consumer."""

    def __init__(self, seed: int, *, v2: bool, pipelines: bool = False) -> None:
        self.timeline = Timeline(seed)
        rng = self.timeline.rng
        self.cluster = TransactionalCluster(self.timeline, rng.choice([2, 3]), rng.choice([1, 3]), v2=v2)
        self.history = History()
        options = {
            "retry_backoff_ms": rng.choice([20, 100]),
            "request_timeout_ms": rng.choice([600, 1500]),
            "socket_connection_setup_timeout_ms": 1000,
            "socket_connection_setup_timeout_max_ms": 2000,
        }
        producing = {**options, "linger_ms": rng.choice([0, 5]), "batch_size": rng.choice([1, 200])}
        producing |= {"delivery_timeout_ms": rng.choice([2000, 120_000]), "transaction_timeout_ms": TIMEOUT_MS}
        servers = f"{BOOTSTRAP[0]}:{BOOTSTRAP[1]}"
        self.writers: list[TransactionalWriter] = []
        self.pipelines: list[SimPipeline] = []
        ids = []
        for number in range(2):
            name = f"writer-{number}"
            own = [f"{name}-{member}" for member in range(rng.choice([2, 3]))] if pipelines else [name]
            if pipelines:
                self.pipelines.append(SimPipeline(number, self.history))
            for transactional_id in own:
                if rng.random() < 0.5:
                    self.cluster.use_epochs_up(transactional_id)
                config = ProducerConfig.from_options(servers, {**producing, "transactional_id": transactional_id})
                if pipelines:
                    member = PipelinedWriter(self.pipelines[-1], self.timeline, self.cluster, config)
                    self.writers.append(member)
                else:
                    self.writers.append(TransactionalWriter(number, self.timeline, self.cluster, config, self.history))
            ids += own
        self.reader = CommittedReader(self.timeline, self.cluster, ConsumerConfig.from_options(servers, options))
        self._storm = TransactionalStorm(self.timeline, self.cluster, rng.choice([1, 4, 10]), ids)
        self._clients: list[Writer | Reader] = [*self.writers, self.reader]

    def play(self, seconds: float = 4.0) -> TransactionalReport:
        """Play the whole run. Raises AssertionError if a property does not hold."""
        pass_time(self.timeline, self._clients, 1.0)
        self._read()
        self.cluster.late_share = 0.05
        self._storm.blow()
        pass_time(self.timeline, self._clients, seconds)
        self._storm.end()
        for writer in self.writers:
            writer.stopping = True
        settled = pass_time(self.timeline, self._clients, SETTLES_WITHIN_S, until=self._is_over)
        assert settled, f"not over {SETTLES_WITHIN_S:g} s after the storm: {[w.state.phase for w in self.writers]}"
        self.history.reads = [self.reader.seen, {log.index: log.committed() for log in self.cluster.logs}]
        assert self.history.findings() == []
        assert [finding for pipeline in self.pipelines for finding in pipeline.findings()] == []
        assert all(log.stored.stable_offset is None for log in self.cluster.logs), "a transaction is open"
        return TransactionalReport(
            Counter(written.outcome for written in self.history.written.values()),
            self.cluster.given_ids - len(self.writers),
            self.cluster.epochs,
            sum(bool(chained.behind) for pipeline in self.pipelines for chained in pipeline.begun),
        )

    def _is_over(self) -> bool:
        return all(writer.stopped for writer in self.writers) and self.reader.all_read()

    def _read(self) -> None:
        self.reader.take(self.timeline.rng.randint(1, 40))
        self.timeline.later(self.timeline.rng.expovariate(50), self._read)
