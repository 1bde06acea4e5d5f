"""Brokers other than Apache's, limited to the requests in their documentation: docs/brokers.md has the sources."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer, TopicPartition
from aiokafka_lead._wire.api_key import NAMES
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.errors import UnsupportedVersionError
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio

BASIC = """
    Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat SyncGroup LeaveGroup
    ApiVersions CreateTopics DeleteTopics DescribeConfigs DescribeGroups ListGroups DeleteGroups CreatePartitions
""".split()  # noqa: SIM905 - a list would be a page
TRANSACTIONS = ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"]
TRANSACTIONS += ["DescribeTransactions", "ListTransactions"]
ACLS = ["CreateAcls", "DescribeAcls", "DeleteAcls"]
WARPSTREAM = [*BASIC, *TRANSACTIONS, *ACLS, "OffsetDelete", "AlterConfigs", "DescribeCluster"]
V1 = {"Produce": 11, "AddPartitionsToTxn": 3, "EndTxn": 3, "TxnOffsetCommit": 3, "InitProducerId": 4}


def without_others(apis: Collection[str]) -> dict[Any, int]:
    """Return caps that hide all other APIs; transactions keep the versions before KIP-890."""
    return {**dict.fromkeys((name for name in NAMES.values() if name not in apis), -1), **V1}


@pytest.fixture
async def warpstream() -> AsyncIterator[EmbeddedCluster]:
    caps = without_others(WARPSTREAM)
    async with EmbeddedCluster(brokers=3, max_versions=caps, features={"transaction.version": 0}) as cluster:
        cluster.create_topic("in", partitions=3)
        cluster.create_topic("out", partitions=3)
        yield cluster


async def test_records_groups_and_transactions_with_the_requests_of_warpstream(warpstream: EmbeddedCluster) -> None:
    servers = warpstream.bootstrap_servers
    async with Producer(servers) as producer:
        for number in range(30):
            await producer.send("in", b"%d" % number, partition=number % 3)
    reading: dict[str, Any] = {"group_id": "g", "group_protocol": "auto", "auto_offset_reset": "earliest"}
    reading["enable_auto_commit"] = False
    async with (
        Consumer("in", bootstrap_servers=servers, **reading) as consumer,
        Producer(servers, transactional_id="t") as producer,
    ):
        copied = 0
        with anyio.fail_after(20):
            while copied < 30:
                async with producer.transaction() as txn:
                    for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                        for record in records:
                            await txn.send("out", record.value, partition=tp.partition)
                            copied += 1
                    await txn.send_offsets(consumer)
                warpstream.move_all_leaders()
    values = sorted(int(record.value or b"") for record in warpstream.records("out"))
    assert values == list(range(30))


async def test_administration_with_the_requests_of_warpstream(warpstream: EmbeddedCluster) -> None:
    async with AdminClient(warpstream.bootstrap_servers) as admin:
        await admin.create_topics([NewTopic("new", 2, 1)])
        assert set(await admin.describe_topics(["new"])) == {"new"}
        assert len((await admin.describe_cluster()).brokers) == 3
        with pytest.raises(UnsupportedVersionError, match="DeleteRecords"):
            await admin.delete_records({TopicPartition("in", 0): 1})


async def test_records_and_groups_without_idempotence_and_new_requests() -> None:
    """The set of Event Hubs' Standard tier."""
    async with EmbeddedCluster(brokers=3, max_versions=without_others(BASIC)) as cluster:
        cluster.create_topic("in", partitions=3)
        servers = cluster.bootstrap_servers
        async with (
            Producer(servers, enable_idempotence=False) as producer,
            Consumer("in", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer,
        ):
            seen: list[int] = []
            for number in range(30):
                await producer.send("in", b"%d" % number, partition=number % 3)
            with anyio.fail_after(20):
                while len(seen) < 30:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        seen += [int(record.value or b"") for record in records]
        assert sorted(seen) == list(range(30))
