"""Queries of transactions and producers, and the abort of a hanging transaction (KIP-664)."""

from __future__ import annotations

import re

from ..._wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ..._wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ..._wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ..._wire.messages.list_transactions import TransactionState as ListedTransaction
from ..._wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...errors import (
    BrokerError,
    InvalidRegularExpressionError,
    NotLeaderOrFollowerError,
    TransactionalIdNotFoundError,
    raise_for_code,
)
from .._server.context import RequestContext
from .._state.offsets import TRANSACTION, slot_of
from .._state.transaction import Transaction, TxnState
from .coordinators import check_coordinator
from .list_offsets import check_leader

_OFFSETS_TOPIC = "__consumer_offsets"
_OWN_EPOCH_FROM = 2
"""Level of transaction.version from which a marker has a newer epoch than its records (KIP-1228)."""


def describe_transactions(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(context, transactional_id) for transactional_id in request.transactional_ids]
    )


def _describe(context: RequestContext, transactional_id: str) -> TransactionState:
    state = TransactionState(transactional_id=transactional_id)
    try:
        raise_for_code(context.fault_code(transactional_id))
        check_coordinator(context, TRANSACTION, transactional_id)
        txn = context.engine.transactions.transactions.get(transactional_id)
        if txn is None:
            raise TransactionalIdNotFoundError(f"there is no transactional id {transactional_id}")
    except BrokerError as error:
        state.error_code = error.code
        return state
    topics: dict[str, TopicData] = {}
    for partition in txn.partitions:
        topic = topics.setdefault(partition.topic.name, TopicData(topic=partition.topic.name))
        topic.partitions.append(partition.index)
    state.transaction_state = txn.state.value
    state.transaction_timeout_ms = txn.timeout_ms
    state.transaction_start_time_ms = txn.started_ms
    state.producer_id, state.producer_epoch = txn.producer_id, txn.epoch
    if txn.groups:
        slots = sorted({slot_of(group_id) for group_id in txn.groups})
        topics[_OFFSETS_TOPIC] = TopicData(topic=_OFFSETS_TOPIC, partitions=slots)
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
            return ListTransactionsResponse(error_code=InvalidRegularExpressionError.code)
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


def describe_producers(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        for index in topic.partition_indexes:
            result = PartitionResponse(partition_index=index)
            answer.partitions.append(result)
            try:
                raise_for_code(context.fault_code(topic.name, index))
                partition = context.engine.state.partition(topic.name, index)
                if context.node.node_id not in partition.replicas:
                    raise NotLeaderOrFollowerError(f"this broker is not a replica of {topic.name}-{index}")
            except BrokerError as error:
                result.error_code, result.error_message = error.code, error.message
                continue
            result.active_producers = [
                ProducerState(
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


def write_txn_markers(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(
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


def _write_marker(context: RequestContext, marker: WritableTxnMarker, topic: str, index: int) -> int:
    """Append a marker. Return an error code, or 0."""
    engine = context.engine
    try:
        raise_for_code(context.fault_code(topic, index))
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
    except BrokerError as error:
        return error.code
    engine.defer(partition.notify)
    return 0


HANDLERS = {
    DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
    DescribeProducersRequest: describe_producers,
    WriteTxnMarkersRequest: write_txn_markers,
}
