"""Transactions: their parts and ends, queries of them and of producers, and the abort of a hanging one (KIP-664)."""

from __future__ import annotations

import re

from ... import errors
from ..._wire.messages import add_partitions_to_txn as adding
from ..._wire.messages import describe_producers as producers
from ..._wire.messages import describe_transactions as describe
from ..._wire.messages import write_txn_markers as markers
from ..._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ..._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..._wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ..._wire.messages.list_transactions import TransactionState as ListedTransaction
from .._server.context import RequestContext
from .._state.offsets import TRANSACTION, slot_of
from .._state.topics import Partition
from .._state.transactions import Transaction, TxnState
from .coordinators import check_coordinator
from .list_offsets import check_leader

_INIT_FENCED_FROM = 4
"""First version with PRODUCER_FENCED. Older clients get INVALID_PRODUCER_EPOCH."""


def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    engine = context.engine
    try:
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=engine.state.next_producer_id(), producer_epoch=0)
        if not request.transactional_id:
            raise errors.InvalidRequestError("a transactional id must not be empty")
        engine.transactions.check_timeout(request.transaction_timeout_ms)
        check_coordinator(context, TRANSACTION, request.transactional_id)
        producer_id, epoch = engine.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
    except errors.ProducerFencedError as error:
        code = error.code if context.api_version >= _INIT_FENCED_FROM else errors.InvalidProducerEpochError.code
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    except errors.BrokerError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


_BATCHED_FROM = 4
_FENCED_FROM = 2
"""First version of each of these APIs with PRODUCER_FENCED. Older clients get INVALID_PRODUCER_EPOCH."""
_BUMP_FROM = 5


def _code(context: RequestContext, error: errors.BrokerError) -> int:
    if isinstance(error, errors.ProducerFencedError) and context.api_version < _FENCED_FROM:
        return errors.InvalidProducerEpochError.code
    return error.code


def add_partitions_to_txn(
    context: RequestContext, request: adding.AddPartitionsToTxnRequest
) -> adding.AddPartitionsToTxnResponse:
    if context.api_version < _BATCHED_FROM:
        results = _add_partitions(
            context,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            request.v3_and_below_topics,
            verify_only=False,
        )
        return adding.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return adding.AddPartitionsToTxnResponse(
        results_by_transaction=[
            adding.AddPartitionsToTxnResult(
                transactional_id=txn.transactional_id,
                topic_results=_add_partitions(
                    context,
                    txn.transactional_id,
                    txn.producer_id,
                    txn.producer_epoch,
                    txn.topics,
                    verify_only=txn.verify_only,
                ),
            )
            for txn in request.transactions
        ]
    )


