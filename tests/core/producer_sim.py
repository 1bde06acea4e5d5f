"""A cluster on virtual time for the producer's sans-I/O core, with brokers that check sequences as Kafka's do.

Requests and answers take time, and arrive in order for each broker; leaders move, connections break before or after a
request was processed, and brokers refuse batches at the test's request. Everything is drawn from one seeded generator,
so that a run replays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from aiokafka_lead._core.metadata.types import Broker, ClusterSnapshot, PartitionMetadata, TopicMetadata
from aiokafka_lead._core.producer.accumulator import Accumulator
from aiokafka_lead._core.producer.answers import BatchAnswers
from aiokafka_lead._core.producer.batches import ProducerBatch, Record
from aiokafka_lead._core.producer.delivery import Delivery
from aiokafka_lead._core.producer.outcome import NOTHING_TO_WAIT_FOR
from aiokafka_lead._options.logs import client_log
from aiokafka_lead.config import ProducerConfig
from aiokafka_lead.errors import KafkaConnectionError, error_for_code
from aiokafka_lead.types import Header
from tests.simulated.codes import NONE, NOT_LEADER_OR_FOLLOWER
from tests.simulated.partition import Partition
from tests.simulated.timeline import Timeline

TOPIC = "events"
TOPIC_ID = UUID(int=7)


@dataclass
class SimConnection:
    """A connection to a broker. When it breaks, requests and answers in flight are lost."""

    node_id: int
    in_flight: list[SimRequest] = field(default_factory=list)
    broken: bool = False
    last_arrival: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Of a request at the broker, and of an answer at the client: both arrive in order."""


@dataclass(eq=False)
class SimRequest:
    """A produce request in flight, or its answer."""

    connection: SimConnection
    batches: list[tuple[ProducerBatch, memoryview]]

    @property
    def node_id(self) -> int:
        return self.connection.node_id


