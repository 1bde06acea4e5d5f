"""One member of a KIP-848 group, and its coordinator's answers."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from aiokafka_lead._core.group.consumer_protocol import ConsumerProtocolMember
from aiokafka_lead._core.group.member import Assign, Wanted
from aiokafka_lead._core.metadata.types import ClusterSnapshot, TopicMetadata
from aiokafka_lead._wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from aiokafka_lead.config import ConsumerConfig
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.types import TopicPartition

EVENTS, LOGS, INTERNAL = UUID(int=1), UUID(int=2), UUID(int=3)
NAMES = {EVENTS: "events", LOGS: "logs", INTERNAL: "__consumer_offsets"}
INTERVAL_S = 5.0


def snapshot(names: dict[UUID, str]) -> ClusterSnapshot:
    topics = {
        name: TopicMetadata(name, topic_id, is_internal=name.startswith("__")) for topic_id, name in names.items()
    }
    return ClusterSnapshot(1, topics=topics, topic_names=names)


def events(*partitions: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("events", partition) for partition in partitions)


class Group:
    """A member and a clock, in place of the two tasks."""

    def __init__(self, wanted: Wanted | None = None, **options: Any) -> None:
        options = {"group_id": "g", "group_protocol": "consumer", "rebalance_timeout_ms": 10_000, **options}
        self.member = ConsumerProtocolMember(ConsumerConfig.from_options("h", options), rng=lambda: 0.5)
        self.now = 100.0
        self.member.topics_changed(snapshot(NAMES), self.now)
        self.member.subscribe(wanted or Wanted(frozenset({"events"})), self.now)

    def beat(self) -> ConsumerGroupHeartbeatRequest:
        """Return the heartbeat that is due now."""
        at = self.member.heartbeat_at()
        assert at is not None
        assert at <= self.now
        request = self.member.heartbeat(self.now)
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        return request

    def answer(
        self,
        request: ConsumerGroupHeartbeatRequest,
        epoch: int,
        assignment: dict[UUID, list[int]] | None = None,
        interval_s: float = INTERVAL_S,
        *,
        reconnected: bool = False,
        member_id: str | None = None,
    ) -> None:
        target = None
        if assignment is not None:
            target = Assignment(
                topic_partitions=[
                    ResponseTopicPartitions(topic_id=topic_id, partitions=found)
                    for topic_id, found in assignment.items()
                ]
            )
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id if member_id is None else member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=int(interval_s * 1000),
            assignment=target,
        )
        self.member.heartbeat_answered(request, response, None, self.now, reconnected=reconnected)

    def refuse(self, request: ConsumerGroupHeartbeatRequest, error: type[KafkaError]) -> None:
        response = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message="so it is")
        self.member.heartbeat_answered(request, response, None, self.now)

    def fail(self, request: ConsumerGroupHeartbeatRequest, error: KafkaError) -> None:
        self.member.heartbeat_answered(request, None, error, self.now)

    def assigned(self, *partitions: int, epoch: int = 1) -> None:
        """Join, and own these partitions of "events"."""
        self.answer(self.beat(), epoch, {EVENTS: list(partitions)})
        step = self.member.step(self.now)
        assert step == Assign(events(*partitions), events(*partitions))
        assert isinstance(step, Assign)
        self.member.done(step, self.now)
        self.answer(self.beat(), epoch)
        assert self.member.stable


def epoch_of(group: Group) -> int | None:
    identity = group.member.identity
    return None if identity is None else identity.generation_or_epoch