def _add_partitions(
    context: RequestContext,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    topics: list[adding.AddPartitionsToTxnTopic],
    *,
    verify_only: bool,
) -> list[adding.AddPartitionsToTxnTopicResult]:
    """Add all partitions to the transaction, or none. With ``verify_only``, check that they have been added.

    If a partition is unknown, the error of the other partitions is OPERATION_NOT_ATTEMPTED.
    """
    engine = context.engine
    codes: dict[tuple[str, int], int] = {}
    partitions: list[Partition] = []
    for topic in topics:
        for index in topic.partitions:
            try:
                errors.raise_for_code(context.fault_code(topic.name, index))
                partitions.append(engine.state.partition(topic.name, index))
                codes[topic.name, index] = 0
            except errors.BrokerError as error:
                codes[topic.name, index] = error.code
    try:
        check_coordinator(context, TRANSACTION, transactional_id)
        if any(codes.values()):
            codes = {key: code or errors.OperationNotAttemptedError.code for key, code in codes.items()}
        elif verify_only:
            present = engine.transactions.verified(transactional_id, producer_id, epoch).partitions
            absent = [partition for partition in partitions if partition not in present]
            codes |= {(part.topic.name, part.index): errors.TransactionAbortableError.code for part in absent}
        else:
            engine.transactions.add(transactional_id, producer_id, epoch, partitions)
    except errors.BrokerError as error:
        codes = dict.fromkeys(codes, _code(context, error))
    return [
        adding.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                adding.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def add_offsets_to_txn(context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    try:
        check_coordinator(context, TRANSACTION, request.transactional_id)
        context.engine.transactions.add(
            request.transactional_id, request.producer_id, request.producer_epoch, groups=[request.group_id]
        )
    except errors.BrokerError as error:
        return AddOffsetsToTxnResponse(error_code=_code(context, error))
    return AddOffsetsToTxnResponse()


def end_txn(context: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    try:
        check_coordinator(context, TRANSACTION, request.transactional_id)
        producer_id, epoch = context.engine.transactions.end(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            committed=request.committed,
            bump=context.api_version >= _BUMP_FROM,
        )
    except errors.BrokerError as error:
        return EndTxnResponse(error_code=_code(context, error), producer_id=-1, producer_epoch=-1)
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


_OFFSETS_TOPIC = "__consumer_offsets"
_OWN_EPOCH_FROM = 2
"""Level of transaction.version from which a marker has a newer epoch than its records (KIP-1228)."""


def describe_transactions(
    context: RequestContext, request: describe.DescribeTransactionsRequest
) -> describe.DescribeTransactionsResponse:
    return describe.DescribeTransactionsResponse(
        transaction_states=[_describe(context, transactional_id) for transactional_id in request.transactional_ids]
    )


def _describe(context: RequestContext, transactional_id: str) -> describe.TransactionState:
    """Return the description of a transaction, or of an error."""
    state = describe.TransactionState(transactional_id=transactional_id)
    try:
        errors.raise_for_code(context.fault_code(transactional_id))
        check_coordinator(context, TRANSACTION, transactional_id)
        txn = context.engine.transactions.transactions.get(transactional_id)
        if txn is None:
            raise errors.TransactionalIdNotFoundError(f"there is no transactional id {transactional_id}")
    except errors.BrokerError as error:
        state.error_code = error.code
        return state
    topics: dict[str, describe.TopicData] = {}
    for partition in txn.partitions:
        topic = topics.setdefault(partition.topic.name, describe.TopicData(topic=partition.topic.name))
        topic.partitions.append(partition.index)
    state.transaction_state = txn.state.value
    state.transaction_timeout_ms = txn.timeout_ms
    state.transaction_start_time_ms = txn.started_ms
    state.producer_id, state.producer_epoch = txn.producer_id, txn.epoch
    if txn.groups:
        slots = sorted({slot_of(group_id) for group_id in txn.groups})
        topics[_OFFSETS_TOPIC] = describe.TopicData(topic=_OFFSETS_TOPIC, partitions=slots)
    state.topics = list(topics.values())
    return state


def list_transactions(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List the transactional ids that this broker coordinates."""
    known = {state.value for state in TxnState}
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = re.compile(request.transactional_id_pattern)
        except re.error:
            return ListTransactionsResponse(error_code=errors.InvalidRegularExpressionError.code)
    return ListTransactionsResponse(
        unknown_state_filters=[state for state in request.state_filters if state not in known],
        transaction_states=[
            ListedTransaction(
                transactional_id=txn.transactional_id,
                producer_id=txn.producer_id,
                transaction_state=txn.state.value,
            )
            for txn in context.engine.transactions.transactions.values()
            if context.engine.state.coordinators.of(TRANSACTION, txn.transactional_id) == context.node.node_id
            and (pattern is None or pattern.fullmatch(txn.transactional_id))
            and _is_listed(txn, request, context.engine.now_ms())
        ],
    )


def _is_listed(txn: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and txn.state.value not in request.state_filters:
        return False
    if request.producer_id_filters and txn.producer_id not in request.producer_id_filters:
        return False
    # Like a real broker, apply the duration filter even to transactions that have ended or never began.
    return request.duration_filter < 0 or now_ms - txn.started_ms > request.duration_filter


def describe_producers(
    context: RequestContext, request: producers.DescribeProducersRequest
) -> producers.DescribeProducersResponse:
    response = producers.DescribeProducersResponse()
    for topic in request.topics:
        answer = producers.TopicResponse(name=topic.name)
        response.topics.append(answer)
        for index in topic.partition_indexes:
            result = producers.PartitionResponse(partition_index=index)
            answer.partitions.append(result)
            try:
                errors.raise_for_code(context.fault_code(topic.name, index))
                partition = context.engine.state.partition(topic.name, index)
                if context.node.node_id not in partition.replicas:
                    raise errors.NotLeaderOrFollowerError(f"this broker is not a replica of {topic.name}-{index}")
            except errors.BrokerError as error:
                result.error_code, result.error_message = error.code, error.message
                continue
            result.active_producers = [
                producers.ProducerState(
                    producer_id=producer_id,
                    producer_epoch=entry.epoch,
                    last_sequence=entry.last_sequence,
                    last_timestamp=entry.last_timestamp_ms,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=-1 if entry.txn_first_offset is None else entry.txn_first_offset,
                )
                for producer_id, entry in partition.log.producers.entries.items()
            ]
    return response


def write_txn_markers(
    context: RequestContext, request: markers.WriteTxnMarkersRequest
) -> markers.WriteTxnMarkersResponse:
    return markers.WriteTxnMarkersResponse(
        markers=[
            markers.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    markers.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            markers.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=_write_marker(context, marker, topic.name, index)
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _write_marker(context: RequestContext, marker: markers.WritableTxnMarker, topic: str, index: int) -> int:
    """Append a transaction marker to one partition. Return 0, or the error code."""
    engine = context.engine
    try:
        errors.raise_for_code(context.fault_code(topic, index))
        partition = engine.state.partition(topic, index)
        check_leader(context, partition, -1)
        partition.log.end_transaction(
            marker.producer_id,
            marker.producer_epoch,
            committed=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            leader_epoch=partition.leader_epoch,
            now_ms=engine.now_ms(),
            own_epoch=marker.transaction_version >= _OWN_EPOCH_FROM,
        )
    except errors.BrokerError as error:
        return error.code
    engine.defer(partition.notify)
    return 0


HANDLERS = {
    adding.AddPartitionsToTxnRequest: add_partitions_to_txn,
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    EndTxnRequest: end_txn,
    InitProducerIdRequest: init_producer_id,
    describe.DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
    producers.DescribeProducersRequest: describe_producers,
    markers.WriteTxnMarkersRequest: write_txn_markers,
}
