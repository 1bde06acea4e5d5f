"""Partitions that are revoked while a transaction has records of them."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.errors import CommitFailedError
from aiokafka_lead.testing import EmbeddedCluster

from .support import committed, transactional

pytestmark = pytest.mark.anyio


@pytest.fixture
def transaction_version() -> int:
    """A single version, since consumers do not depend on it."""
    return 2


class Assigned:
    """A listener that sets an event with the first partitions."""

    def __init__(self) -> None:
        self.some = anyio.Event()

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        if partitions:
            self.some.set()


def member(cluster: EmbeddedCluster, listener: object = None) -> Consumer:
    options: dict[str, Any] = {"group_id": "copiers", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    options["heartbeat_interval_ms"] = 200  # members learn of each other soon
    consumer: Consumer = Consumer(bootstrap_servers=cluster.bootstrap_servers, **options)
    consumer.subscribe(["events"], listener=listener)
    return consumer


async def take(consumer: Consumer, count: int) -> list[bytes | None]:
    """Read this many records, and poll again."""
    found: list[bytes | None] = []
    with anyio.fail_after(20):
        while len(found) < count:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found += [record.value for record in records]
        await consumer.getmany()
    return found


async def fill(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(9):
            await producer.send("events", b"%d" % number, partition=number % 3)


async def test_what_nobody_has_committed_cannot_be_once_it_is_taken_away(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    cluster.create_topic("copies", partitions=3)
    heard = Assigned()
    async with member(cluster) as first, transactional(cluster) as producer:
        values = await take(first, 9)
        async with member(cluster, heard) as second:
            with anyio.fail_after(20):
                await heard.some.wait()

            async def copy() -> None:
                async with producer.transaction() as txn:
                    await txn.send_many("copies", values)
                    await txn.send_offsets(first)

            with pytest.raises(CommitFailedError, match="were lost"):
                await copy()
            assert len(await take(second, 1)) > 0
    assert all(values == [] for values in (await committed(cluster, "copies")).values())


async def test_a_rebalance_waits_for_the_transaction(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    cluster.create_topic("copies", partitions=3)
    heard = Assigned()
    async with member(cluster) as first, transactional(cluster) as producer:
        values = await take(first, 9)
        second = member(cluster, heard)
        async with producer.transaction() as txn:
            await txn.send_many("copies", values, partition=0)
            await txn.send_offsets(first)
            syncs = cluster.requests.count("SyncGroup")
            await second.start(wait=False)
            with anyio.fail_after(20):
                await cluster.wait_for_requests("SyncGroup", count=syncs + 2)  # both know the new assignment
            assert not heard.some.is_set()
        with anyio.fail_after(20):
            await heard.some.wait()
        assert await second.getmany(timeout_ms=50) == {}
        await second.stop()
    assert (await committed(cluster, "copies"))[0] == values


async def test_after_a_loss_the_consumer_goes_on_with_what_is_left(cluster: EmbeddedCluster) -> None:
    """Records handed out before are refused until it has read on; after that it can commit again."""
    await fill(cluster)
    cluster.create_topic("copies", partitions=3)
    heard = Assigned()
    async with member(cluster) as first, transactional(cluster) as producer:
        values = await take(first, 9)
        async with member(cluster, heard) as second:
            with anyio.fail_after(20):
                await heard.some.wait()

            async def copy(values: list[bytes | None]) -> None:
                async with producer.transaction() as txn:
                    await txn.send_many("copies", values, partition=0)
                    await txn.send_offsets(first)

            with pytest.raises(CommitFailedError, match="were lost"):
                await copy(values)
            with pytest.raises(CommitFailedError, match="will be delivered again"):
                await copy(values)
            left = 3 * len(first.assignment())
            with pytest.raises(CommitFailedError, match="may have had records of this consumer"):
                await copy(await take(first, left))
            again = await take(first, left)
            await copy(again)
            assert len(await take(second, 9 - left)) == 9 - left
    assert (await committed(cluster, "copies"))[0] == again
