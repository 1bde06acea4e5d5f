"""Transactions and producers: what there is, and how an operator ends it (KIP-664, KIP-360)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from .._io.deadline import Deadline
from .._io.group.coordinators import CoordinatorKind
from .._wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from .._wire.messages.describe_producers import ProducerState as WireProducer
from .._wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from .._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from .._wire.messages.list_transactions import ListTransactionsRequest
from .._wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..errors import KafkaError, TransactionalIdNotFoundError
from ..types import TopicPartition
from ._calls import BY_ANYONE, Calls, failure, outcome
from ._partitions import by_topic
from .types import FencedProducer, ProducerState, TransactionDescription, TransactionListing, TransactionState

V = TypeVar("V")

_TRANSACTION_TIMEOUT_MS = 60_000
"""Of a transactional id whose producers are fenced, until its next producer says another."""


async def list_all(
    calls: Calls,
    states: Collection[TransactionState] | None,
    producer_ids: Collection[int] | None,
    longer_than_ms: float | None,
    pattern: str | None,
    deadline: Deadline,
) -> dict[str, TransactionListing]:
    """Every transactional id that passes all of the filters; each broker tells those that it coordinates."""

    def build() -> ListTransactionsRequest:
        return ListTransactionsRequest(
            state_filters=[state.value for state in states or ()],
            producer_id_filters=list(producer_ids or ()),
            duration_filter=-1 if longer_than_ms is None else int(longer_than_ms),
            transactional_id_pattern=pattern,
        )

    answers = await calls.by_broker(build, deadline)
    return {
        listed.transactional_id: TransactionListing(
            listed.transactional_id, TransactionState(listed.transaction_state), listed.producer_id, broker
        )
        for broker, answer in answers.items()
        for listed in answer.transaction_states
    }


async def describe(
    calls: Calls, transactional_ids: Iterable[str], deadline: Deadline
) -> dict[str, TransactionDescription]:
    """Each transactional id as its coordinator knows it."""
    return await _describe(calls, transactional_ids, _description, deadline)


async def describe_known(
    calls: Calls, transactional_ids: Iterable[str], deadline: Deadline
) -> dict[str, TransactionDescription]:
    """The same, without those that are not known any more."""
    found = await _describe(calls, transactional_ids, _description_if_known, deadline)
    return {name: description for name, description in found.items() if description is not None}


async def _describe(
    calls: Calls,
    transactional_ids: Iterable[str],
    read: Callable[[str, int, DescribeTransactionsResponse], V | KafkaError],
    deadline: Deadline,
) -> dict[str, V]:
    return await calls.by_coordinator(
        CoordinatorKind.TRANSACTION,
        transactional_ids,
        lambda transactional_id: DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        read,
        deadline,
    )


def _description(
    transactional_id: str, coordinator: int, response: DescribeTransactionsResponse
) -> TransactionDescription | KafkaError:
    for found in response.transaction_states:
        if found.transactional_id == transactional_id:
            break
    else:
        return KafkaError(f"{transactional_id}: the broker's answer does not speak of it")
    partitions = frozenset(
        TopicPartition(data.topic, partition) for data in found.topics for partition in data.partitions
    )
    start_ms = found.transaction_start_time_ms
    description = TransactionDescription(
        transactional_id,
        TransactionState(found.transaction_state),
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        start_ms if start_ms >= 0 else None,
        partitions,
        coordinator,
    )
    return outcome(description, found.error_code, transactional_id)


def _description_if_known(
    transactional_id: str, coordinator: int, response: DescribeTransactionsResponse
) -> TransactionDescription | KafkaError | None:
    found = _description(transactional_id, coordinator, response)
    return None if isinstance(found, TransactionalIdNotFoundError) else found


async def describe_producers(
    calls: Calls, partitions: Iterable[TopicPartition], broker: int | None, deadline: Deadline
) -> dict[TopicPartition, tuple[ProducerState, ...]]:
    """The producers of each partition, by its leader or by a broker that has a replica."""

    def build(pending: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
        topics = by_topic(
            pending,
            lambda partition, _: partition,
            lambda name, indexes: TopicRequest(name=name, partition_indexes=indexes),
        )
        return DescribeProducersRequest(topics=topics)

    items = dict.fromkeys(partitions)
    if broker is None:
        return await calls.by_leader(items, build, _producers, deadline)
    return await calls.batch(items, broker, build, _producers, deadline, BY_ANYONE)


def _producers(
    response: DescribeProducersResponse,
) -> Iterator[tuple[TopicPartition, tuple[ProducerState, ...] | KafkaError]]:
    for topic in response.topics:
        for entry in topic.partitions:
            where = TopicPartition(topic.name, entry.partition_index)
            producers = tuple(map(_producer, entry.active_producers))
            yield where, outcome(producers, entry.error_code, str(where), entry.error_message)


def _producer(entry: WireProducer) -> ProducerState:
    return ProducerState(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_timestamp,
        entry.coordinator_epoch if entry.coordinator_epoch >= 0 else None,
        entry.current_txn_start_offset if entry.current_txn_start_offset >= 0 else None,
    )


async def abort_at(calls: Calls, where: TopicPartition, start_offset: int, deadline: Deadline) -> None:
    """Abort the transaction that begins at an offset of a partition."""
    producers = (await describe_producers(calls, [where], None, deadline))[where]
    for producer in producers:
        if producer.transaction_start_offset == start_offset:
            # No coordinator has ended a transaction here so far: epoch 0 is none that another one could have passed.
            epoch = producer.coordinator_epoch or 0
            await abort(calls, where, producer.producer_id, producer.producer_epoch, epoch, deadline)
            return
    raise KafkaError(f"{where}: no transaction that is open begins at offset {start_offset}")


async def abort(
    calls: Calls,
    where: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    deadline: Deadline,
) -> None:
    """Write the marker of an abort, as the coordinator would."""

    def build(pending: Mapping[TopicPartition, None]) -> WriteTxnMarkersRequest:
        topics = by_topic(
            pending,
            lambda partition, _: partition,
            lambda name, indexes: WritableTxnMarkerTopic(name=name, partition_indexes=indexes),
        )
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_result=False,
            topics=topics,
            coordinator_epoch=coordinator_epoch,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def read(response: WriteTxnMarkersResponse) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
        for marker in response.markers:
            for topic in marker.topics:
                for entry in topic.partitions:
                    partition = TopicPartition(topic.name, entry.partition_index)
                    yield partition, outcome(None, entry.error_code, str(partition))

    await calls.by_leader({where: None}, build, read, deadline)


async def fence(calls: Calls, transactional_ids: Iterable[str], deadline: Deadline) -> dict[str, FencedProducer]:
    """Take each transactional id: its producers are refused from then on, and an open transaction is aborted."""
    return await calls.by_coordinator(
        CoordinatorKind.TRANSACTION,
        transactional_ids,
        lambda transactional_id: InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
        ),
        _fenced,
        deadline,
    )


def _fenced(transactional_id: str, _: int, response: InitProducerIdResponse) -> FencedProducer | KafkaError:
    if response.error_code:
        return failure(response.error_code, transactional_id)
    return FencedProducer(response.producer_id, response.producer_epoch)
