"""A producer without tasks: numbered records into every partition, and their outcomes."""

from __future__ import annotations

import math
from typing import Any

from aiokafka_lead._core.metadata.reachability import NodeState
from aiokafka_lead._core.metadata.refresh import LEADERLESS, doubted, lost, refused
from aiokafka_lead._core.metadata.types import Broker, ClusterSnapshot, LeaderHint, Moved
from aiokafka_lead._core.producer.accumulator import Accumulator
from aiokafka_lead._core.producer.answers import BatchAnswers
from aiokafka_lead._core.producer.batches import ProducerBatch, Record
from aiokafka_lead._core.producer.delivery import Delivery
from aiokafka_lead._core.producer.outcome import NOTHING_TO_WAIT_FOR
from aiokafka_lead._options.logs import client_log
from aiokafka_lead.config import ProducerConfig
from aiokafka_lead.errors import KafkaError, error_for_code
from tests.simulated.codes import NOT_LEADER_OR_FOLLOWER
from tests.simulated.timeline import Meter, Timeline

from .client import SimClient
from .cluster import TOPIC, TOPIC_ID, Cluster, FaultyBroker, Refusal
from .links import Link

Built = list[tuple[ProducerBatch, memoryview]]
Answers = list[tuple[int, int, Refusal | None]]
"""Error code, base offset and hint of each batch."""

REFUSALS_PER_SECOND = 120
"""Bound for one partition: five batches in flight, each with ten free retries, and a few that wait."""

VAIN_PER_SECOND = 240
"""Bound for one broker."""


def check(cluster: Cluster, *writers: Writer) -> None:
    """Check that each acknowledged record is in its log once, in the order of the writers and of their sends."""
    for partition in cluster.partitions:
        sent = [each for writer in writers for each in writer.sent[partition.index]]
        offsets = [delivery.result().offset for _, delivery in sent]
        where = f"partition {partition.index}: lost, doubled or out of order"
        assert partition.log == [value for value, _ in sent], where
        assert offsets == list(range(len(sent))), where


