"""Transactions that no coordinator will end (KIP-664; Java: ``TransactionsCommand.FindHangingTransactionsCommand``)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from .._core.admin import successes
from .._io.deadline import Deadline
from .._options.checks import integer, milliseconds, optional
from ..errors import ConfigError, TransactionalIdNotFoundError
from ..types import TopicPartition
from .base import PARTITIONS, TOPICS, outcomes_of
from .topics import TopicCalls
from .transactions import ProducerState, TransactionCalls

__all__ = ["HangingTransaction"]

_PARTITIONS_AT_ONCE = 500
_BROKER = optional(integer(0))


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition though no coordinator will end it (KIP-664).

    Consumers of committed records cannot read past it. `AdminClient.abort_transaction` ends it.
    """

    partition: TopicPartition
    producer: ProducerState
    start_offset: int


class HangingTransactionCalls(TopicCalls, TransactionCalls):
    """Transactions that no coordinator will end."""

    async def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: float = 900_000,
        timeout_ms: float | None = None,
    ) -> list[HangingTransaction]:
        """Find transactions that no coordinator will end, and that block consumers of committed records (KIP-664).

        The search covers topics, partitions, or all replicas of a broker; give at least one of the three. Only
        transactions last written to longer ago than ``max_transaction_timeout_ms`` (the brokers'
        transaction.max.timeout.ms) can hang.
        """
        names = TOPICS("topics", topics)
        wanted = PARTITIONS("partitions", partitions)
        broker = _BROKER("broker_id", broker_id)
        age = milliseconds()("max_transaction_timeout_ms", max_transaction_timeout_ms)
        deadline = self._calls.deadline(timeout_ms)
        if names is None and wanted is None and broker is None:
            raise ConfigError("topics, partitions or broker_id is needed: to search everything takes long")
        old = await self._open_since(await self._searched(names, wanted, broker, deadline), broker, age, deadline)
        hanging = await self._without_coordinator(old, deadline) if old else []
        if not hanging:
            return []
        # A transaction may have ended between the two questions: a hanging one is still open.
        again = await self._open_since({found.partition for found in hanging}, broker, 0, deadline)
        still = {(found.partition, found.producer.producer_id, found.start_offset) for found in again}
        return [
            found for found in hanging if (found.partition, found.producer.producer_id, found.start_offset) in still
        ]

    async def _without_coordinator(
        self, old: Iterable[HangingTransaction], deadline: Deadline
    ) -> list[HangingTransaction]:
        """Return the transactions that no coordinator counts among its open ones."""
        producer_ids = {found.producer.producer_id for found in old}
        listed = await self._list_transactions(None, producer_ids, None, None, deadline)
        names = {listing.producer_id: name for name, listing in listed.items()}
        outcomes = await outcomes_of(self._describe_transactions(names.values(), deadline))
        described = successes(
            {name: found for name, found in outcomes.items() if not isinstance(found, TransactionalIdNotFoundError)}
        )
        hanging = []
        for found in old:
            description = described.get(names.get(found.producer.producer_id, ""))
            if description is None or found.partition not in description.partitions:
                hanging.append(found)
        return hanging

    async def _searched(
        self,
        topics: Collection[str] | None,
        partitions: Collection[TopicPartition] | None,
        broker: int | None,
        deadline: Deadline,
    ) -> list[TopicPartition]:
        found = list(partitions or ())
        if topics is None and partitions is not None:
            return found
        described = await self._describe_topics(topics, deadline)
        found += [
            TopicPartition(name, partition.partition)
            for name, topic in described.items()
            for partition in topic.partitions
            if broker is None or broker in partition.replicas
        ]
        return list(dict.fromkeys(found))

    async def _open_since(
        self, partitions: Iterable[TopicPartition], broker: int | None, age_ms: float, deadline: Deadline
    ) -> list[HangingTransaction]:
        """Return open transactions that were last written to longer ago than ``age_ms``."""
        everything: Sequence[TopicPartition] = sorted(partitions)
        found: list[HangingTransaction] = []
        for first in range(0, len(everything), _PARTITIONS_AT_ONCE):
            batch = everything[first : first + _PARTITIONS_AT_ONCE]
            states = await self._describe_producers(batch, broker, deadline)
            now_ms = time.time() * 1000
            found += [
                HangingTransaction(where, producer, producer.transaction_start_offset)
                for where, producers in states.items()
                for producer in producers
                if producer.transaction_start_offset is not None and now_ms - producer.last_timestamp_ms > age_ms
            ]
        return found
