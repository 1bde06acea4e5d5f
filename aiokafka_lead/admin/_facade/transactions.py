"""Transactions and the producers that write them."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import ConfigError
from ...types import TopicPartition
from .. import _checks, _hanging, _transactions
from ..types import (
    FencedProducer,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from .base import AdminArea


class TransactionCalls(AdminArea):
    """Transactions and the producers that write them."""

    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] | None = None,
        producer_ids: Iterable[int] | None = None,
        longer_than_ms: float | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: float | None = None,
    ) -> dict[str, TransactionListing]:
        """Every transactional id that passes all filters, by id, from all brokers (KIP-664, Kafka 3.0).

        ``longer_than_ms`` passes those whose latest transaction began longer ago (KIP-994, Kafka 3.8);
        ``transactional_id_pattern`` is a regular expression of RE2 for the whole id (KIP-1152, Kafka 4.1). Raises
        `UnsupportedVersionError` where a broker is older than a filter.
        """
        in_states = _checks.STATES("states", states)
        ids = _checks.PRODUCER_IDS("producer_ids", producer_ids)
        duration = _checks.DURATION("longer_than_ms", longer_than_ms)
        pattern = _checks.PATTERN("transactional_id_pattern", transactional_id_pattern)
        deadline = self._calls.deadline(timeout_ms)
        return await _transactions.list_all(self._calls, in_states, ids, duration, pattern, deadline)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Transactional ids by id: state, producer, timeout, and what is part of an open transaction (KIP-664).

        Raises `TransactionalIdNotFoundError`.
        """
        ids = _checks.TRANSACTIONAL_IDS("transactional_ids", transactional_ids)
        return await _transactions.describe(self._calls, ids, self._calls.deadline(timeout_ms))

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        broker_id: int | None = None,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """The producers that wrote to partitions, as their leaders know them, or one broker's replicas (KIP-664)."""
        wanted = _checks.NAMED_PARTITIONS("partitions", partitions)
        broker = _checks.BROKER("broker_id", broker_id)
        deadline = self._calls.deadline(timeout_ms)
        return await _transactions.describe_producers(self._calls, wanted, broker, deadline)

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
        """Abort a transaction that hangs in a partition (KIP-664); its coordinator is not asked.

        Say which: by the offset at which it begins, or by its producer's id and epoch as `describe_producers` tells
        them, with the coordinator's epoch. Needs cluster permission. Raises `InvalidProducerEpochError` or
        `TransactionCoordinatorFencedError` where the partition knows newer epochs, and `KafkaError` where no open
        transaction begins at the offset. Never use it for a transaction that its producer still works at.
        """
        where = _checks.topic_partition("partition", partition)
        offset = _checks.START_OFFSET("start_offset", start_offset)
        number = _checks.PRODUCER_ID("producer_id", producer_id)
        epoch = _checks.PRODUCER_EPOCH("producer_epoch", producer_epoch)
        coordinator = _checks.COORDINATOR_EPOCH("coordinator_epoch", coordinator_epoch)
        deadline = self._calls.deadline(timeout_ms)
        if offset is not None:
            if number is not None or epoch is not None:
                raise ConfigError("start_offset excludes producer_id and producer_epoch")
            await _transactions.abort_at(self._calls, where, offset, deadline)
            return
        if number is None or epoch is None:
            raise ConfigError("start_offset is needed, or producer_id and producer_epoch")
        await _transactions.abort(self._calls, where, number, epoch, coordinator, deadline)

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> dict[str, FencedProducer]:
        """Refuse the producers that write with these transactional ids from now on; what they have open is aborted.

        A producer that starts with one of the ids afterwards is welcome.
        """
        ids = _checks.TRANSACTIONAL_IDS("transactional_ids", transactional_ids)
        return await _transactions.fence(self._calls, ids, self._calls.deadline(timeout_ms))

    async def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: float = 900_000,
        timeout_ms: float | None = None,
    ) -> list[HangingTransaction]:
        """Transactions that nobody will end: they keep consumers of committed records where they begin (KIP-664).

        Searched are topics, partitions, or all replicas of a broker, at least one of the three. Only what was last
        written to longer ago than ``max_transaction_timeout_ms`` (the brokers' transaction.max.timeout.ms) can hang.
        """
        names = None if topics is None else _checks.TOPICS("topics", topics)
        wanted = _checks.PARTITIONS("partitions", partitions)
        broker = _checks.BROKER("broker_id", broker_id)
        age = _checks.milliseconds()("max_transaction_timeout_ms", max_transaction_timeout_ms)
        deadline = self._calls.deadline(timeout_ms)
        if names is None and wanted is None and broker is None:
            raise ConfigError("topics, partitions or broker_id is needed: to search everything takes long")
        return await _hanging.find(self._calls, names, wanted, broker, age, deadline)
