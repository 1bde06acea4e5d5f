"""Members of the classic protocol in a group of the new protocol (KIP-848).

JoinGroup and SyncGroup act as heartbeats there. The response to a heartbeat makes a member join again, and the member
then learns which partitions it must give up or receives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from ... import errors
from ..._wire import decode, encode
from ..._wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from ..._wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from .clock import TimerHandle
from .consumer_group import ConsumerGroup
from .consumer_members import ConsumerMember, MemberState, Slot
from .members import JoinRequest, JoinResult, SyncResult

if TYPE_CHECKING:
    from .cluster import ClusterState

PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode the subscription. Raises MalformedMessageError."""
    version = min(int.from_bytes(metadata[:_VERSION_BYTES], "big"), ConsumerProtocolSubscription.MAX_VERSION)
    return decode(ConsumerProtocolSubscription, version, metadata[_VERSION_BYTES:])


def read_assignment(assignment: bytes, cluster: ClusterState) -> list[Slot]:
    """Decode the partitions of topics that exist. Raises MalformedMessageError."""
    if not assignment:
        return []
    version = min(int.from_bytes(assignment[:_VERSION_BYTES], "big"), ConsumerProtocolAssignment.MAX_VERSION)
    found = decode(ConsumerProtocolAssignment, version, assignment[_VERSION_BYTES:])
    return slots_of(((topic.topic, topic.partitions) for topic in found.assigned_partitions), cluster)


def write_assignment(slots: Iterable[Slot], cluster: ClusterState, version: int) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic_id, index in sorted(slots):
        if topic_id in cluster.topics_by_id:
            topics.setdefault(cluster.topics_by_id[topic_id].name, []).append(index)
    assigned = [TopicPartition(topic=name, partitions=indexes) for name, indexes in topics.items()]
    body = encode(ConsumerProtocolAssignment(assigned_partitions=assigned), version)
    return version.to_bytes(_VERSION_BYTES, "big") + body


def slots_of(topics: Iterable[tuple[str, Iterable[int]]], cluster: ClusterState) -> list[Slot]:
    return [
        (cluster.topics[name].topic_id, index)
        for name, indexes in topics
        if name in cluster.topics
        for index in indexes
    ]


class ClassicMembers:
    """Lets members of the classic protocol use a group of the new protocol, as during a migration (KIP-848)."""

    def __init__(self, group: ConsumerGroup, cluster: ClusterState) -> None:
        self._group = group
        self._cluster = cluster

    def join(self, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        """Handle JoinGroup of a member that joins or rejoins.

        Raises the error of the response, or calls ``reply`` immediately.
        """
        self._check_protocols(request)
        if not request.member_id and request.instance_id is None and request.known_id_required:
            reply(JoinResult(str(uuid4()), errors.MemberIdRequiredError()))
            return
        subscription = read_subscription(request.protocols[0][1])
        member = self._joining(request)
        topics, pattern = member.topics, member.pattern
        member.classic = request
        member.instance_id, member.rack = request.instance_id, subscription.rack_id
        member.client_id, member.client_host = request.client_id, request.client_host
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.topics, member.pattern = frozenset(subscription.topics), ""
        owned = slots_of(((topic.topic, topic.partitions) for topic in subscription.owned_partitions), self._cluster)
        changed = (topics, pattern) != (member.topics, member.pattern)
        self._group.advance(member, changed=changed, owned=frozenset(owned))
        self._cancel_join_timer(member)
        self._group.heard_of(member, request.session_timeout_ms)
        if member.sync_timer is None:
            member.sync_timer = self._after_rebalance_timeout(member)
        result = JoinResult(
            member.member_id,
            generation=member.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol=request.protocols[0][0],
        )
        reply(result)

    def _check_protocols(self, request: JoinRequest) -> None:
        offered = {name for name, _ in request.protocols}
        for member in self._group.members.values():
            if member.classic is not None and member.member_id != request.member_id:
                offered &= {name for name, _ in member.classic.protocols}
        if request.protocol_type != PROTOCOL_TYPE or not offered:
            raise errors.InconsistentGroupProtocolError(
                f"the member and group {self._group.group_id} have no common protocol"
            )

    def _joining(self, request: JoinRequest) -> ConsumerMember:
        if request.instance_id is None:
            known = self._group.members.get(request.member_id)
            return self._group.add(request.member_id) if known is None else known
        if request.member_id:
            return self._group.known_member(request.member_id, request.instance_id)
        return self._group.add_static("", request.instance_id)

    def _checked(self, member_id: str, instance_id: str | None, generation: int) -> tuple[ConsumerMember, JoinRequest]:
        member = self._group.known_member(member_id, instance_id)
        if member.classic is None:
            raise errors.UnknownMemberIdError(f"member {member_id} does not use the classic protocol")
        if generation != member.epoch:
            raise errors.IllegalGenerationError(f"member {member_id} is at generation {member.epoch}, not {generation}")
        return member, member.classic

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        assignments: dict[str, bytes],
        reply: Callable[[SyncResult], None],
    ) -> None:
        """Answer a member's SyncGroup request with its assignment.

        Assignments that the member sends for other members are ignored, because the coordinator computes them.
        """
        member, joined = self._checked(member_id, instance_id, generation)
        chosen, metadata = joined.protocols[0]
        if protocol_type not in (None, PROTOCOL_TYPE) or protocol not in (None, chosen):
            raise errors.InconsistentGroupProtocolError(
                f"member {member_id} joined with the protocol {chosen}, not {protocol}"
            )
        if self._group.epoch > member.epoch and member.state is not MemberState.UNREVOKED:
            self._wait_for_join(member)
            raise errors.RebalanceInProgressError()
        if member.sync_timer is not None:
            member.sync_timer.cancel()
            member.sync_timer = None
        self._group.heard_of(member, joined.session_timeout_ms)
        version = min(int.from_bytes(metadata[:_VERSION_BYTES], "big"), ConsumerProtocolAssignment.MAX_VERSION)
        assignment = write_assignment(member.assigned, self._cluster, version)
        reply(SyncResult(None, PROTOCOL_TYPE, chosen, assignment))

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member alive. Raises RebalanceInProgressError if the member should join again."""
        member, joined = self._checked(member_id, instance_id, generation)
        self._group.heard_of(member, joined.session_timeout_ms)
        if (
            member.epoch < self._group.epoch
            or member.state is MemberState.UNREVOKED
            or (member.state is MemberState.UNRELEASED and not self._group.is_waiting(member))
        ):
            self._wait_for_join(member)
            raise errors.RebalanceInProgressError()

    def leave(self, member_id: str, instance_id: str | None) -> str:
        """Remove a member and return its id. The member is identified by its id, or only by its instance id."""
        if instance_id is not None and not member_id:
            member_id = self._group.static.get(instance_id, "")
        member = self._group.known_member(member_id, instance_id)
        if member.classic is None:
            raise errors.UnknownMemberIdError(f"member {member_id} does not use the classic protocol")
        self._group.remove(member)
        return member_id

    def _wait_for_join(self, member: ConsumerMember) -> None:
        if member.join_timer is None:
            member.join_timer = self._after_rebalance_timeout(member)

    def _cancel_join_timer(self, member: ConsumerMember) -> None:
        if member.join_timer is not None:
            member.join_timer.cancel()
            member.join_timer = None

    def _after_rebalance_timeout(self, member: ConsumerMember) -> TimerHandle:
        when = self._group.clock.now() + member.rebalance_timeout_ms / 1000
        return self._group.clock.call_at(when, partial(self._group.remove, member))
