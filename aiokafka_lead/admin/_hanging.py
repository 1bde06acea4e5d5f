"""Transactions that nobody will end (KIP-664; Java: ``TransactionsCommand.FindHangingTransactionsCommand``)."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence

from .._io.deadline import Deadline
from ..types import TopicPartition
from . import _topics, _transactions
from ._calls import Calls
from .types import HangingTransaction

_PARTITIONS_AT_ONCE = 500


async def find(
    calls: Calls,
    topics: Collection[str] | None,
    partitions: Collection[TopicPartition] | None,
    broker: int | None,
    max_transaction_timeout_ms: float,
    deadline: Deadline,
) -> list[HangingTransaction]:
    """Transactions older than any timeout, of partitions that no coordinator counts among its open ones."""
    searched = await _searched(calls, topics, partitions, broker, deadline)
    old = await _open_since(calls, searched, broker, max_transaction_timeout_ms, deadline)
    if not old:
        return []
    producer_ids = {found.producer.producer_id for found in old}
    listed = await _transactions.list_all(calls, None, producer_ids, None, None, deadline)
    names = {listing.producer_id: name for name, listing in listed.items()}
    described = await _transactions.describe_known(calls, names.values(), deadline)
    hanging = []
    for found in old:
        description = described.get(names.get(found.producer.producer_id, ""))
        if description is None or found.partition not in description.partitions:
            hanging.append(found)
    if not hanging:
        return []
    # A transaction may have ended between the two questions: what hangs is still there.
    again = await _open_since(calls, {found.partition for found in hanging}, broker, 0, deadline)
    still = {(found.partition, found.producer.producer_id, found.start_offset) for found in again}
    return [found for found in hanging if (found.partition, found.producer.producer_id, found.start_offset) in still]


async def _searched(
    calls: Calls,
    topics: Collection[str] | None,
    partitions: Collection[TopicPartition] | None,
    broker: int | None,
    deadline: Deadline,
) -> list[TopicPartition]:
    found = list(partitions or ())
    if topics is None and partitions is not None:
        return found
    described = await _topics.describe(calls, topics, deadline)
    found += [
        TopicPartition(name, partition.partition)
        for name, topic in described.items()
        for partition in topic.partitions
        if broker is None or broker in partition.replicas
    ]
    return list(dict.fromkeys(found))


async def _open_since(
    calls: Calls, partitions: Iterable[TopicPartition], broker: int | None, age_ms: float, deadline: Deadline
) -> list[HangingTransaction]:
    """What is open, and was last written to longer ago than ``age_ms``."""
    everything: Sequence[TopicPartition] = sorted(partitions)
    found: list[HangingTransaction] = []
    for first in range(0, len(everything), _PARTITIONS_AT_ONCE):
        batch = everything[first : first + _PARTITIONS_AT_ONCE]
        states = await _transactions.describe_producers(calls, batch, broker, deadline)
        now_ms = time.time() * 1000
        found += [
            HangingTransaction(where, producer, producer.transaction_start_offset)
            for where, producers in states.items()
            for producer in producers
            if producer.transaction_start_offset is not None and now_ms - producer.last_timestamp_ms > age_ms
        ]
    return found
