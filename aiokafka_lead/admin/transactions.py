"""Transactions and their producers (KIP-664, KIP-360)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from .._core.admin import BY_ANYONE, failure, outcome
from .._io.deadline import Deadline
from .._io.group.coordinators import CoordinatorKind
from .._options.arguments import list_of, topic_partition
from .._options.checks import INT16_MAX, INT64_MAX, instance, integer, milliseconds, optional, text
from .._values import NamedTuple
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
from ..errors import ConfigError, KafkaError
from ..types import TopicPartition
from .base import NAMED_PARTITIONS, AdminArea, indexes_by_topic

_TRANSACTION_TIMEOUT_MS = 60_000
"""Timeout of a transactional id after its producers were fenced, until its next producer sets another timeout."""


class TransactionState(StrEnum):
    """State of a transactional id at its coordinator. The values are Kafka's names."""

    EMPTY = "Empty"
    """No transaction has begun since the producer was initialized."""
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    """The commit is decided; the markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    """The transactional id has expired."""
    UNKNOWN = "Unknown"
    """A state that this client does not know."""

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id and its coordinator, as returned by `AdminClient.list_transactions`."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id and its open or latest transaction, as returned by `AdminClient.describe_transactions`."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    """Time after which the coordinator aborts an open transaction, in milliseconds."""
    start_time_ms: int | None
    """Time at which the transaction began, in milliseconds since 1970. None if there was none."""
    partitions: frozenset[TopicPartition]
    """Partitions of the open transaction. While it is being ended, only the partitions that still lack its marker."""
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """State of a producer, as kept by the leader of a partition that it has written to."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1 if the producer has written no record in this epoch."""
    last_timestamp_ms: int
    """Timestamp of the producer's last batch, in milliseconds since 1970, or -1."""
    coordinator_epoch: int | None
    """Epoch of the coordinator that last ended a transaction of the producer here. None before the first transaction.
    """
    transaction_start_offset: int | None
    """Start offset of the producer's open transaction; None if no transaction is open."""


class FencedProducer(NamedTuple):
    """The producer id and the epoch of a transactional id after its producers were fenced."""

    producer_id: int
    producer_epoch: int


_TRANSACTIONAL_IDS = list_of("transactional ids", text)
_STATES = optional(list_of("TransactionState", instance(TransactionState, "a TransactionState")))
_PRODUCER_ID = integer(0, INT64_MAX)
_PRODUCER_IDS = optional(list_of("producer ids", _PRODUCER_ID))
_PRODUCER_ID = optional(_PRODUCER_ID)
_PRODUCER_EPOCH = optional(integer(0, INT16_MAX))
_COORDINATOR_EPOCH = integer(0)
_START_OFFSET = optional(integer(0, INT64_MAX))
_DURATION = optional(milliseconds())
_PATTERN = optional(text)
BROKER = optional(integer(0))


