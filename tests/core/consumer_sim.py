"""A consumer's policy against brokers that move leaders, die, forget sessions and lag, on virtual time from one seed.

The brokers here share one true log per partition. They disagree only about leaders: like real brokers, each learns of
an election after a different delay. The simulation never waits: events are in a heap, and the clock jumps to the next
event.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from uuid import UUID

from aiokafka_lead._core.consumer.fetch_plan import FetchLimits, PlannedFetch
from aiokafka_lead._core.consumer.fetch_session import wait_beside_ms
from aiokafka_lead._core.consumer.partition_state import PartitionState
from aiokafka_lead._core.consumer.position import PartitionFetch
from aiokafka_lead._core.metadata.types import Broker, ClusterSnapshot, LeaderHint, PartitionMetadata, TopicMetadata
from aiokafka_lead._wire.messages.fetch import FetchResponse, PartitionData
from aiokafka_lead.types import TopicPartition
from tests.simulated.broker import SimBroker
from tests.simulated.codes import (
    FENCED_LEADER_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
)
from tests.simulated.partition import Partition
from tests.simulated.timeline import Event, Timeline

from .fetch_world import World, batch, data, response

TOPIC_ID = UUID(int=42)
LONG_POLL_MS = 500
LIMITS = FetchLimits(3000, 1000)
LARGEST_BATCH = 400


class Simulation:
    """One run; equal seeds give equal runs."""

    def __init__(self, seed: int, partitions: int = 4, brokers: int = 3) -> None:
        self.timeline = Timeline(seed)
        self.rng = self.timeline.rng
        self.tps = [TopicPartition("t", index) for index in range(partitions)]
        self.brokers = {broker_id: SimBroker(broker_id) for broker_id in range(1, brokers + 1)}
        self.partitions = {tp: Partition(index, 1 + index % brokers) for index, tp in enumerate(self.tps)}
        self.ids = count(1)
        self.world = World(*self.tps, limits=LIMITS, reset_policy=None)
        self.world.snapshot = self.truth()
        self.expected = dict.fromkeys(self.tps, 0)
        """Next offset that the application must receive, by partition."""
        self.requests = 0
        self.most_bytes = 0
        self.refresh_at: float | None = None
        self.calm = False
        """True once accidents have ended."""
        self.hints = 0.8
        """Probability that a refusal names the leader."""

    # --- the machine -------------------------------------------------------------------------------------------------

    def later(self, delay_s: float, event: Event) -> None:
        self.timeline.later(delay_s, event)

    def run(self, seconds: float, done: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return True if ``done`` became true meanwhile."""
        end = self.world.now + seconds
        while True:
            self.step()
            if done is not None and done():
                return True
            wake_at = self.world.planner.next_time(self.world.now)
            due = self.timeline.next_at(end if wake_at is None else min(wake_at, end))
            self.world.now = self.timeline.now = max(self.timeline.now, due)
            if self.timeline.now >= end:
                return False
            self.timeline.advance(due)

    def step(self) -> None:
        """Run one step of the fetcher."""
        world = self.world
        for planned in world.plan():
            self.requests += 1
            self.send(planned)
        if world.planner.leaderless:
            self.refresh()
        if world.planner.starved and world.prefetch.chunk() is None:
            world.planner.make_room(None)
        self.most_bytes = max(self.most_bytes, world.prefetch.total_bytes)

    # --- metadata ----------------------------------------------------------------------------------------------------

    def truth(self, leaders: dict[TopicPartition, tuple[int, int]] | None = None) -> ClusterSnapshot:
        view = leaders or {tp: (partition.leader, partition.epoch) for tp, partition in self.partitions.items()}
        rows = tuple(PartitionMetadata("t", tp.partition, *view[tp], (1, 2, 3), (1, 2, 3)) for tp in self.tps)
        brokers = {node_id: Broker(node_id, f"host{node_id}", 9092) for node_id in self.brokers}
        topics = {"t": TopicMetadata("t", TOPIC_ID, partitions=rows)}
        return ClusterSnapshot(next(self.ids), brokers=brokers, topics=topics, topic_names={TOPIC_ID: "t"})

    def refresh(self) -> None:
        """Ask for metadata, unless a request is in flight; the answer may come from a broker that lags."""
        if self.refresh_at is not None:
            return
        asked = self.rng.choice(list(self.brokers))
        self.refresh_at = self.world.now

        def arrive() -> None:
            self.refresh_at = None
            view = {}
            for tp, partition in self.partitions.items():
                answered, cached = partition.seen_by(asked), self.world.snapshot.leader(*tp)
                view[tp] = answered if answered[1] >= cached[1] else cached
            self.world.learn(self.truth(view))

        self.later(self.rng.uniform(0.02, 0.1), arrive)

    def hint(self, hints: list[LeaderHint]) -> None:
        view = {tp: self.world.snapshot.leader(*tp) for tp in self.tps}
        for hint in hints:
            tp = TopicPartition(hint.topic, hint.partition)
            if hint.leader_id >= 0 and hint.leader_epoch > view[tp][1]:
                view[tp] = (hint.leader_id, hint.leader_epoch)
        self.world.learn(self.truth(view))

    # --- brokers -----------------------------------------------------------------------------------------------------

    def send(self, planned: PlannedFetch) -> None:
        if not self.brokers[planned.node_id].running or (not self.calm and self.rng.random() < 0.03):
            self.later(self.rng.uniform(0.001, 0.05), lambda: self.lost(planned))
        else:
            wait_s = wait_beside_ms(LONG_POLL_MS) / 1000 if planned.beside else LONG_POLL_MS / 1000
            self.later(self.rng.uniform(0.0005, 0.01), lambda: self.arrive(planned, self.world.now + wait_s))

    def lost(self, planned: PlannedFetch) -> None:
        """Break the connection; the broker may or may not have received the request."""
        if self.rng.random() < 0.5:
            self.session_of(planned)
        for state in self.world.planner.failed(planned):
            state.read_from_leader()
        self.refresh()
        if not planned.beside:
            self.world.planner.wait(planned.node_id, self.world.now + 0.05)  # the reconnect backoff

    def session_of(self, planned: PlannedFetch) -> tuple[int, int, dict[TopicPartition, PartitionFetch]]:
        granted = next(self.ids) if planned.request.epoch == 0 and self.rng.random() < 0.9 else None
        return self.brokers[planned.node_id].sessions.take(planned.request, granted)

    def arrive(self, planned: PlannedFetch, until: float) -> None:
        """Deliver the request to the broker."""
        if not self.brokers[planned.node_id].running:
            self.lost(planned)
            return
        error, session_id, wanted = self.session_of(planned)
        if error:
            self.reply(planned, response(session_id=session_id, error=error))
        else:
            self.poll(planned, session_id, wanted, until)

    def poll(
        self, planned: PlannedFetch, session_id: int, wanted: dict[TopicPartition, PartitionFetch], until: float
    ) -> None:
        """Answer with records or errors, or when the long poll expires."""
        if not self.brokers[planned.node_id].running:
            self.lost(planned)
            return
        left = planned.max_bytes
        rows: list[PartitionData] = []
        for tp, asked in wanted.items():
            row = self.read(planned.node_id, tp, asked, left)
            left -= len(row.records or b"")
            if row.error_code or row.records or planned.request.epoch in (0, -1):
                rows.append(row)
        if any(row.error_code or row.records for row in rows) or self.world.now >= until:
            found = response(*rows, session_id=session_id, endpoints=self.brokers, topic_id=TOPIC_ID)
            self.later(self.rng.uniform(0.0005, 0.005), lambda: self.reply(planned, found))
        else:
            self.later(0.01, lambda: self.poll(planned, session_id, wanted, until))

    def read(self, node_id: int, tp: TopicPartition, asked: PartitionFetch, left: int) -> PartitionData:
        partition = self.partitions[tp]
        leader, epoch = partition.seen_by(node_id)
        if asked.leader_epoch > epoch:
            return data(tp.partition, error=UNKNOWN_LEADER_EPOCH)
        if asked.leader_epoch < epoch or leader != node_id:
            code = FENCED_LEADER_EPOCH if leader == node_id else NOT_LEADER_OR_FOLLOWER
            named = (leader, epoch) if self.rng.random() < self.hints else (-1, -1)
            return data(tp.partition, error=code, leader=named)
        if asked.fetch_offset > partition.end:
            return data(tp.partition, error=OFFSET_OUT_OF_RANGE)
        found = partition.read(asked.fetch_offset, min(left, LIMITS.max_partition_fetch_bytes)) if left > 0 else b""
        return data(tp.partition, found, high_watermark=partition.end)

    def reply(self, planned: PlannedFetch, found: FetchResponse) -> None:
        """Deliver the reply to the client."""
        world = self.world
        outcome = world.answer(planned, found)
        if outcome.missing or found.error_code:
            world.planner.wait(planned.node_id, world.now + 0.02)
        if outcome.hints:
            self.hint(outcome.hints)
        if outcome.refresh:
            self.refresh()

    # --- events ------------------------------------------------------------------------------------------------------

    def accidents(self) -> None:
        """Cause elections, deaths and forgotten sessions until it is calm."""
        if self.calm:
            return
        what = self.rng.random()
        if what < 0.6:
            self.elect(self.rng.choice(self.tps))
        elif what < 0.8:
            node_id = self.rng.choice(list(self.brokers))
            self.brokers[node_id].running = False
            for tp, partition in self.partitions.items():
                if partition.leader == node_id:
                    self.elect(tp)
            self.later(self.rng.uniform(0.05, 1.5), lambda: self.restart(node_id))
        else:
            self.rng.choice(list(self.brokers.values())).sessions.clear()
        self.later(self.rng.expovariate(6), self.accidents)

    def elect(self, tp: TopicPartition) -> None:
        partition = self.partitions[tp]
        for broker_id in self.brokers:
            self.later(self.rng.uniform(0, 0.06), partial(partition.learn, broker_id))
        running = [
            broker_id for broker_id, broker in self.brokers.items() if broker.running and broker_id != partition.leader
        ]
        partition.elect(self.rng.choice(running or list(self.brokers)), self.brokers)

    def append(self, tp: TopicPartition, records: int) -> None:
        """Append a producer's batch to the log."""
        partition = self.partitions[tp]
        partition.append(batch(partition.end, [b"v" * 20] * records, epoch=partition.epoch))

    def restart(self, node_id: int) -> None:
        self.brokers[node_id].running = True
        self.brokers[node_id].sessions.clear()

    def produce(self) -> None:
        self.append(self.rng.choice(self.tps), self.rng.randint(1, 5))
        if not self.calm:
            self.later(self.rng.expovariate(150), self.produce)

    def application(self) -> None:
        """Read a few records, pause, resume and seek."""
        what = self.rng.random()
        state = self.world.state(self.rng.choice(self.tps))
        if self.calm or what < 0.8:
            self.world.prefetch.resume(state)
            self.take(self.rng.randint(1, 40))
        elif what < 0.88:
            self.world.prefetch.pause(state)
        elif what < 0.92:
            self.seek(state)
        else:
            taken = self.world.prefetch.batch()
            if taken is not None:
                self.got(taken.topic_partition, taken.offsets)
        self.later(self.rng.expovariate(100), self.application)

    def take(self, limit: int) -> None:
        while limit > 0:
            chunk = self.world.prefetch.chunk()
            if chunk is None:
                break
            records = chunk.take(limit)
            limit -= len(records)
            self.got(TopicPartition("t", records[0].partition), [record.offset for record in records])

    def seek(self, state: PartitionState) -> None:
        offset = self.rng.randint(0, self.partitions[state.tp].end)
        self.world.prefetch.drop(state)
        state.move(offset)
        self.expected[state.tp] = offset

    def got(self, tp: TopicPartition, offsets: list[int]) -> None:
        first = self.expected[tp]
        assert offsets == list(range(first, first + len(offsets))), f"{tp}: expected {first}, got {offsets}"
        self.expected[tp] = first + len(offsets)

    def all_read(self) -> bool:
        return all(self.expected[tp] == partition.end for tp, partition in self.partitions.items())
