"""One member of a classic group, and its coordinator's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka_lead._core.group.assignors import builtin, encode_assignment
from aiokafka_lead._core.group.classic import ClassicMember
from aiokafka_lead._core.group.member import Ask, Assign, Lose, Revoke, Wanted
from aiokafka_lead._core.group.offsets import GroupIdentity
from aiokafka_lead._core.metadata.types import ClusterSnapshot, PartitionMetadata, TopicMetadata
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from aiokafka_lead._wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lead.config import ConsumerConfig
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.types import TopicPartition

T = [TopicPartition("t", index) for index in range(4)]
COOPERATIVE, EAGER = "cooperative-sticky", "range"


def snapshot(generation: int = 1, **counts: int) -> ClusterSnapshot:
    topics = {
        name: TopicMetadata(name, partitions=tuple(PartitionMetadata(name, i, 1, 0) for i in range(count)))
        for name, count in counts.items()
    }
    return ClusterSnapshot(generation, topics=topics)


class World:
    """One member and its coordinator's answers."""

    def __init__(self, **options: Any) -> None:
        self.now = 100.0
        config = ConsumerConfig.from_options("localhost:9", {"group_id": "g", **options})
        self.member = ClassicMember(config, [builtin(COOPERATIVE), builtin(EAGER)], lambda: 0.5)
        self.member.topics_changed(snapshot(t=4), self.now)
        self.member.subscribe(Wanted(frozenset({"t"})), self.now)

    def ask(self, kind: type) -> Any:
        step = self.member.step(self.now)
        assert isinstance(step, Ask), step
        assert isinstance(step.request, kind)
        assert self.member.step(self.now) is step
        return step.request

    def answer(self, request: Any, response: Any, error: Any = None) -> None:
        self.member.answered(request, response, error, self.now)

    def join(self, generation: int = 1, protocol: str = COOPERATIVE, leads: Mapping[str, bytes] | None = None) -> Any:
        """Answer JoinGroup with success; ``leads`` are the members listed for a leader."""
        request = self.ask(JoinGroupRequest)
        members = [JoinGroupResponseMember(member_id=name, metadata=data) for name, data in (leads or {}).items()]
        response = JoinGroupResponse(
            generation_id=generation,
            protocol_type="consumer",
            protocol_name=protocol,
            leader="me" if leads else "other",
            member_id="me",
            members=members,
        )
        self.answer(request, response)
        return request

    def sync(self, *partitions: TopicPartition) -> Any:
        request = self.ask(SyncGroupRequest)
        self.answer(request, SyncGroupResponse(assignment=encode_assignment(partitions)))
        return request

    def settle(self) -> list[Any]:
        """Carry out steps until the member waits for a request or for time to pass."""
        steps = []
        while isinstance(step := self.member.step(self.now), Revoke | Lose | Assign):
            steps.append(step)
            self.member.done(step, self.now)
        return steps

    def stable(self, *partitions: TopicPartition, generation: int = 1, protocol: str = COOPERATIVE) -> None:
        self.join(generation, protocol)
        self.sync(*partitions)
        self.settle()
        assert self.member.stable

    def identity(self) -> GroupIdentity | None:
        return self.member.identity

    def error(self) -> KafkaError | None:
        return self.member.error

    def beat(self, code: int) -> None:
        request = self.member.heartbeat(self.now)
        assert request is not None
        self.member.heartbeat_answered(request, HeartbeatResponse(error_code=code), None, self.now)
