"""ShareAcknowledge, and acknowledgements in ShareFetch (KIP-932, KIP-1222)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol
from uuid import UUID

from ..._wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ...errors import (
    BrokerError,
    FencedLeaderEpochError,
    InvalidRequestError,
    InvalidShareSessionEpochError,
    NotLeaderOrFollowerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    raise_for_code,
)
from .._server.context import RequestContext
from .._state.consumer_members import Slot
from .._state.share_broker import FINAL_EPOCH, INITIAL_EPOCH
from .._state.share_deliveries import Acknowledge
from .._state.share_partition import AcknowledgedBatch
from .._state.topics import Partition
from .list_offsets import Endpoints, named_leader
from .share_group_heartbeat import check_member_id, check_share_groups

_RENEW_FROM = 2
STALE_LEADER = (NotLeaderOrFollowerError.code, FencedLeaderEpochError.code)
"""Error codes for which the response names the current leader."""

Outcomes = dict[Slot, BrokerError | None]
"""The result of each partition's acknowledgements: None or an error."""


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class _Part(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[_Batch]: ...


class AcknowledgingTopic(Protocol):
    """A topic with acknowledgements in a ShareFetch or ShareAcknowledge request."""

    topic_id: UUID

    @property
    def partitions(self) -> Sequence[_Part]: ...


def share_acknowledge(context: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    broker = context.engine.share_broker(context.node.node_id)
    epoch = request.share_session_epoch
    try:
        key = member_key(context, request.group_id, request.member_id)
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpochError("The share session epoch is invalid.")
        if epoch == FINAL_EPOCH:
            broker.session(key)
        else:
            broker.continued(key, epoch)
    except BrokerError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message)
    outcomes = acknowledge(context, key, request.topics, is_renewal=request.is_renew_ack)
    if epoch == FINAL_EPOCH:
        broker.close(key)
    endpoints = Endpoints()
    topics: dict[UUID, ShareAcknowledgeTopicResponse] = {}
    for slot, problem in outcomes.items():
        data = PartitionData(partition_index=slot[1])
        if problem is not None:
            data.error_code, data.error_message = problem.code, problem.message
            partition = find_partition(context, slot)
            if problem.code in STALE_LEADER and partition is not None:
                leader = named_leader(context, partition)
                endpoints.add(leader)
                data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        topics.setdefault(slot[0], ShareAcknowledgeTopicResponse(topic_id=slot[0])).partitions.append(data)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=context.engine.groups.configs.share(key[0]).record_lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=endpoints.build(NodeEndpoint),
    )


def member_key(context: RequestContext, group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """Return the group and the member of a request. Raises an error if one of them is invalid."""
    check_share_groups(context)
    if group_id is None:
        raise InvalidRequestError("Invalid group id in the request.")
    check_member_id(member_id)
    assert member_id is not None
    return group_id, member_id


def find_partition(context: RequestContext, slot: Slot) -> Partition | None:
    topic = context.engine.state.topics_by_id.get(slot[0])
    return topic.partitions[slot[1]] if topic is not None and 0 <= slot[1] < len(topic.partitions) else None


def acknowledge(
    context: RequestContext, key: tuple[str, str], topics: Iterable[AcknowledgingTopic], *, is_renewal: bool
) -> Outcomes:
    """Process the acknowledgements of a request, independently for each partition."""
    outcomes: Outcomes = {}
    silent: list[Slot] = []
    for topic in topics:
        for part in topic.partitions:
            slot = topic.topic_id, part.partition_index
            batches = [
                AcknowledgedBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in part.acknowledgement_batches
            ]
            try:
                partition = _checked(context, slot, batches, is_renewal=is_renewal)
                if batches:
                    _take(context, key, partition, batches)
                    outcomes[slot] = None
                else:
                    silent.append(slot)
            except BrokerError as error:
                outcomes[slot] = error
    if outcomes:
        # Like a real broker, report these only together with other results.
        outcomes.update(dict.fromkeys(silent))
    return outcomes


def _checked(
    context: RequestContext, slot: Slot, batches: Sequence[AcknowledgedBatch], *, is_renewal: bool
) -> Partition:
    if slot[0] not in context.engine.state.topics_by_id:
        raise UnknownTopicIdError("This server does not host this topic ID.")
    most = Acknowledge.RENEW if context.api_version >= _RENEW_FROM else Acknowledge.REJECT
    end = -1
    for batch in batches:
        types = batch.types
        whole = len(types) == 1 or len(types) == batch.last - batch.first + 1
        renews = Acknowledge.RENEW in types
        if not (
            end <= batch.first <= batch.last
            and types
            and whole
            and all(Acknowledge.GAP <= kind <= most for kind in types)
            and (is_renewal or not renews)
        ):
            raise InvalidRequestError("The acknowledgement batches are invalid.")
        end = batch.last
    partition = find_partition(context, slot)
    if partition is None:
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    return partition


def _take(
    context: RequestContext, key: tuple[str, str], partition: Partition, batches: Sequence[AcknowledgedBatch]
) -> None:
    raise_for_code(context.fault_code(partition.topic.name, partition.index))
    shares = context.engine.share_broker(context.node.node_id).loaded(key[0], partition)
    if shares is None:
        # No records were acquired at this broker, or another broker leads now.
        raise UnknownTopicOrPartitionError("This server does not host this topic-partition.")
    shares.acknowledge(key[1], batches)


HANDLERS = {ShareAcknowledgeRequest: share_acknowledge}
