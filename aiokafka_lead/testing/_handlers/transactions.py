"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and what can be asked about transactions and producers."""

from __future__ import annotations

from ..._wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ..._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
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
from ..._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..._wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ..._wire.messages.list_transactions import TransactionState as ListedTransaction
from ...errors import (
    BrokerError,
    InvalidProducerEpochError,
    NotLeaderOrFollowerError,
    OperationNotAttemptedError,
    ProducerFencedError,
    TransactionalIdNotFoundError,
    raise_for_code,
)
from .._server.context import RequestContext
from .._state.topics import Partition
from .._state.transactions import TxnState
from .coordinators import TRANSACTION, check_coordinator

_BATCHED_FROM = 4
_FENCED_FROM = 2
"""Older clients know INVALID_PRODUCER_EPOCH instead of PRODUCER_FENCED, in each of these APIs."""
_BUMP_FROM = 5


def _code(context: RequestContext, error: BrokerError) -> int:
    if isinstance(error, ProducerFencedError) and context.api_version < _FENCED_FROM:
        return InvalidProducerEpochError.code
    return error.code


def add_partitions_to_txn(context: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if context.api_version < _BATCHED_FROM:
        results = _add_partitions(
            context,
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=txn.transactional_id,
                topic_results=_add_partitions(
                    context, txn.transactional_id, txn.producer_id, txn.producer_epoch, txn.topics
                ),
            )
            for txn in request.transactions
        ]
    )


def _add_partitions(
    context: RequestContext, transactional_id: str, producer_id: int, epoch: int, topics: list[AddPartitionsToTxnTopic]
) -> list[AddPartitionsToTxnTopicResult]:
    """All or none: where one is unknown, the others are answered with OPERATION_NOT_ATTEMPTED."""
    engine = context.engine
    codes: dict[tuple[str, int], int] = {}
    partitions: list[Partition] = []
    for topic in topics:
        for index in topic.partitions:
            try:
                raise_for_code(context.fault_code(topic.name, index))
                partitions.append(engine.state.partition(topic.name, index))
                codes[topic.name, index] = 0
            except BrokerError as error:
                codes[topic.name, index] = error.code
    try:
        check_coordinator(context, TRANSACTION, transactional_id)
        if any(codes.values()):
            codes = {key: code or OperationNotAttemptedError.code for key, code in codes.items()}
        else:
            engine.transactions.add_partitions(transactional_id, producer_id, epoch, partitions)
    except BrokerError as error:
        codes = dict.fromkeys(codes, _code(context, error))
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=codes[topic.name, index])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def add_offsets_to_txn(context: RequestContext, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    try:
        check_coordinator(context, TRANSACTION, request.transactional_id)
        context.engine.transactions.add_group(
            request.transactional_id, request.producer_id, request.producer_epoch, request.group_id
        )
    except BrokerError as error:
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
    except BrokerError as error:
        return EndTxnResponse(error_code=_code(context, error))
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


def describe_transactions(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(context, transactional_id) for transactional_id in request.transactional_ids]
    )


def _describe(context: RequestContext, transactional_id: str) -> TransactionState:
    state = TransactionState(transactional_id=transactional_id)
    try:
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
    state.topics = list(topics.values())
    return state


def list_transactions(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """The transactional ids that this broker coordinates."""
    engine = context.engine
    known = {state.value for state in TxnState}
    return ListTransactionsResponse(
        unknown_state_filters=[state for state in request.state_filters if state not in known],
        transaction_states=[
            ListedTransaction(
                transactional_id=txn.transactional_id,
                producer_id=txn.producer_id,
                transaction_state=txn.state.value,
            )
            for txn in engine.transactions.transactions.values()
            if engine.state.coordinators.of(TRANSACTION, txn.transactional_id) == context.node.node_id
            and (not request.state_filters or txn.state.value in request.state_filters)
            and (not request.producer_id_filters or txn.producer_id in request.producer_id_filters)
            and (
                request.duration_filter < 0
                or (txn.started_ms >= 0 and engine.now_ms() - txn.started_ms > request.duration_filter)
            )
        ],
    )


def describe_producers(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    response = DescribeProducersResponse()
    for topic in request.topics:
        answer = TopicResponse(name=topic.name)
        response.topics.append(answer)
        for index in topic.partition_indexes:
            result = PartitionResponse(partition_index=index)
            answer.partitions.append(result)
            try:
                partition = context.engine.state.partition(topic.name, index)
                if context.node.node_id not in partition.replicas:
                    raise NotLeaderOrFollowerError(f"no replica of {topic.name}-{index} here")
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


HANDLERS = {
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    EndTxnRequest: end_txn,
    DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
    DescribeProducersRequest: describe_producers,
}
