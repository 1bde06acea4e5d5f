"""Transactions as the admin client describes and ends them, on real Kafka."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.admin import TransactionState
from aiokafka_lead.errors import InvalidProducerEpochError, TransactionalIdNotFoundError

from .harness import KafkaCluster
from .probes import World
from .transaction_probes import open_transaction

pytestmark = pytest.mark.anyio


async def test_transactions_are_described_fenced_and_aborted(
    kafka: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    world = World(kafka.bootstrap())
    topic = topic_name()
    where = TopicPartition(topic, 0)
    leader, _, _ = await world.topic(topic)
    txn, epoch = await open_transaction(world, topic, leader)
    name = txn.transactional_id
    async with AdminClient(kafka.bootstrap()) as admin:
        listed = await admin.list_transactions(
            states=[TransactionState.ONGOING],
            producer_ids=[txn.producer_id],
            longer_than_ms=0,
            transactional_id_pattern="probe.*",
        )
        assert [(each.transactional_id, each.coordinator_id) for each in listed.values()] == [(name, txn.broker)]
        described = (await admin.describe_transactions([name]))[name]
        assert (described.state, described.partitions) == (TransactionState.ONGOING, frozenset({where}))
        assert (described.producer_id, described.producer_epoch) == (txn.producer_id, epoch)
        with pytest.raises(TransactionalIdNotFoundError):
            await admin.describe_transactions([world.name("-nobody")])
        [producer] = (await admin.describe_producers([where]))[where]
        assert (producer.producer_id, producer.transaction_start_offset) == (txn.producer_id, 0)
        # Its coordinator knows it: it does not hang.
        assert await admin.find_hanging_transactions([topic], max_transaction_timeout_ms=0) == []
        await admin.abort_transaction(where, start_offset=0)
        [producer] = (await admin.describe_producers([where]))[where]
        assert producer.transaction_start_offset is None
        with pytest.raises(InvalidProducerEpochError):
            await admin.abort_transaction(where, producer_id=txn.producer_id, producer_epoch=0, coordinator_epoch=9)
        # The coordinator takes records written to the partition now for a part of the open transaction.
        fenced = (await admin.fence_producers([name]))[name]
        assert fenced == (txn.producer_id, epoch + 2)
        with anyio.fail_after(30):
            assert await txn.write(topic, leader, epoch, 1, version=12) == InvalidProducerEpochError.code
