"""ListOffsets and OffsetForLeaderEpoch, which look up offsets in a log.

Other handlers use this module to check that a broker is the leader, and to name the leader in their responses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from ... import errors
from ..._wire.messages import list_offsets as wire
from ..._wire.messages import offset_for_leader_epoch as epochs
from .._server.context import RequestContext
from .._state.log import NOWHERE, OffsetAt, PartitionLog
from .._state.topics import NO_LEADER, Partition

E = TypeVar("E")

_STALE_LEADER = (errors.NotLeaderOrFollowerError.code, errors.FencedLeaderEpochError.code)
"""Error codes for which the response names the current leader."""


class _CurrentLeader(Protocol):
    leader_id: int
    leader_epoch: int


class _Leader(NamedTuple):
    """A leader that a response names, with its address. An empty host means no address."""

    leader_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None


def _named_leader(context: RequestContext, partition: Partition) -> _Leader:
    """Return the leader according to this broker. A fault may replace it."""
    leader_id, epoch = partition.leader_known_to(context.node.node_id)
    endpoint: tuple[str, int] | tuple[()] | None = None
    lie = context.hint(partition.topic.name, partition.index)
    if lie is not None:
        leader_id = leader_id if lie.leader_id is None else lie.leader_id
        epoch = epoch if lie.leader_epoch is None else lie.leader_epoch
        endpoint = lie.endpoint
    if endpoint:
        return _Leader(leader_id, epoch, *endpoint, None)
    node = context.engine.state.nodes.get(leader_id)
    if endpoint == () or node is None or not node.registered:
        return _Leader(leader_id, epoch, "", -1, None)
    return _Leader(leader_id, epoch, node.host, node.port, node.rack)


class Endpoints:
    """Collects the node endpoints for a response. Each leader that the response names appears once."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Leader] = {}

    def name_leader(
        self, context: RequestContext, partition: Partition | None, error: errors.BrokerError, into: _CurrentLeader
    ) -> None:
        """Set the current leader in the response for a partition, if the error means that the client should ask it."""
        if error.code in _STALE_LEADER and partition is not None:
            leader = _named_leader(context, partition)
            into.leader_id, into.leader_epoch = leader.leader_id, leader.leader_epoch
            if leader.host and leader.leader_id != NO_LEADER:
                self._by_id.setdefault(leader.leader_id, leader)

    def build(self, make: Callable[..., E]) -> list[E]:
        return [
            make(node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack)
            for leader in self._by_id.values()
        ]


def check_epoch(partition: Partition, client_epoch: int) -> None:
    """Check the client's leader epoch against the partition's (KIP-320). -1 means that the client has sent none."""
    if client_epoch < 0 or client_epoch == partition.leader_epoch:
        return
    known = f"leader epoch {client_epoch}, but the broker has {partition.leader_epoch}"
    if client_epoch < partition.leader_epoch:
        raise errors.FencedLeaderEpochError(f"the client has {known}")
    raise errors.UnknownLeaderEpochError(f"the client has {known}")


def check_leader(context: RequestContext, partition: Partition, client_epoch: int) -> None:
    """Raise an error unless this broker leads the partition at the client's epoch (Java: ``Partition.getLocalLog``)."""
    node_id = context.node.node_id
    if node_id in partition.replicas:
        check_epoch(partition, client_epoch)
    if not partition.leads(node_id, context.engine.timers.now()):
        raise errors.NotLeaderOrFollowerError(
            f"broker {node_id} does not lead {partition.topic.name}-{partition.index}"
        )


_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_READ_COMMITTED = 1
_NEVER = 2**15
_SINCE = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, -5: 9, -6: 11}
"""First version that supports each special timestamp. -5 and -6 are for tiered storage."""
_LEADER_EPOCH_FROM = 4


def list_offsets(context: RequestContext, request: wire.ListOffsetsRequest) -> wire.ListOffsetsResponse:
    response = wire.ListOffsetsResponse()
    for topic in request.topics:
        answer = wire.ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answer)
        for wanted in topic.partitions:
            result = wire.ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            answer.partitions.append(result)
            try:
                found = _find(context, request, topic.name, wanted)
            except errors.BrokerError as error:
                result.error_code = error.code
                continue
            result.offset, result.timestamp = found.offset, found.timestamp_ms
            if context.api_version >= _LEADER_EPOCH_FROM:
                result.leader_epoch = found.leader_epoch
    return response


def _find(
    context: RequestContext, request: wire.ListOffsetsRequest, topic: str, wanted: wire.ListOffsetsPartition
) -> OffsetAt:
    errors.raise_for_code(context.fault_code(topic, wanted.partition_index))
    partition = context.engine.state.partition(topic, wanted.partition_index)
    check_leader(context, partition, wanted.current_leader_epoch)
    if wanted.timestamp < _LATEST - 1 and context.api_version < _SINCE.get(wanted.timestamp, _NEVER):
        raise errors.UnsupportedVersionError(
            f"version {context.api_version} does not support the timestamp {wanted.timestamp}"
        )
    return _at(partition.log, wanted.timestamp, committed_only=request.isolation_level == _READ_COMMITTED)


def _at(log: PartitionLog, timestamp: int, *, committed_only: bool) -> OffsetAt:
    if timestamp == _LATEST:
        return log.latest(committed_only=committed_only)
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return log.earliest()
    if timestamp == _MAX_TIMESTAMP:
        return log.at_max_timestamp()
    if timestamp < 0:
        # The embedded brokers have no tiered storage.
        return NOWHERE
    found = log.at_time(timestamp)
    if committed_only and found.offset >= log.last_stable_offset:
        return NOWHERE
    return found


def offset_for_leader_epoch(
    context: RequestContext, request: epochs.OffsetForLeaderEpochRequest
) -> epochs.OffsetForLeaderEpochResponse:
    response = epochs.OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answer = epochs.OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answer)
        for wanted in topic.partitions:
            result = epochs.EpochEndOffset(partition=wanted.partition)
            answer.partitions.append(result)
            try:
                errors.raise_for_code(context.fault_code(topic.topic, wanted.partition))
                partition = context.engine.state.partition(topic.topic, wanted.partition)
                check_leader(context, partition, wanted.current_leader_epoch)
            except errors.BrokerError as error:
                result.error_code = error.code
                continue
            result.leader_epoch, result.end_offset = partition.log.end_of_epoch(wanted.leader_epoch)
    return response


HANDLERS = {
    wire.ListOffsetsRequest: list_offsets,
    epochs.OffsetForLeaderEpochRequest: offset_for_leader_epoch,
}
