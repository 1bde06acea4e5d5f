"""Measures how long partitions wait if their broker dies just after other leaders have moved."""

from __future__ import annotations

from collections import deque

from aiokafka_lead.config import ConsumerConfig, ProducerConfig
from aiokafka_lead.types import TopicPartition
from tests.simulated.timeline import Timeline

from .cluster import BOOTSTRAP, TOPIC, Cluster
from .reader import Reader
from .run import pass_time
from .writer import Writer, check

BROKERS = 3
PARTITIONS = 6
MOVES = 30
MOVES_TAKE_S = 2.0
EVERY_S = 0.01
"""Time between two records."""
LOOK_EVERY_S = 0.002
WATCHED_S = 1.0
"""Time for which records are sent after the dead broker was replaced."""


class Failover:
    """One burst of moves, or none, and one death, under default options.

    The cluster considers the dead broker alive for ``noticed_after_s``.
    """

    def __init__(self, seed: int, noticed_after_s: float) -> None:
        self._noticed_after_s = noticed_after_s
        self.timeline = Timeline(seed)
        self.cluster = Cluster(self.timeline, BROKERS, PARTITIONS)
        servers = f"{BOOTSTRAP[0]}:{BOOTSTRAP[1]}"
        self.writer = Writer(self.timeline, self.cluster, ProducerConfig.from_options(servers, {"linger_ms": 0}))
        self.reader = Reader(self.timeline, self.cluster, ConsumerConfig.from_options(servers, {}))
        self.acknowledged_s = 0.0
        """The longest time from sending a record to its acknowledgement, since the broker died."""
        self.read_s = 0.0
        """The same, to the reader."""
        self._sent_at: list[list[float]] = [[] for _ in range(PARTITIONS)]
        self._unacknowledged: list[deque[tuple[float, int]]] = [deque() for _ in range(PARTITIONS)]
        """Send times of records without an acknowledgement, and their numbers."""
        self._read = [0] * PARTITIONS
        self._writing = False
        self._measuring = False

    def play(self, moves: int = MOVES) -> None:
        """Run all phases."""
        clients = (self.writer, self.reader)
        pass_time(self.timeline, clients, 5.0, until=self.writer.all_acknowledged)
        self._writing = True
        self._write()
        self._look()
        pass_time(self.timeline, clients, 1.0)
        for number in range(moves):
            self.cluster.move(self.cluster.partitions[number % PARTITIONS])
            pass_time(self.timeline, clients, MOVES_TAKE_S / moves)
        if not moves:
            pass_time(self.timeline, clients, MOVES_TAKE_S)
        self._measuring = True
        self.cluster.kill(self.cluster.brokers[self.cluster.partitions[0].leader], self._noticed_after_s)
        pass_time(self.timeline, clients, self._noticed_after_s + WATCHED_S)
        self._writing = False
        settled = pass_time(
            self.timeline, clients, 20.0, until=lambda: self.writer.all_acknowledged() and self.reader.all_read()
        )
        assert settled, "not acknowledged or not read"
        check(self.cluster, self.writer)

    def _write(self) -> None:
        if self._writing:
            partition = self.timeline.rng.randrange(PARTITIONS)
            self._unacknowledged[partition].append((self.timeline.now, len(self._sent_at[partition])))
            self._sent_at[partition].append(self.timeline.now)
            self.writer.send(partition)
            self.timeline.later(EVERY_S, self._write)

    def _look(self) -> None:
        """Read, and note acknowledgements."""
        self.reader.take(1000)
        now = self.timeline.now
        for partition, waiting in enumerate(self._unacknowledged):
            while waiting and self.writer.sent[partition][waiting[0][1]][1].done():
                took_s = now - waiting.popleft()[0]
                self.acknowledged_s = max(self.acknowledged_s, took_s if self._measuring else 0.0)
            position = self.reader.position(TopicPartition(TOPIC, partition))
            for number in range(self._read[partition], position):
                took_s = now - self._sent_at[partition][number]
                self.read_s = max(self.read_s, took_s if self._measuring else 0.0)
            self._read[partition] = position
        self.timeline.later(LOOK_EVERY_S, self._look)