class Writer:
    """The producer's core, and a loop that stands in for the sender."""

    def __init__(
        self, timeline: Timeline, cluster: Cluster, config: ProducerConfig, *, producer_id: int = 1000
    ) -> None:
        self.client = SimClient(timeline, cluster, config)
        self.sent: dict[int, list[tuple[bytes, Delivery]]] = {p.index: [] for p in cluster.partitions}
        self.refusals = Meter(timeline, "refusals of a partition's batches", REFUSALS_PER_SECOND)
        self.vain = Meter(timeline, "Produce requests that a broker refused", VAIN_PER_SECOND)
        self._done_before = dict.fromkeys(self.sent, 0)
        self._timeline = timeline
        self._cluster = cluster
        self._producer_id = producer_id
        self._in_flight = config.max_in_flight_requests_per_connection
        self._accumulator = Accumulator(config, NOTHING_TO_WAIT_FOR, self._notify, timeline.rng.random)
        self._answers = BatchAnswers(
            self._accumulator, config.retries, lambda node_id: "", client_log("producer", "simulated")
        )
        self.client.listener = self._on_snapshot
        self._accumulator.on_snapshot(self.client.snapshot, timeline.now)
        self._identify()

    def _identify(self) -> None:
        self._accumulator.on_producer_id(self._producer_id, 0, self._timeline.now)

    # --- calls of the run --------------------------------------------------------------------------------------------

    def send(self, partition: int) -> None:
        """Send the next number to a partition, once the topic is known."""
        topic = self._accumulator.topic(TOPIC)
        if topic is None:
            self.client.request_update()
            self._notify()
            return
        sent = self.sent[partition]
        value = b"%d-%d" % (partition, len(sent))
        timestamp_ms = round(self._timeline.now * 1000)
        delivery = topic.append(value, None, partition, timestamp_ms, ())
        if delivery is None:
            record = Record(TOPIC, value, None, partition, timestamp_ms, ())
            delivery = self._accumulator.append(topic, record, self._timeline.now)
        assert delivery is not None, "no memory"
        sent.append((value, delivery))

    def acknowledged(self, partition: int) -> int:
        """Return the number of a partition's acknowledged records."""
        sent = self.sent[partition]
        done = self._done_before[partition]
        while done < len(sent) and sent[done][1].done():
            done += 1
        self._done_before[partition] = done
        return done

    def all_acknowledged(self) -> bool:
        """Return True if the topic is known, and no record is pending."""
        return self.client.snapshot.partition_count(TOPIC) > 0 and not self._accumulator.pending

    # --- the sender's stand-in ---------------------------------------------------------------------------------------

    def next_at(self) -> float:
        """Return the time at which something is due."""
        due = self._accumulator.schedule.next_at()
        return min(self.client.next_at(), math.inf if due is None else due)

    def pump(self) -> None:
        """Do all work that can be done now."""
        accumulator, now = self._accumulator, self._timeline.now
        accumulator.start_turn(now)
        self._answers.expire(now)
        for node_id in list(accumulator.schedule.ready):
            link = self.client.links.ready(node_id, "data")
            if link is None:
                if self.client.links.state(node_id) is NodeState.BACKOFF:
                    self.client.request_update(lost(node_id))
                continue
            while len(link.in_flight) < self._in_flight:
                batches = accumulator.drain(node_id, now, bool(link.in_flight))
                if not batches:
                    break
                self._submit(link, batches)
        if accumulator.schedule.leaderless:
            self.client.request_update(LEADERLESS)
        self.client.pump()

    def _notify(self) -> None:
        self.client.woken = True

    def _on_snapshot(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        self._accumulator.on_snapshot(snapshot, self._timeline.now, moved.partitions)

    def _submit(self, link: Link, batches: list[ProducerBatch]) -> None:
        built: Built = [
            (
                batch,
                batch.builder.build(
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    base_sequence=batch.base_sequence,
                    transactional=self._accumulator.transactional is not None,
                ),
            )
            for batch in batches
        ]
        cluster, node_id = self._cluster, link.node_id

        def handle(peer: FaultyBroker, reply: Any) -> None:
            reply([cluster.append(peer, cluster.partitions[b.queue.partition], raw) for b, raw in built])

        link.submit(handle, lambda answers, error: self._done(node_id, built, answers, error))

    def _done(self, node_id: int, built: Built, answers: Answers | None, error: KafkaError | None) -> None:
        now = self._timeline.now
        self.client.woken = True
        if answers is None:
            assert error is not None
            for batch, _ in built:
                self._answers.refused(batch, node_id, error, now)
            self.client.request_update(lost(node_id))
            return
        if any(code == NOT_LEADER_OR_FOLLOWER for code, _, _ in answers):
            self._take_hints(node_id, built, answers)
        self._settle(node_id, built, answers)

    def _settle(self, node_id: int, built: Built, answers: Answers) -> None:
        now = self._timeline.now
        patience_s, tells_leaders = self._accumulator.retry.patience_s, self._cluster.tells_leaders
        if all(code for code, _, _ in answers):
            self.vain.count(node_id)
        doubt = False
        for (batch, _), (code, offset, _) in zip(built, answers, strict=True):
            if code:
                self.refusals.count(batch.queue.partition)
                error = error_for_code(code)("refused")
                self._answers.refused(batch, node_id, error, now, tells_leaders=tells_leaders)
                doubt = doubt or batch.patience.in_doubt(now, patience_s)
            else:
                self._answers.acknowledged(batch, node_id, offset, -1, now)
        if doubt:
            self.client.request_update(doubted(node_id))

    def _take_hints(self, node_id: int, built: Built, answers: Answers) -> None:
        hints = []
        for (batch, _), (code, _, refusal) in zip(built, answers, strict=True):
            if refusal is not None and (refusal.leader >= 0 or refusal.epoch >= 0):
                endpoint = None if refusal.endpoint is None else Broker(refusal.leader, *refusal.endpoint)
                hints.append(
                    LeaderHint(TOPIC, TOPIC_ID, batch.queue.partition, refusal.leader, refusal.epoch, endpoint, code)
                )
        if hints:
            self.client.offer_hints(hints)
        else:
            self.client.request_update(refused(node_id))
