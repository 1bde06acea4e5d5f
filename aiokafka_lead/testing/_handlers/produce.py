"""Produce: checking batches, detecting duplicates, and appending."""

from __future__ import annotations

from ... import errors
from ..._wire.messages import produce as wire
from .._server.context import CloseConnection, Pending, RequestContext
from .._state import batch as batches
from .._state.configs import TopicConfigs
from .._state.topics import Partition
from .list_offsets import Endpoints, check_leader
from .transactional_writes import PRODUCE_ADDS_FROM, Refused, ask_for_partitions, written_partition

_HINTS_FROM = 10

_RETRY_S = 0.02
_RETRY_MAX_S = 0.1
"""Limits of a broker's wait for the end of the previous transaction. Clients wait longer (KAFKA-18654,
add.partitions.to.txn.retry.backoff.ms and .max.ms).
"""

_LOG_START_UNTOLD = (
    errors.CorruptRecordError,
    errors.InvalidRequiredAcksError,
    errors.MessageTooLargeError,
    errors.NotLeaderOrFollowerError,
    errors.UnknownTopicOrPartitionError,
    errors.UnsupportedCompressionTypeError,
    batches.NotOneBatchError,
)


def produce(context: RequestContext, request: wire.ProduceRequest) -> wire.ProduceResponse | Pending | None:
    if request.transactional_id is None:
        return _produce(context, request, {})
    refused = ask_for_partitions(context, request)
    if context.api_version < PRODUCE_ADDS_FROM or not _meets_concurrent(refused):
        return _produce(context, request, refused)
    return _wait_for_markers(context, request)


def _meets_concurrent(refused: Refused) -> bool:
    return any(isinstance(error, errors.ConcurrentTransactionsError) for error in refused.values())


def _wait_for_markers(context: RequestContext, request: wire.ProduceRequest) -> Pending:
    """Return a pending response. Retry the request for some time, because the previous transaction is ending."""
    timers = context.engine.timers
    pending = Pending()
    until = timers.now() + _RETRY_MAX_S

    def again() -> None:
        if pending.done:
            return
        refused = ask_for_partitions(context, request)
        if _meets_concurrent(refused) and timers.now() < until:
            timers.call_later(_RETRY_S, again)
            return
        try:
            pending.complete(_produce(context, request, refused))
        except CloseConnection:
            context.connection.close()

    timers.call_later(_RETRY_S, again)
    return pending


def _produce(context: RequestContext, request: wire.ProduceRequest, refused: Refused) -> wire.ProduceResponse | None:
    """Return the response, or None if the client expects none (acks=0).

    ``refused`` contains the partitions that must not be written, with the reason. Raises `CloseConnection` to report an
    error to a client that expects no response.
    """
    response = wire.ProduceResponse()
    endpoints = Endpoints()
    failed = False
    for wanted in request.topic_data:
        answer = wire.TopicProduceResponse(name=wanted.name, topic_id=wanted.topic_id)
        response.responses.append(answer)
        for data in wanted.partition_data:
            partition: Partition | None = None
            try:
                partition = written_partition(context, wanted.name, wanted.topic_id, data.index)
                if partition in refused:
                    raise refused[partition]
                result = _append(context, request, partition, data)
            except _RefusedRecordsError as error:
                failed = True
                result = _failure(data.index, error.error, partition)
                result.record_errors = [wire.BatchIndexAndErrorMessage(batch_index=index) for index in error.indexes]
            except errors.BrokerError as error:
                failed = True
                result = _failure(data.index, error, partition)
                if context.api_version >= _HINTS_FROM:
                    endpoints.name_leader(context, partition, error, result.current_leader)
            answer.partition_responses.append(result)
            # The request stays in the log of requests, but without its records.
            data.records = None
    response.node_endpoints = endpoints.build(wire.NodeEndpoint)
    if request.acks == 0:
        if failed:
            # This is the only way to report an error to a client that expects no response.
            raise CloseConnection
        return None
    return response


class _RefusedRecordsError(Exception):
    """A batch is refused because some of its records are invalid."""

    def __init__(self, error: errors.BrokerError, indexes: list[int]) -> None:
        super().__init__(error.message)
        self.error = error
        self.indexes = indexes


