"""A consumer without tasks: reads every partition, and checks each record on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.consumer.fetch_plan import FetchLimits, PlannedFetch
from aiokafka_lead._core.consumer.fetch_session import wait_beside_ms
from aiokafka_lead._core.consumer.followers import Followers
from aiokafka_lead._core.consumer.partition_state import PartitionState
from aiokafka_lead._core.consumer.reset_policy import EARLIEST
from aiokafka_lead._core.metadata.refresh import LEADERLESS, doubted, lost, refused
from aiokafka_lead._core.trust import Trust, patience_of
from aiokafka_lead._records import ConsumerRecord
from aiokafka_lead._wire.messages.fetch import FetchResponse
from aiokafka_lead.config import ConsumerConfig
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.types import TopicPartition
from tests.core.fetch_world import VERSION, World
from tests.simulated.timeline import Meter, Timeline

from .client import SimClient
from .cluster import TOPIC, Cluster
from .links import Link
from .lookups import Lookups

LIMITS = FetchLimits(3000, 1000)
ERRORS_PER_SECOND = 60
"""Bound for one partition: ten free retries, waits from 10 ms on, and those again after each useful answer."""

VAIN_PER_SECOND = 120
"""Bound for one broker."""


class Reader:
    """The consumer's core, and a loop that stands in for the fetcher."""

    def __init__(
        self,
        timeline: Timeline,
        cluster: Cluster,
        config: ConsumerConfig,
        *,
        read_committed: bool = False,
        version: int = VERSION,
        resets: bool = False,
        limits: FetchLimits = LIMITS,
    ) -> None:
        """``version`` is Fetch's; ``resets``: ask ListOffsets for the begin of the logs."""
        self.client = SimClient(timeline, cluster, config)
        self.refusals = Meter(timeline, "errors of a partition's fetches", ERRORS_PER_SECOND)
        self.vain = Meter(timeline, "Fetch requests that a broker refused", VAIN_PER_SECOND)
        self._timeline = timeline
        self._cluster = cluster
        self._version = version
        self._racked = config.client_rack is not None
        self._max_wait_ms = int(config.fetch_max_wait_ms)
        self.tps = [TopicPartition(TOPIC, partition.index) for partition in cluster.partitions]
        self._patience_s = patience_of(config.retry_backoff_max_ms)
        self._followers = Followers(
            config.metadata_max_age_ms / 1000, self._patience_s, config.fetch_max_wait_ms / 1000, self._reached_since
        )
        self._world = World(
            *self.tps,
            limits=limits,
            reset_policy=EARLIEST if resets else None,
            version=version,
            read_committed=read_committed,
            followers=self._followers,
            on_touch=self._notify,
        )
        self._world.now = timeline.now
        self._world.snapshot = self.client.snapshot
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, timeline.rng.random)
        self._useless: dict[int, Trust] = {}
        self._position = dict.fromkeys(self.tps, 0)
        self.client.listener = self._world.take
        self._lookups = Lookups(self.client, cluster, self._world)
        if resets:
            for tp in self.tps:
                self._world.state(tp).reset(EARLIEST)

    def _notify(self) -> None:
        self.client.woken = True

    def _reached_since(self, node_id: int, at: float) -> bool:
        return self.client.links.reachability.ready_since(self._endpoint(node_id), at)

    # --- calls of the run --------------------------------------------------------------------------------------------

    def take(self, limit: int) -> None:
        """Read some records, as the application."""
        while limit > 0 and (chunk := self._world.prefetch.chunk()) is not None:
            records = chunk.take(limit)
            limit -= len(records)
            for record in records:
                self._see(record)

    def _see(self, record: ConsumerRecord[bytes | None, bytes | None]) -> None:
        tp = TopicPartition(TOPIC, record.partition)
        assert record.offset == self._position[tp], f"{tp}: {record.offset} where {self._position[tp]} is due"
        assert record.value == self._cluster.partitions[tp.partition].log[record.offset]
        self._position[tp] += 1

    def position(self, tp: TopicPartition) -> int:
        """Return the next offset that the application gets."""
        return self._position[tp]

    def all_read(self) -> bool:
        return all(self._position[tp] == self._cluster.partitions[tp.partition].end for tp in self.tps)

    # --- the fetcher's stand-in --------------------------------------------------------------------------------------

    def next_at(self) -> float:
        """Return the time at which something is due."""
        now = self._timeline.now
        lates = (self._followers.late_at(sent_at) for _, sent_at in self._sent_to_followers())
        times = (self._world.planner.next_time(now), self._followers.next_time(), *lates)
        return min(self.client.next_at(), *(at for at in times if at is not None and at > now), math.inf)

    def pump(self) -> None:
        """Do all work that can be done now."""
        world, planner, now = self._world, self._world.planner, self._timeline.now
        world.now = now
        leaderless = len(planner.leaderless)
        planner.place(world.snapshot, now)
        if planner.lookups:
            lookups, planner.lookups = planner.lookups, {}
            self._lookups.begin(lookups)
            planner.place(world.snapshot, now)
        if len(planner.leaderless) > leaderless:
            self.client.request_update(LEADERLESS)
        for node_id, beside in planner.waiting_nodes(now):
            racked = self._racked and not self._followers.hides_rack(node_id, now)
            link = self.client.links.ready(node_id, "beside" if beside else "data")
            if link is None:
                self._unreachable(node_id)
                continue
            self._followers.connected(node_id)
            if not link.in_flight:
                planned = planner.plan(node_id, self._version, world.snapshot, now, beside=beside)
                if planned is not None:
                    self._submit(link, planned, racked)
        for node_id, sent_at in list(self._sent_to_followers()):
            if now >= self._followers.late_at(sent_at):
                self._leave(node_id)
        self.client.pump()

    def _unreachable(self, node_id: int) -> None:
        failed = self.client.links.reachability.last_error(self._endpoint(node_id)) is not None
        followed = self._followed(node_id)
        if followed and self._followers.connecting(node_id, self._timeline.now, failed=failed):
            self._leave(node_id)
        if failed and len(followed) < len(self._world.planner.members(node_id)):
            self.client.request_update(lost(node_id))

    def _followed(self, node_id: int) -> list[PartitionState]:
        return [state for state in self._world.planner.members(node_id) if state.preferred_replica == node_id]

    def _sent_to_followers(self) -> Iterator[tuple[int, float]]:
        for node_id in self._followers.named:
            sent_at = self._world.planner.sent_at(node_id)
            if sent_at is not None:
                yield node_id, sent_at

    def _leave(self, node_id: int) -> None:
        followed = self._followed(node_id)
        if followed:
            self._followers.leave(node_id, self._timeline.now)
            for state in followed:
                state.read_from_leader()

    def _endpoint(self, node_id: int) -> tuple[str, int]:
        broker = self._world.snapshot.brokers.get(node_id)
        return ("", 0) if broker is None else (broker.host, broker.port)

    def _submit(self, link: Link, planned: PlannedFetch, racked: bool) -> None:
        wait_ms = wait_beside_ms(self._max_wait_ms) if planned.beside else self._max_wait_ms
        link.submit(
            lambda peer, reply: self._cluster.fetch(peer, planned, wait_ms / 1000, reply, racked=racked),
            lambda answer, error: self._done(planned, answer, error),
        )

    def _done(self, planned: PlannedFetch, answer: FetchResponse | None, error: KafkaError | None) -> None:
        world, now = self._world, self._timeline.now
        world.now = now
        self.client.woken = True
        if answer is None:
            for state in world.planner.failed(planned):
                if state.preferred_replica == planned.node_id:
                    self._followers.refused(planned.node_id, state.tp, now)
                state.read_from_leader()
                state.move_clock.refused(planned.node_id, now)
            self.client.request_update(lost(planned.node_id))
            return
        codes = {row.partition_index: row.error_code for topic in answer.responses for row in topic.partitions}
        for partition, code in codes.items():
            if code:
                self.refusals.count(partition)
        if codes and all(codes.values()):
            self.vain.count(planned.node_id)
        outcome = world.answer(planned, answer)
        if outcome.missing or answer.error_code:
            self._no_use(planned.node_id, now)
        else:
            self._useless.pop(planned.node_id, None)
        if outcome.hints:
            self.client.offer_hints(outcome.hints)
        if outcome.refresh:
            self.client.request_update(refused(planned.node_id))
        if outcome.doubt:
            self.client.request_update(doubted(planned.node_id))

    def _no_use(self, node_id: int, now: float) -> None:
        trust = self._useless.setdefault(node_id, Trust())
        if trust.refused(now, now, self._patience_s):
            self.client.request_update(doubted(node_id))
        self._world.planner.wait(node_id, now + self._backoff.delay_s(trust.refusals - 1))
