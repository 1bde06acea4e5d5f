"""Produce: validation, idempotence, append."""

from __future__ import annotations

from ..._wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ...errors import (
    BrokerError,
    CorruptRecordError,
    FencedLeaderEpochError,
    InvalidRecordError,
    InvalidRequiredAcksError,
    InvalidTimestampError,
    InvalidTxnStateError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
    raise_for_code,
)
from .._server.context import CloseConnection, RequestContext
from .._state import batch as batches
from .._state.topics import Partition, Topic
from .leaders import Endpoints, check_leader, named_leader

_HINTS_FROM = 10
_TOPIC_IDS_FROM = 13
_IMPLICIT_PARTITIONS_FROM = 12
"""From this version a transaction takes in the partitions that are written to (KIP-890)."""

_LOG_START_UNTOLD = (
    CorruptRecordError,
    InvalidRequiredAcksError,
    MessageTooLargeError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
    UnsupportedCompressionTypeError,
    batches.NotOneBatchError,
)

_ABORTABLE_FROM = 11
"""From this version clients know that an error only means to abort (KIP-890)."""

_STALE_LEADER = (NotLeaderOrFollowerError.code, FencedLeaderEpochError.code)


def produce(context: RequestContext, request: ProduceRequest) -> ProduceResponse | None:
    response = ProduceResponse()
    endpoints = Endpoints()
    failed = False
    for wanted in request.topic_data:
        answer = TopicProduceResponse(name=wanted.name, topic_id=wanted.topic_id)
        response.responses.append(answer)
        for data in wanted.partition_data:
            partition: Partition | None = None
            try:
                topic = _topic(context, wanted.name, wanted.topic_id)
                if not 0 <= data.index < len(topic.partitions):
                    raise UnknownTopicOrPartitionError(f"there is no partition {topic.name}-{data.index}")
                partition = topic.partitions[data.index]
                result = _append(context, request, partition, data)
            except _RefusedRecordsError as refused:
                failed = True
                result = _failure(data.index, refused.error, partition)
                result.record_errors = [BatchIndexAndErrorMessage(batch_index=index) for index in refused.indexes]
            except BrokerError as error:
                failed = True
                result = _failure(data.index, error, partition)
                if error.code in _STALE_LEADER and partition is not None and context.api_version >= _HINTS_FROM:
                    leader = named_leader(context, partition)
                    endpoints.add(leader)
                    result.current_leader = LeaderIdAndEpoch(
                        leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
                    )
            answer.partition_responses.append(result)
            # The request is kept in the log of requests: its records are not.
            data.records = None
    response.node_endpoints = endpoints.build(NodeEndpoint)
    if request.acks == 0:
        if failed:
            # The only way to tell a client that waits for no answer.
            raise CloseConnection
        return None
    return response


class _RefusedRecordsError(Exception):
    """Some of a batch's records are refused, and with them all of it."""

    def __init__(self, error: BrokerError, indexes: list[int]) -> None:
        super().__init__(error.message)
        self.error = error
        self.indexes = indexes


def _failure(index: int, error: BrokerError, partition: Partition | None) -> PartitionProduceResponse:
    """An error's answer. The log start is told where the log itself has refused the batch."""
    told = partition is not None and not isinstance(error, _LOG_START_UNTOLD)
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=partition.log.start_offset if told and partition is not None else -1,
        error_message=error.message,
    )


def _topic(context: RequestContext, name: str, topic_id: object) -> Topic:
    state = context.engine.state
    if context.api_version >= _TOPIC_IDS_FROM:
        return state.topic_by_id(topic_id)  # type: ignore[arg-type]
    return state.topic(name)


def _append(
    context: RequestContext, request: ProduceRequest, partition: Partition, data: PartitionProduceData
) -> PartitionProduceResponse:
    engine = context.engine
    topic = partition.topic
    raise_for_code(context.fault_code(topic.name, partition.index))
    if request.acks not in (-1, 0, 1):
        raise InvalidRequiredAcksError(f"acks {request.acks} is none of -1, 0, 1")
    check_leader(context, partition, -1)
    configs = topic.configs
    if request.acks == -1 and len(partition.isr) < configs.min_insync_replicas:
        raise NotEnoughReplicasError(
            f"The size of the current ISR {partition.isr} is insufficient to satisfy the min.isr requirement of "
            f"{configs.min_insync_replicas} for partition {topic.name}-{partition.index}"
        )
    if data.records is None:
        raise CorruptRecordError("no records")
    now_ms = engine.now_ms()
    header = batches.validate(
        data.records,
        max_bytes=configs.max_message_bytes,
        produce_version=context.api_version,
    )
    latest_ms = now_ms + configs.timestamp_after_max_ms
    if header.max_timestamp_ms > latest_ms:
        late = batches.later_than(data.records, latest_ms)
        raise _RefusedRecordsError(InvalidTimestampError("Timestamps are too far in the future."), late)
    if configs.compacted and (unkeyed := batches.without_key(data.records)):
        raise _RefusedRecordsError(InvalidRecordError("Compacted topic cannot accept message without key."), unkeyed)
    log = partition.log
    if header.producer_id >= 0:
        duplicate = log.producers.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            transactional=header.is_transactional,
        )
        if duplicate is not None:
            return PartitionProduceResponse(
                index=partition.index,
                base_offset=duplicate.base_offset,
                log_append_time_ms=duplicate.timestamp_ms if configs.log_append_time else -1,
                log_start_offset=log.start_offset,
            )
    if header.is_transactional:
        if header.producer_id < 0:
            raise InvalidTxnStateError("a transactional batch needs a producer id")
        knows_abortable = context.api_version >= _ABORTABLE_FROM
        engine.transactions.verify_write(
            request.transactional_id,
            header.producer_id,
            header.producer_epoch,
            partition,
            add=context.api_version >= _IMPLICIT_PARTITIONS_FROM,
            not_part_of_it=TransactionAbortableError if knows_abortable else InvalidTxnStateError,
        )
    append_time_ms = now_ms if configs.log_append_time else None
    stored = log.append(data.records, header, partition.leader_epoch, append_time_ms)
    if configs.retention_bytes >= 0:
        log.retain_bytes(configs.retention_bytes, configs.segment_bytes)
    if partition.watchers:
        size = stored.size
        engine.defer(lambda: partition.notify(size))
    return PartitionProduceResponse(
        index=partition.index,
        base_offset=stored.base_offset,
        log_append_time_ms=-1 if append_time_ms is None else append_time_ms,
        log_start_offset=log.start_offset,
    )


HANDLERS = {ProduceRequest: produce}
