"""Writes in a transaction: a partition's leader asks the coordinator before it appends (KIP-890).

Up to Produce 11 and TxnOffsetCommit 4, the request to the coordinator checks that the partition has been added. From
the next version on, it adds the partition. Java: ``ReplicaManager.handleProduceAppend``, ``AddPartitionsToTxnManager``.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ... import errors
from ..._wire.messages.produce import ProduceRequest
from .._server.context import RequestContext
from .._state.batch import transactional_header
from .._state.offsets import TRANSACTION
from .._state.topics import Partition
from .list_offsets import check_leader

PRODUCE_ADDS_FROM = 12
_PRODUCE_ABORTABLE_FROM = 11
_COMMIT_ADDS_FROM = 5
_COMMIT_ABORTABLE_FROM = 4
"""First versions of Produce and TxnOffsetCommit with TRANSACTION_ABORTABLE."""

_TOPIC_IDS_FROM = 13

Refused = dict[Partition, errors.BrokerError]


def written_partition(context: RequestContext, name: str, topic_id: UUID, index: int) -> Partition:
    """Return the partition that a Produce request names, by the topic's name or (in newer versions) by its id."""
    state = context.engine.state
    topic = state.topic_by_id(topic_id) if context.api_version >= _TOPIC_IDS_FROM else state.topic(name)
    if not 0 <= index < len(topic.partitions):
        raise errors.UnknownTopicOrPartitionError(f"there is no partition {topic.name}-{index}")
    return topic.partitions[index]


def ask_for_partitions(context: RequestContext, request: ProduceRequest) -> Refused:
    """Return the partitions of a Produce request that the coordinator refuses, with their errors."""
    assert request.transactional_id is not None
    asked: list[Partition] = []
    producers: set[tuple[int, int]] = set()
    adds = context.api_version >= PRODUCE_ADDS_FROM
    for topic in request.topic_data:
        for data in topic.partition_data:
            header = transactional_header(data.records)
            if header is None:
                continue
            producer = header.producer_id, header.producer_epoch
            producers.add(producer)
            try:
                partition = written_partition(context, topic.name, topic.topic_id, data.index)
                errors.raise_for_code(context.fault_code(partition.topic.name, partition.index))
                check_leader(context, partition, -1)
            except errors.BrokerError:
                # The append reports this error.
                continue
            if partition.log.producers.begin_verification(*producer, header.base_sequence, from_zero=adds):
                asked.append(partition)
    if not asked:
        return {}
    if len(producers) > 1:
        error = errors.InvalidProducerIdMappingError("Transactional records contained more than one producer ID")
        return dict.fromkeys(asked, error)
    return _ask_for_partitions(context, request.transactional_id, *producers.pop(), asked, adds=adds)


def _ask_for_partitions(
    context: RequestContext,
    transactional_id: str,
    producer_id: int,
    epoch: int,
    partitions: Iterable[Partition],
    *,
    adds: bool,
) -> Refused:
    """Ask the coordinator whether the partitions belong to the transaction. Return those that must not be written.

    With ``adds``, the coordinator adds them instead (KIP-890). The errors are those that a Produce response contains.
    """
    transactions = context.engine.transactions
    try:
        _check_coordinator_lives(context, transactional_id)
        if adds:
            transactions.add(transactional_id, producer_id, epoch, partitions)
            return {}
        present = transactions.verified(transactional_id, producer_id, epoch).partitions
    except (errors.CoordinatorNotAvailableError, errors.ConcurrentTransactionsError) as error:
        if adds and isinstance(error, errors.ConcurrentTransactionsError):
            return dict.fromkeys(partitions, error)
        # Older clients retry after this error.
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {error}"
        return dict.fromkeys(partitions, errors.NotEnoughReplicasError(message))
    except errors.ProducerFencedError as error:
        return dict.fromkeys(partitions, errors.InvalidProducerEpochError(error.message))
    except errors.BrokerError as error:
        return dict.fromkeys(partitions, error)
    abortable = context.api_version >= _PRODUCE_ABORTABLE_FROM
    kind = errors.TransactionAbortableError if abortable else errors.InvalidTxnStateError
    return {
        partition: kind(f"{partition.topic.name}-{partition.index} is not part of {transactional_id}'s transaction")
        for partition in partitions
        if partition not in present
    }


def ask_for_group(context: RequestContext, transactional_id: str, producer_id: int, epoch: int, group_id: str) -> None:
    """Raise an error unless the producer may commit offsets of this group in its transaction.

    From TxnOffsetCommit 5 on, the coordinator adds the group to the transaction. Before, the group must have been
    added.
    """
    if context.engine.groups.offsets.is_open(producer_id, epoch, group_id):
        return
    transactions = context.engine.transactions
    _check_coordinator_lives(context, transactional_id)
    try:
        if context.api_version >= _COMMIT_ADDS_FROM:
            transactions.add(transactional_id, producer_id, epoch, groups=[group_id])
        elif group_id not in transactions.verified(transactional_id, producer_id, epoch).groups:
            abortable = context.api_version >= _COMMIT_ABORTABLE_FROM
            kind = errors.TransactionAbortableError if abortable else errors.InvalidTxnStateError
            raise kind(f"group {group_id} is not part of {transactional_id}'s transaction")
    except errors.ProducerFencedError as error:
        raise errors.InvalidProducerEpochError(error.message) from None


def _check_coordinator_lives(context: RequestContext, transactional_id: str) -> None:
    state = context.engine.state
    if not state.is_registered(state.coordinators.of(TRANSACTION, transactional_id)):
        raise errors.CoordinatorNotAvailableError(f"no broker coordinates {transactional_id}")