class ProducerSim:
    """The producer's core, a loop in place of the sender, and the brokers."""

    def __init__(self, *, seed: int = 0, brokers: int = 3, partitions: int = 1, hints: bool = True, **options: Any):
        self.timeline = Timeline(seed, now=1.0)
        self.rng = self.timeline.rng
        self.config = ProducerConfig.from_options("sim:9092", options)
        self.accumulator = Accumulator(self.config, NOTHING_TO_WAIT_FOR, self._notify, self.rng.random)
        self.answers = BatchAnswers(
            self.accumulator, self.config.retries, lambda node_id: "", client_log("producer", "simulated")
        )
        self.brokers = list(range(brokers))
        self.partitions = [Partition(number, number % brokers) for number in range(partitions)]
        self.hints = hints
        """True if brokers name the new leader with NOT_LEADER_OR_FOLLOWER (KIP-951)."""
        self.latency = (0.001, 0.001)
        """Bounds of the one-way latency, in seconds."""
        self.metadata_delay = 0.010
        """Time from a metadata request to its answer, in seconds."""
        self.unreachable: set[int] = set()
        """Brokers that refuse connections."""
        self.faults: list[Callable[[SimRequest, ProducerBatch], int | None]] = []
        """Called for every batch that arrives; return an error code to answer instead of appending, or None."""
        self.sent: list[tuple[float, int, ProducerBatch]] = []
        """Every batch sent, with its time and broker."""
        self.snapshot = ClusterSnapshot()
        self._notified = True
        self._metadata_due = False
        self._connections = {node_id: SimConnection(node_id) for node_id in self.brokers}
        self.refresh()
        if self.accumulator.identity is not None:
            self.accumulator.on_producer_id(1000, 0, self.now)

    @property
    def now(self) -> float:
        return self.timeline.now

    # --- calls of a test ----------------------------------------------------------------------------------------------

    def send(
        self, value: bytes | None, *, key: bytes | None = None, partition: int = -1, headers: Sequence[Header] = ()
    ) -> Delivery:
        """Send one record; fail the test if memory is short."""
        topic = self.accumulator.topic(TOPIC)
        assert topic is not None
        timestamp_ms = round(self.now * 1000)
        delivery = topic.append(value, key, partition, timestamp_ms, headers)
        if delivery is None:
            record = Record(TOPIC, value, key, partition, timestamp_ms, headers)
            delivery = self.accumulator.append(topic, record, self.now)
        assert delivery is not None, "no memory"
        return delivery

    def move(self, partition: int, to: int | None = None) -> None:
        """Move the partition to another leader."""
        target = self.partitions[partition]
        others = [node_id for node_id in self.brokers if node_id != target.leader]
        target.elect(self.rng.choice(others) if to is None else to)

    def disconnect(self, node_id: int) -> None:
        """Break the connection; the client notices a little later."""
        connection = self._connections[node_id]
        if not connection.broken:
            connection.broken = True
            self.timeline.at(self.now + self.rng.uniform(*self.latency), lambda: self._lost(connection))

    def refresh(self) -> None:
        """Give the client the current metadata."""
        self._take_snapshot([(p.leader, p.epoch) for p in self.partitions])

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        for _ in range(1_000_000):
            self._pump()
            due = self.accumulator.schedule.next_at()
            following = self.timeline.next_at(end if due is None else min(due, end))
            if self._notified:
                continue
            if following >= end:
                self.timeline.now = end
                return
            self.timeline.advance(following)
        raise AssertionError("the producer does not come to rest")

    def run_until_done(self, deliveries: Sequence[Delivery], limit: float = 300.0) -> None:
        """Let time pass until every record is acknowledged or failed."""
        end = self.now + limit
        while not all(delivery.done() for delivery in deliveries):
            assert self.now < end, [delivery for delivery in deliveries if not delivery.done()][:3]
            self.run(0.01)

    # --- in place of the sender ---------------------------------------------------------------------------------------

    def _notify(self) -> None:
        self._notified = True

    def _pump(self) -> None:
        self._notified = False
        accumulator = self.accumulator
        accumulator.start_turn(self.now)
        self.answers.expire(self.now)
        for node_id in list(accumulator.schedule.ready):
            while (
                node_id not in self.unreachable
                and len(self._connections[node_id].in_flight) < self.config.max_in_flight_requests_per_connection
            ):
                busy = bool(self._connections[node_id].in_flight)
                batches = accumulator.drain(node_id, self.now, busy)
                if not batches:
                    break
                self._submit(node_id, batches)
        if accumulator.schedule.leaderless:
            self._request_metadata()

    def _submit(self, node_id: int, batches: list[ProducerBatch]) -> None:
        built = []
        for batch in batches:
            self.sent.append((self.now, node_id, batch))
            raw = batch.builder.build(
                producer_id=batch.producer_id, producer_epoch=batch.producer_epoch, base_sequence=batch.base_sequence
            )
            built.append((batch, raw))
        connection = self._connections[node_id]
        request = SimRequest(connection, built)
        connection.in_flight.append(request)
        self.timeline.at(self._after(connection, 0), lambda: self._arrive(request))

    def _after(self, connection: SimConnection, direction: int) -> float:
        """Return the time of arrival, never before an earlier one on the same connection."""
        when = max(self.now + self.rng.uniform(*self.latency), connection.last_arrival[direction])
        connection.last_arrival[direction] = when
        return when

    def _arrive(self, request: SimRequest) -> None:
        if request.connection.broken:
            return
        answers = [self._answer(request, batch, raw) for batch, raw in request.batches]
        self.timeline.at(self._after(request.connection, 1), lambda: self._answered(request, answers))

    def _answer(self, request: SimRequest, batch: ProducerBatch, raw: memoryview) -> tuple[int, int]:
        for fault in self.faults:
            code = fault(request, batch)
            if code is not None:
                return code, -1
        partition = self.partitions[batch.queue.partition]
        if partition.leader != request.node_id:
            return NOT_LEADER_OR_FOLLOWER, -1
        return partition.append(raw)

    def _answered(self, request: SimRequest, answers: list[tuple[int, int]]) -> None:
        if request.connection.broken:
            return
        request.connection.in_flight.remove(request)
        if self.hints and any(code == NOT_LEADER_OR_FOLLOWER for code, _ in answers):
            moved = {
                b.queue.partition
                for (b, _), (c, _) in zip(request.batches, answers, strict=True)
                if c == NOT_LEADER_OR_FOLLOWER
            }
            view = self._view()
            for number in moved:
                truth = self.partitions[number]
                if truth.epoch > view[number][1]:
                    view[number] = (truth.leader, truth.epoch)
            self._take_snapshot(view)
        for (batch, _), (code, offset) in zip(request.batches, answers, strict=True):
            if code == NONE:
                self.answers.acknowledged(batch, request.node_id, offset, -1, self.now)
                continue
            error = error_for_code(code)("refused")
            self.answers.refused(batch, request.node_id, error, self.now, tells_leaders=self.hints)
            if error.refreshes_metadata:
                self._request_metadata()

    def _lost(self, connection: SimConnection) -> None:
        self._connections[connection.node_id] = SimConnection(connection.node_id)
        for request in connection.in_flight:
            for batch, _ in request.batches:
                self.answers.refused(batch, connection.node_id, KafkaConnectionError("connection lost"), self.now)
        self._request_metadata()

    def _request_metadata(self) -> None:
        if not self._metadata_due:
            self._metadata_due = True
            self.timeline.at(self.now + self.metadata_delay, self._metadata_answered)

    def _metadata_answered(self) -> None:
        self._metadata_due = False
        self.refresh()

    def _view(self) -> list[tuple[int, int]]:
        return [(known.leader_id, known.leader_epoch) for known in self.snapshot.topics[TOPIC].partitions]

    def _take_snapshot(self, view: list[tuple[int, int]]) -> None:
        old = self.snapshot.topics.get(TOPIC)
        partitions = tuple(
            PartitionMetadata(TOPIC, number, leader, epoch) for number, (leader, epoch) in enumerate(view)
        )
        if old is not None and len(old.partitions) == len(partitions):
            partitions = tuple(a if a == b else b for a, b in zip(old.partitions, partitions, strict=True))
        topic = TopicMetadata(TOPIC, TOPIC_ID, False, partitions)
        brokers = {node_id: Broker(node_id, "sim", 9092 + node_id) for node_id in self.brokers}
        self.snapshot = ClusterSnapshot(self.snapshot.generation + 1, "sim", 0, brokers, {TOPIC: topic})
        self.accumulator.on_snapshot(self.snapshot, self.now)