class TransactionCalls(AdminArea):
    """Admin calls for transactions and their producers."""

    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] | None = None,
        producer_ids: Iterable[int] | None = None,
        longer_than_ms: float | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> dict[str, TransactionListing]:
        """Return the `TransactionListing` of each transactional id that matches all filters (KIP-664).

        Needs Kafka 3.0. A filter that is None matches all ids. ``longer_than_ms`` selects ids whose latest transaction
        began longer ago than this (KIP-994, Kafka 3.8). ``transactional_id_pattern`` is an RE2 regular expression that
        must match the whole id (KIP-1152, Kafka 4.1).

        Raises `UnsupportedVersionError` if a broker is too old for a filter. If a broker fails, the error's
        ``outcomes`` contain the ids that other brokers have listed, and the error of each failed broker by its id.
        """
        in_states = _STATES("states", states)
        ids = _PRODUCER_IDS("producer_ids", producer_ids)
        duration = _DURATION("longer_than_ms", longer_than_ms)
        pattern = _PATTERN("transactional_id_pattern", transactional_id_pattern)
        deadline = self._calls.deadline(timeout_ms)
        return await self._list_transactions(in_states, ids, duration, pattern, deadline)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Return the state, producer, timeout and partitions of each transactional id (KIP-664).

        Raises `TransactionalIdNotFoundError` if an id does not exist or has expired. The error's ``outcomes`` contain
        the descriptions of the other ids.
        """
        ids = _TRANSACTIONAL_IDS("transactional_ids", transactional_ids)
        deadline = self._calls.deadline(timeout_ms)
        return await self._describe_transactions(ids, deadline)

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the producers that have written to each partition (KIP-664).

        The information comes from the leader of each partition, or from its replica on ``broker_id``. Brokers forget a
        producer that has not written for ``producer.id.expiration.ms``.

        Raises `UnknownTopicOrPartitionError` if a partition does not exist, `NotLeaderOrFollowerError` if ``broker_id``
        has no replica of it, and `BrokerIdNotRegisteredError` if no broker has this id.
        """
        wanted = NAMED_PARTITIONS("partitions", partitions)
        broker = BROKER("broker_id", broker_id)
        deadline = self._calls.deadline(timeout_ms)
        return await self._describe_producers(wanted, broker, deadline)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int = 0,
        timeout_ms: float | None = None,
    ) -> None:
        """Abort a hanging transaction in one partition, without its coordinator (KIP-664).

            for found in await admin.find_hanging_transactions(["events"]):
                await admin.abort_transaction(found.partition, start_offset=found.start_offset)

        Never abort a transaction that a producer is still using. Identify the transaction by its ``start_offset``, or
        by the ``producer_id``, ``producer_epoch`` and ``coordinator_epoch`` from `describe_producers` (0 if it reports
        None).

        Raises `KafkaError` if no open transaction begins at the offset, `InvalidProducerEpochError` or
        `TransactionCoordinatorFencedError` if the partition has a newer epoch, and `ClusterAuthorizationFailedError` if
        this user lacks permission.
        """
        where = topic_partition("partition", partition)
        offset = _START_OFFSET("start_offset", start_offset)
        number = _PRODUCER_ID("producer_id", producer_id)
        epoch = _PRODUCER_EPOCH("producer_epoch", producer_epoch)
        coordinator = _COORDINATOR_EPOCH("coordinator_epoch", coordinator_epoch)
        deadline = self._calls.deadline(timeout_ms)
        if offset is not None:
            if number is not None or epoch is not None:
                raise ConfigError("start_offset cannot be combined with producer_id or producer_epoch")
            await self._abort_at(where, offset, deadline)
            return
        if number is None or epoch is None:
            raise ConfigError("start_offset, or both producer_id and producer_epoch, must be given")
        await self._abort(where, number, epoch, coordinator, deadline)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fence the producers that use these transactional ids, and abort their open transactions.

        Returns the producer id and the new epoch of each transactional id. The fenced producers then raise
        `ProducerFencedError`. Producers that start after this call are not fenced.

        Raises `TransactionalIdAuthorizationFailedError` if this user lacks permission. The producers of the other ids
        are still fenced, and the error's ``outcomes`` contain their epochs.
        """
        ids = _TRANSACTIONAL_IDS("transactional_ids", transactional_ids)
        deadline = self._calls.deadline(timeout_ms)
        return await self._calls.by_coordinator(
            CoordinatorKind.TRANSACTION,
            ids,
            lambda transactional_id: InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
            ),
            _fenced,
            deadline,
        )

    async def _list_transactions(
        self,
        states: Collection[TransactionState] | None,
        producer_ids: Collection[int] | None,
        longer_than_ms: float | None,
        pattern: str | None,
        deadline: Deadline,
    ) -> dict[str, TransactionListing]:
        """Return every transactional id that matches all filters.

        Each broker lists the ids that it coordinates.
        """

        def build() -> ListTransactionsRequest:
            return ListTransactionsRequest(
                state_filters=[state.value for state in states or ()],
                producer_id_filters=list(producer_ids or ()),
                duration_filter=-1 if longer_than_ms is None else int(longer_than_ms),
                transactional_id_pattern=pattern,
            )

        answers, failed = await self._calls.by_broker(build, deadline)
        found = {
            listed.transactional_id: TransactionListing(
                listed.transactional_id, TransactionState(listed.transaction_state), listed.producer_id, broker
            )
            for broker, answer in answers.items()
            for listed in answer.transaction_states
        }
        if failed is not None:
            failed.outcomes = {**found, **(failed.outcomes or {})}
            raise failed
        return found

    async def _describe_transactions(
        self, transactional_ids: Iterable[str], deadline: Deadline
    ) -> dict[str, TransactionDescription]:
        """Return each transactional id as described by its coordinator."""
        return await self._calls.by_coordinator(
            CoordinatorKind.TRANSACTION,
            transactional_ids,
            lambda transactional_id: DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            _description,
            deadline,
        )

    async def _describe_producers(
        self, partitions: Iterable[TopicPartition], broker: int | None, deadline: Deadline
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the producers of each partition, from its leader or from its replica on a given broker."""

        def build(pending: Mapping[TopicPartition, None]) -> DescribeProducersRequest:
            topics = indexes_by_topic(
                pending,
                lambda name, indexes: TopicRequest(name=name, partition_indexes=indexes),
            )
            return DescribeProducersRequest(topics=topics)

        items = dict.fromkeys(partitions)
        if broker is None:
            return await self._calls.by_leader(items, build, _producers, deadline)
        return await self._calls.batch(items, broker, build, _producers, deadline, BY_ANYONE)

    async def _abort_at(self, where: TopicPartition, start_offset: int, deadline: Deadline) -> None:
        """Abort the transaction that begins at an offset of a partition."""
        producers = (await self._describe_producers([where], None, deadline))[where]
        for producer in producers:
            if producer.transaction_start_offset == start_offset:
                # Without an epoch, no coordinator has ended a transaction here, so the partition accepts epoch 0.
                epoch = producer.coordinator_epoch or 0
                await self._abort(where, producer.producer_id, producer.producer_epoch, epoch, deadline)
                return
        raise KafkaError(f"{where}: no open transaction begins at offset {start_offset}")

    async def _abort(
        self,
        where: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        deadline: Deadline,
    ) -> None:
        """Write an abort marker, as the coordinator would."""

        def build(pending: Mapping[TopicPartition, None]) -> WriteTxnMarkersRequest:
            topics = indexes_by_topic(
                pending,
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

        await self._calls.by_leader({where: None}, build, read, deadline)


def _description(
    transactional_id: str, coordinator: int, response: DescribeTransactionsResponse
) -> TransactionDescription | KafkaError:
    """Return the description of a transaction, or the error that the coordinator reports instead."""
    for found in response.transaction_states:
        if found.transactional_id == transactional_id:
            break
    else:
        return KafkaError(f"{transactional_id}: the broker's response does not contain this transactional id")
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


def _fenced(transactional_id: str, _: int, response: InitProducerIdResponse) -> FencedProducer | KafkaError:
    if response.error_code:
        return failure(response.error_code, transactional_id)
    return FencedProducer(response.producer_id, response.producer_epoch)
