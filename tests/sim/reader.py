"""A consumer without tasks: reads every partition, and checks each record on the way."""

from __future__ import annotations

import math

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.consumer.fetch_plan import FetchLimits, PlannedFetch
from aiokafka_lead._core.consumer.fetch_request import wait_beside_ms
from aiokafka_lead._core.metadata.refresh import LEADERLESS, lost, refused
from aiokafka_lead._wire.messages.fetch import FetchResponse
from aiokafka_lead.config import ConsumerConfig
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.types import TopicPartition
from tests.core.fetch_world import VERSION, World
from tests.simulated.timeline import Meter, Timeline

from .client import SimClient
from .cluster import TOPIC, Cluster
from .links import Link

LONG_POLL_MS = 500
LIMITS = FetchLimits(3000, 1000)
ERRORS_PER_SECOND = 60
"""Of one partition: ten free retries, waits from 10 ms on, and those again after each answer that helps."""


class Reader:
    """The consumer's core, and a loop that stands in for the fetcher."""

    def __init__(
        self, timeline: Timeline, cluster: Cluster, config: ConsumerConfig, *, read_committed: bool = False
    ) -> None:
        self.client = SimClient(timeline, cluster, config)
        self.refusals = Meter(timeline, "errors of a partition's fetches", ERRORS_PER_SECOND)
        self._timeline = timeline
        self._cluster = cluster
        self._tps = [TopicPartition(TOPIC, partition.index) for partition in cluster.partitions]
        self._world = World(
            *self._tps, limits=LIMITS, reset_policy=None, version=VERSION, read_committed=read_committed
        )
        self._world.now = timeline.now
        self._world.snapshot = self.client.snapshot
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, timeline.rng.random)
        self._useless: dict[int, int] = {}
        self._position = dict.fromkeys(self._tps, 0)
        self.client.listener = self._world.take

    # --- what the run does -------------------------------------------------------------------------------------------

    def take(self, limit: int) -> None:
        """The application reads some records."""
        while limit > 0 and (chunk := self._world.prefetch.chunk()) is not None:
            records = chunk.take(limit)
            limit -= len(records)
            for record in records:
                tp = TopicPartition(TOPIC, record.partition)
                assert record.offset == self._position[tp], f"{tp}: {record.offset} where {self._position[tp]} is due"
                assert record.value == self._cluster.partitions[tp.partition].log[record.offset]
                self._position[tp] += 1
        self.client.woken = True

    def position(self, tp: TopicPartition) -> int:
        """The next offset that the application gets."""
        return self._position[tp]

    def all_read(self) -> bool:
        return all(self._position[tp] == self._cluster.partitions[tp.partition].end for tp in self._tps)

    # --- the fetcher's stand-in --------------------------------------------------------------------------------------

    def next_at(self) -> float:
        """When something is due."""
        due = self._world.planner.next_time(self._timeline.now)
        return min(self.client.next_at(), math.inf if due is None else due)

    def pump(self) -> None:
        """Do all there is to do now."""
        self.client.pump()
        world, planner, now = self._world, self._world.planner, self._timeline.now
        world.now = now
        leaderless = len(planner.leaderless)
        planner.place(world.snapshot, now)
        assert not planner.lookups
        if len(planner.leaderless) > leaderless:
            self.client.request_update(LEADERLESS)
        for node_id, beside in planner.waiting_nodes(now):
            link = self.client.links.ready(node_id, "beside" if beside else "data")
            if link is None:
                if self.client.links.reachability.last_error(self._endpoint(node_id)) is not None:
                    self.client.request_update(lost(node_id))
            elif not link.in_flight:
                planned = planner.plan(node_id, VERSION, world.snapshot, now, beside=beside)
                if planned is not None:
                    self._submit(link, planned)
        self.client.pump()

    def _endpoint(self, node_id: int) -> tuple[str, int]:
        broker = self._world.snapshot.brokers.get(node_id)
        return ("", 0) if broker is None else (broker.host, broker.port)

    def _submit(self, link: Link, planned: PlannedFetch) -> None:
        wait_s = (wait_beside_ms(LONG_POLL_MS) if planned.beside else LONG_POLL_MS) / 1000
        link.submit(
            lambda peer, reply: self._cluster.fetch(peer, planned, wait_s, reply),
            lambda answer, error: self._done(planned, answer, error),
        )

    def _done(self, planned: PlannedFetch, answer: FetchResponse | None, error: KafkaError | None) -> None:
        world, now = self._world, self._timeline.now
        world.now = now
        self.client.woken = True
        if answer is None:
            for state in world.planner.failed(planned):
                state.read_from_leader()
                state.move_clock.refused(planned.node_id, now)
            self.client.request_update(lost(planned.node_id))
            return
        for topic in answer.responses:
            for row in topic.partitions:
                if row.error_code:
                    self.refusals.count(row.partition_index)
        outcome = world.answer(planned, answer)
        if outcome.missing or answer.error_code:
            before = self._useless.get(planned.node_id, 0)
            self._useless[planned.node_id] = before + 1
            world.planner.wait(planned.node_id, now + self._backoff.delay_s(before))
        else:
            self._useless.pop(planned.node_id, None)
        if outcome.hints:
            self.client.offer_hints(outcome.hints)
        if outcome.refresh:
            self.client.request_update(refused(planned.node_id))
