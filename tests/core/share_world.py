"""A share consumer's planner, and brokers that answer at the test's request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from uuid import UUID

from aiokafka_lead._core.metadata.types import Broker, ClusterSnapshot, PartitionMetadata, TopicMetadata
from aiokafka_lead._core.share.acquired import Acquired
from aiokafka_lead._core.share.answers import ShareOutcome, read_acknowledged, read_fetched
from aiokafka_lead._core.share.planner import Planned, PlannerOptions, SharePlanner
from aiokafka_lead._wire.messages import share_acknowledge, share_fetch
from aiokafka_lead._wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from aiokafka_lead._wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.types import AcknowledgeType, TopicPartition

JOBS = UUID(int=7)
LOCK_MS = 30_000


def jobs(partition: int) -> TopicPartition:
    return TopicPartition("jobs", partition)


def snapshot(leaders: Sequence[int], epoch: int = 1) -> ClusterSnapshot:
    partitions = tuple(PartitionMetadata("jobs", at, leader, epoch) for at, leader in enumerate(leaders))
    return ClusterSnapshot(
        1,
        brokers={node: Broker(node, "h", 9000 + node) for node in (1, 2)},
        topics={"jobs": TopicMetadata("jobs", JOBS, partitions=partitions)},
        topic_names={JOBS: "jobs"},
    )


class World:
    """One member; the test sets ``now``."""

    def __init__(self, leaders: Sequence[int] = (1,), version: int = 2, idle_ms: float = 540_000) -> None:
        self.now = 100.0
        self.version = version
        self.settled: list[tuple[TopicPartition, KafkaError | None]] = []
        options = PlannerOptions("g", 500, 1, 1 << 20, 100, 1000, idle_ms)
        self.planner = SharePlanner(options, "m", lambda tp, error: self.settled.append((tp, error)))
        self.planner.assign({jobs(at): JOBS for at in range(len(leaders))})
        self.lead(leaders)

    def lead(self, leaders: Sequence[int], epoch: int = 1) -> None:
        self.planner.place(snapshot(leaders, epoch))

    def plan(self, node: int = 1, room: int = 100, moves_at: float = math.inf) -> Planned | None:
        exchange = self.planner.exchanges[node]
        return self.planner.plan(exchange, self.version, self.now, room, strict=False, moves_at=moves_at)

    def fetch(self, node: int = 1, room: int = 100, moves_at: float = math.inf) -> tuple[Planned, ShareFetchRequest]:
        planned = self.plan(node, room, moves_at)
        assert planned is not None
        assert isinstance(planned.request, ShareFetchRequest)
        return planned, planned.request

    def acknowledge(self, node: int = 1) -> tuple[Planned, ShareAcknowledgeRequest]:
        planned = self.plan(node, 0)
        assert planned is not None
        assert isinstance(planned.request, ShareAcknowledgeRequest)
        return planned, planned.request

    def fetched(
        self,
        planned: Planned,
        ranges: Sequence[tuple[int, int]] = (),
        *,
        partition: int = 0,
        error: int = 0,
        ack_error: int = 0,
        top: int = 0,
        leader: tuple[int, int] = (-1, -1),
    ) -> ShareOutcome:
        """The answer to a fetch, about one partition."""
        found = [
            share_fetch.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=1)
            for first, last in ranges
        ]
        data = share_fetch.PartitionData(
            partition_index=partition,
            error_code=error,
            acknowledge_error_code=ack_error,
            acquired_records=found,
            current_leader=share_fetch.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
        )
        topic = share_fetch.ShareFetchableTopicResponse(topic_id=JOBS, partitions=[data])
        response = ShareFetchResponse(error_code=top, acquisition_lock_timeout_ms=LOCK_MS, responses=[topic])
        return read_fetched(self.planner, planned, response, self.now)

    def acknowledged(
        self, planned: Planned, *, error: int = 0, top: int = 0, leader: tuple[int, int] = (-1, -1)
    ) -> ShareOutcome:
        """Return an answer to acknowledgements with the same result for all partitions."""
        partitions = [
            share_acknowledge.PartitionData(
                partition_index=key.partition,
                error_code=error,
                current_leader=share_acknowledge.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1]),
            )
            for key in planned.acks
        ]
        topic = share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=JOBS, partitions=partitions)
        response = ShareAcknowledgeResponse(error_code=top, acquisition_lock_timeout_ms=LOCK_MS, responses=[topic])
        return read_acknowledged(self.planner, planned, response, self.now)

    def acquire(self, *ranges: tuple[int, int], partition: int = 0, node: int = 1) -> Acquired:
        """Acquire these records through a fetch."""
        planned, _ = self.fetch(node)
        ((_, acquired, _),) = self.fetched(planned, ranges, partition=partition).arrived
        return acquired

    def decide(
        self, acquired: Acquired, *indices: int, kind: AcknowledgeType = AcknowledgeType.ACCEPT, node: int = 1
    ) -> None:
        """Acknowledge records on behalf of a caller that waits for the result."""
        exchange = self.planner.exchanges[node]
        for index in indices:
            acquired.decide(index, int(kind))
        exchange.decided(acquired, self.now)
        exchange.urgent = True
