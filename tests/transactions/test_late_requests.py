"""A request that a slow network delivers after the producer has given it up affects no other transaction.

KAFKA-17754, found by Jepsen: a late EndTxn ends a later transaction of the same epoch. With KIP-890 each transaction
has its own epoch. Without it, the producer abandons an epoch in which an answer was lost.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiokafka_lead import TopicPartition
from aiokafka_lead._wire import ApiKey
from aiokafka_lead.testing import EmbeddedCluster
from tests.kafka.cut_proxy import CutProxy

from .support import ID, committed, transactional

pytestmark = pytest.mark.anyio


@pytest.fixture
def proxy(cluster: EmbeddedCluster) -> Iterator[CutProxy]:
    """The slow network between the cluster and the producer."""
    with CutProxy(cluster.bootstrap_servers) as way:
        yield way


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
async def test_a_late_end_does_not_end_another_transaction(
    cluster: EmbeddedCluster, proxy: CutProxy, commits: bool
) -> None:
    async with transactional(cluster, bootstrap_servers=proxy.bootstrap) as producer:
        proxy.hold(ApiKey.END_TXN)
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"a", partition=0)
        await (producer.commit_transaction if commits else producer.abort_transaction)()
        await producer.begin_transaction()
        await producer.send_and_wait("events", b"b", partition=0)
        proxy.release()
        await cluster.requests.wait_for("EndTxn", count=2)
        await producer.send_and_wait("events", b"c", partition=0)
        view = cluster.transactions.view(ID)
        assert view is not None
        assert view.state == "Ongoing"
        await (producer.abort_transaction if commits else producer.commit_transaction)()
    assert await committed(cluster) == {0: [b"a"] if commits else [b"b", b"c"], 1: [], 2: []}


@pytest.mark.parametrize("transaction_version", [1])
@pytest.mark.parametrize(
    ("api", "name"),
    [(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn"), (ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn")],
)
async def test_a_late_addition_opens_no_transaction(
    cluster: EmbeddedCluster, proxy: CutProxy, api: ApiKey, name: str
) -> None:
    async with transactional(cluster, bootstrap_servers=proxy.bootstrap) as producer:
        proxy.hold(api)
        async with producer.transaction() as txn:
            await txn.send("events", b"a", partition=0)
            await txn.send_offsets({TopicPartition("events", 0): 1}, "group")
        async with producer.transaction() as txn:
            await txn.send("events", b"b", partition=1)
        before = cluster.requests.count(name)
        proxy.release()
        await cluster.requests.wait_for(name, count=before + 1)
        view = cluster.transactions.view(ID)
        assert view is not None
        assert view.state == "CompleteCommit"
    assert await committed(cluster) == {0: [b"a"], 1: [b"b"], 2: []}
