"""The search for transactions that no coordinator will end (KIP-664)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from .._core.admin import successes
from .._io.deadline import Deadline
from .._options.checks import milliseconds
from ..errors import ConfigError, TransactionalIdNotFoundError
from ..types import TopicPartition
from .base import PARTITIONS, TOPICS, outcomes_of
from .topics import TopicCalls
from .transactions import BROKER, ProducerState, TransactionCalls

_PARTITIONS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition although no coordinator will end it (KIP-664).

    Consumers with ``isolation_level="read_committed"`` cannot read past its ``start_offset``.
    `AdminClient.abort_transaction` ends it.
    """

    partition: TopicPartition
    producer: ProducerState
    start_offset: int


class HangingTransactionCalls(TopicCalls, TransactionCalls):
    """Admin calls for transactions that no coordinator will end."""

    async def find_hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: float = 900_000,
        timeout_ms: float | None = None,
    ) -> list[HangingTransaction]:
        """Return the transactions that no coordinator will end (KIP-664, Kafka 3.0).

        Consumers with ``isolation_level="read_committed"`` cannot read past such a transaction. End it with
        `abort_transaction`.

        The call searches the given ``topics``, the given ``partitions``, or all replicas of ``broker_id``; at least one
        of these must be given. With ``broker_id``, the information comes from that broker. A transaction can hang only
        if it has had no write for ``max_transaction_timeout_ms`` (default: 900000). Set this to the brokers'
        ``transaction.max.timeout.ms``. Raises the errors of `describe_producers`.
        """
        names = TOPICS("topics", topics)
        wanted = PARTITIONS("partitions", partitions)
        broker = BROKER("broker_id", broker_id)
        age = milliseconds()("max_transaction_timeout_ms", max_transaction_timeout_ms)
        deadline = self._calls.deadline(timeout_ms)
        if names is None and wanted is None and broker is None:
            raise ConfigError(
                "topics, partitions or broker_id must be given, because a search of the whole cluster takes long"
            )
        old = await self._open_since(await self._searched(names, wanted, broker, deadline), broker, age, deadline)
        hanging = await self._without_coordinator(old, deadline) if old else []
        if not hanging:
            return []
        # A transaction may have ended between the two requests. A hanging transaction is still open.
        again = await self._open_since({found.partition for found in hanging}, broker, 0, deadline)
        still = {(found.partition, found.producer.producer_id, found.start_offset) for found in again}
        return [
            found for found in hanging if (found.partition, found.producer.producer_id, found.start_offset) in still
        ]

    async def _without_coordinator(
        self, old: Iterable[HangingTransaction], deadline: Deadline
    ) -> list[HangingTransaction]:
        """Return the transactions that are not open according to any coordinator."""
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
        """Return open transactions without a write for longer than ``age_ms``."""
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
