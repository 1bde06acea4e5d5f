"""ListOffsets and OffsetForLeaderEpoch: queries of positions in a log."""

from __future__ import annotations

from ..._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ..._wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ...errors import BrokerError, UnsupportedVersionError, raise_for_code
from .._server.context import RequestContext
from .._state.log import NOWHERE, OffsetAt, PartitionLog
from .leaders import check_leader

_LATEST = -1
_EARLIEST = -2
_MAX_TIMESTAMP = -3
_EARLIEST_LOCAL = -4
_READ_COMMITTED = 1
_NEVER = 2**15
_SINCE = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, -5: 9, -6: 11}
"""First version that supports each special timestamp; -5 and -6 are of tiered storage."""
_LEADER_EPOCH_FROM = 4


def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    response = ListOffsetsResponse()
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answer)
        for wanted in topic.partitions:
            result = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            answer.partitions.append(result)
            try:
                found = _find(context, request, topic.name, wanted)
            except BrokerError as error:
                result.error_code = error.code
                continue
            result.offset, result.timestamp = found.offset, found.timestamp_ms
            if context.api_version >= _LEADER_EPOCH_FROM:
                result.leader_epoch = found.leader_epoch
    return response


def _find(context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition) -> OffsetAt:
    raise_for_code(context.fault_code(topic, wanted.partition_index))
    partition = context.engine.state.partition(topic, wanted.partition_index)
    check_leader(context, partition, wanted.current_leader_epoch)
    if wanted.timestamp < _LATEST - 1 and context.api_version < _SINCE.get(wanted.timestamp, _NEVER):
        raise UnsupportedVersionError(f"no version {context.api_version} with timestamp {wanted.timestamp}")
    return _at(partition.log, wanted.timestamp, committed_only=request.isolation_level == _READ_COMMITTED)


def _at(log: PartitionLog, timestamp: int, *, committed_only: bool) -> OffsetAt:
    if timestamp == _LATEST:
        return log.latest(committed_only=committed_only)
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return log.earliest()
    if timestamp == _MAX_TIMESTAMP:
        return log.at_max_timestamp()
    if timestamp < 0:
        # Tiered storage, which does not exist here.
        return NOWHERE
    found = log.at_time(timestamp)
    if committed_only and found.offset >= log.last_stable_offset:
        return NOWHERE
    return found


def offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answer = OffsetForLeaderTopicResult(topic=topic.topic)
        response.topics.append(answer)
        for wanted in topic.partitions:
            result = EpochEndOffset(partition=wanted.partition)
            answer.partitions.append(result)
            try:
                raise_for_code(context.fault_code(topic.topic, wanted.partition))
                partition = context.engine.state.partition(topic.topic, wanted.partition)
                check_leader(context, partition, wanted.current_leader_epoch)
            except BrokerError as error:
                result.error_code = error.code
                continue
            result.leader_epoch, result.end_offset = partition.log.end_of_epoch(wanted.leader_epoch)
    return response


HANDLERS = {ListOffsetsRequest: list_offsets, OffsetForLeaderEpochRequest: offset_for_leader_epoch}
