"""Requests that reach a coordinator before it has written the previous transaction's markers.

It answers that it is busy, to any request and for any producer id (KAFKA-18660).
"""

from __future__ import annotations

import anyio
import pytest

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead.errors import TransactionAbortedError, UnknownServerError
from aiokafka_lead.testing import EmbeddedCluster

from .support import ID, committed, transactional

pytestmark = pytest.mark.anyio

LAST_EPOCH = 32_766


async def write(producer: Producer, value: bytes) -> None:
    """Write one record in a transaction."""
    async with producer.transaction() as txn:
        await txn.send("events", value, partition=0)


@pytest.mark.parametrize("rotated", [False, True], ids=["same id", "another id"])
@pytest.mark.parametrize("ends", ["commit", "abort"])
async def test_all_of_it_waits(cluster: EmbeddedCluster, transaction_version: int, ends: str, rotated: bool) -> None:
    """Even with the next producer id after the epochs are used up, which the coordinator does not know yet."""
    if rotated:
        async with transactional(cluster):
            cluster.transactions.use_epochs_up_to(ID, LAST_EPOCH - 1)
    cluster.transactions.marker_delay_ms = None
    async with transactional(cluster) as producer, anyio.create_task_group() as tasks:
        with anyio.fail_after(20):
            await write(producer, b"a")
            # Its answer about the completion of the transaction does not delay the next transaction either.
            cluster.faults.add("DescribeTransactions", error_code=UnknownServerError, count=1)
            await producer.begin_transaction()
            delivery = producer.send_nowait("events", b"b", partition=0)
            first = "Produce" if transaction_version == 2 else "AddPartitionsToTxn"
            await cluster.requests.wait_for(first, count=3)
            if ends == "commit":
                tasks.start_soon(_with_offsets, producer)
                await cluster.requests.wait_for(
                    "TxnOffsetCommit" if transaction_version == 2 else "AddOffsetsToTxn", count=2
                )
            else:
                tasks.start_soon(producer.abort_transaction)
                if transaction_version == 2:
                    await cluster.requests.wait_for("EndTxn", count=3)
            cluster.transactions.marker_delay_ms = 0
            cluster.transactions.write_markers()
            if ends == "commit":
                await delivery
            else:
                with pytest.raises(TransactionAbortedError):
                    await delivery
    async with transactional(cluster) as producer:
        await write(producer, b"c")
    values = [b"a", b"b", b"c"] if ends == "commit" else [b"a", b"c"]
    assert await committed(cluster) == {0: values, 1: [], 2: []}


async def _with_offsets(producer: Producer) -> None:
    await producer.send_offsets_to_transaction({TopicPartition("events", 0): 1}, "group")
    await producer.commit_transaction()
