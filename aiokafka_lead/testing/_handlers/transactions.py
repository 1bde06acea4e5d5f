"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: the content of a transaction, and its end."""

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
from ..._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...errors import (
    BrokerError,
    InvalidProducerEpochError,
    InvalidRequestError,
    OperationNotAttemptedError,
    ProducerFencedError,
    TransactionAbortableError,
    raise_for_code,
)
from .._server.context import RequestContext
from .._state.offsets import TRANSACTION
from .._state.topics import Partition
from .coordinators import check_coordinator

_INIT_FENCED_FROM = 4
"""First version with PRODUCER_FENCED. Older clients get INVALID_PRODUCER_EPOCH."""


def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    engine = context.engine
    try:
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=engine.state.next_producer_id(), producer_epoch=0)
        if not request.transactional_id:
            raise InvalidRequestError("a transactional id must not be empty")
        engine.transactions.check_timeout(request.transaction_timeout_ms)
        check_coordinator(context, TRANSACTION, request.transactional_id)
        producer_id, epoch = engine.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
    except ProducerFencedError as error:
        code = error.code if context.api_version >= _INIT_FENCED_FROM else InvalidProducerEpochError.code
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    except BrokerError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


_BATCHED_FROM = 4
_FENCED_FROM = 2
"""First version of each of these APIs with PRODUCER_FENCED. Older clients get INVALID_PRODUCER_EPOCH."""
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
            verify_only=False,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
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
    topics: list[AddPartitionsToTxnTopic],
    *,
    verify_only: bool,
) -> list[AddPartitionsToTxnTopicResult]:
    """Add all partitions or none.

    If a partition is unknown, the error of the other partitions is OPERATION_NOT_ATTEMPTED.
    """
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
        elif verify_only:
            present = engine.transactions.verified(transactional_id, producer_id, epoch).partitions
            absent = [partition for partition in partitions if partition not in present]
            codes |= {(part.topic.name, part.index): TransactionAbortableError.code for part in absent}
        else:
            engine.transactions.add(transactional_id, producer_id, epoch, partitions)
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
        context.engine.transactions.add(
            request.transactional_id, request.producer_id, request.producer_epoch, groups=[request.group_id]
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
        return EndTxnResponse(error_code=_code(context, error), producer_id=-1, producer_epoch=-1)
    return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)


HANDLERS = {
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    EndTxnRequest: end_txn,
    InitProducerIdRequest: init_producer_id,
}