def _failure(index: int, error: errors.BrokerError, partition: Partition | None) -> wire.PartitionProduceResponse:
    """Return an error response, with the log start offset if the log has refused the batch."""
    has_log_start = partition is not None and not isinstance(error, _LOG_START_UNTOLD)
    return wire.PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=partition.log.start_offset if has_log_start and partition is not None else -1,
        error_message=error.message,
    )


def _append(
    context: RequestContext, request: wire.ProduceRequest, partition: Partition, data: wire.PartitionProduceData
) -> wire.PartitionProduceResponse:
    """Append a batch to the log, and return the partition's response.

    For a duplicate, this is the response to the original batch. Raises `BrokerError` if the batch is refused. The
    checks have Kafka's order: the request, the topic's settings, the batch and the producer's state.
    """
    engine = context.engine
    topic = partition.topic
    errors.raise_for_code(context.fault_code(topic.name, partition.index))
    if request.acks not in (-1, 0, 1):
        raise errors.InvalidRequiredAcksError(f"acks must be -1, 0 or 1, not {request.acks}")
    check_leader(context, partition, -1)
    configs = topic.configs
    if request.acks == -1 and len(partition.isr) < configs.min_insync_replicas:
        raise errors.NotEnoughReplicasError(
            f"The size of the current ISR {partition.isr} is insufficient to satisfy the min.isr requirement of "
            f"{configs.min_insync_replicas} for partition {topic.name}-{partition.index}"
        )
    if data.records is None:
        raise errors.CorruptRecordError("the request has no records for this partition")
    now_ms = engine.now_ms()
    header = batches.validate(
        data.records,
        max_bytes=configs.max_message_bytes,
        produce_version=context.api_version,
    )
    if not configs.log_append_time:
        _check_times(data.records, header, configs, now_ms)
    if configs.compacted and (unkeyed := batches.without_key(data.records)):
        raise _RefusedRecordsError(
            errors.InvalidRecordError("Compacted topic cannot accept message without key."), unkeyed
        )
    log = partition.log
    if header.is_transactional:
        if request.transactional_id is None:
            raise errors.TransactionalIdAuthorizationFailedError("transactional records need a transactional id")
        if header.producer_id < 0:
            raise errors.InvalidTxnStateError("a transactional batch needs a producer id")
    if header.producer_id >= 0:
        duplicate = log.producers.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            transactional=header.is_transactional,
        )
        if duplicate is not None:
            return wire.PartitionProduceResponse(
                index=partition.index,
                base_offset=duplicate.base_offset,
                log_append_time_ms=duplicate.timestamp_ms if configs.log_append_time else -1,
                log_start_offset=log.start_offset,
            )
    append_time_ms = now_ms if configs.log_append_time else None
    stored = log.append(data.records, header, partition.leader_epoch, append_time_ms)
    if configs.retention_bytes >= 0:
        log.retain_bytes(configs.retention_bytes, configs.segment_bytes)
    if partition.watchers:
        size = stored.size
        engine.defer(lambda: partition.notify(size))
    return wire.PartitionProduceResponse(
        index=partition.index,
        base_offset=stored.base_offset,
        log_append_time_ms=-1 if append_time_ms is None else append_time_ms,
        log_start_offset=log.start_offset,
    )


def _check_times(records: memoryview, header: batches.BatchHeader, configs: TopicConfigs, now_ms: int) -> None:
    """Raise `_RefusedRecordsError` if a timestamp is further from the current time than the topic allows."""
    from_ms, to_ms = now_ms - configs.timestamp_before_max_ms, now_ms + configs.timestamp_after_max_ms
    if from_ms <= 0 and header.max_timestamp_ms <= to_ms:
        return
    refused = batches.outside(records, from_ms, to_ms)
    if refused:
        names = "message.timestamp.before.max.ms and message.timestamp.after.max.ms"
        error = errors.InvalidTimestampError(f"Timestamps are outside of the range that {names} of the topic allow.")
        raise _RefusedRecordsError(error, refused)


HANDLERS = {wire.ProduceRequest: produce}
