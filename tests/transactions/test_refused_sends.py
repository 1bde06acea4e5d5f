"""Sends that fail: some of them forbid the commit, even if the block continues."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer
from aiokafka_lead.errors import (
    BufferFull,
    ConfigError,
    KafkaError,
    MessageTooLargeError,
    RecordSerializationError,
    TransactionAbortedError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import committed, transactional

pytestmark = pytest.mark.anyio

NOTHING: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
LARGE = b"x" * 20_000
SMALL_MEMORY = {"buffer_memory": 50_000, "batch_size": 10_000, "max_request_size": 30_000}


async def is_aborted_for(producer: Producer, error: type[KafkaError]) -> None:
    """Check that the commit reports the open transaction as aborted, with this reason."""
    with pytest.raises(TransactionAbortedError) as caught:
        await producer.commit_transaction()
    assert isinstance(caught.value.__cause__, error)


async def test_one_record_of_many_that_is_too_large_forbids_the_commit(cluster: EmbeddedCluster) -> None:
    async with transactional(cluster, max_request_size=1000) as producer:
        await producer.begin_transaction()
        await producer.send_many("events", [b"one", b"x" * 2000, b"three"], partition=0)
        await is_aborted_for(producer, MessageTooLargeError)
    assert await committed(cluster) == NOTHING


@again_if_late(1_000, 8_000)
async def test_records_of_many_that_found_no_room_forbid_the_commit(time_ms: int, cluster: EmbeddedCluster) -> None:
    cluster.faults.clear()  # from the first attempt
    held = cluster.faults.add("Produce", hold=True)
    async with transactional(cluster, max_block_ms=time_ms, **SMALL_MEMORY) as producer:
        await producer.begin_transaction()
        await producer.send_many("events", [LARGE] * 6, partition=0)
        held.remove()
        await is_aborted_for(producer, BufferFull)
    assert await committed(cluster) == NOTHING


async def test_many_of_which_the_partitioner_refused_some_forbid_the_commit(cluster: EmbeddedCluster) -> None:
    choices = iter([0, 9])
    async with transactional(cluster, partitioner=lambda *_: next(choices)) as producer:
        await producer.begin_transaction()
        outcomes = await (await producer.send_many("events", [b"one", b"two", b"three"]))
        assert [isinstance(outcome, ConfigError) for outcome in outcomes] == [False, True, True]
        await is_aborted_for(producer, ConfigError)
    assert await committed(cluster) == NOTHING


async def test_many_of_which_a_cancelled_call_took_some_forbid_the_commit(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("Produce", hold=True)
    async with transactional(cluster, **SMALL_MEMORY) as producer:
        await producer.begin_transaction()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(producer.send_many, "events", [LARGE] * 6, None, 0)
                await cluster.requests.wait_for("Produce")
                scope.cancel()
        held.remove()
        await is_aborted_for(producer, KafkaError)
    assert await committed(cluster) == NOTHING


@pytest.mark.parametrize("many", [False, True])
async def test_a_record_that_cannot_be_serialized_forbids_the_commit(cluster: EmbeddedCluster, many: bool) -> None:
    made: Any = transactional(cluster, value_serializer=str.encode)
    async with made as producer:
        await producer.begin_transaction()
        await producer.send("events", "taken", partition=0)
        with pytest.raises(RecordSerializationError):
            await (producer.send_many("events", [1]) if many else producer.send("events", 1))
        await is_aborted_for(producer, RecordSerializationError)
    assert await committed(cluster) == NOTHING


async def test_wrong_arguments_and_send_nowait_without_room_leave_the_transaction_as_it_is(
    cluster: EmbeddedCluster,
) -> None:
    """A caller of `send_nowait` retries when there is room, like outside of transactions."""
    held = cluster.faults.add("Produce", hold=True)
    async with transactional(cluster, **SMALL_MEMORY) as producer:
        await producer.begin_transaction()
        for wrong in (-1, 99):
            with pytest.raises(ConfigError):
                await producer.send("events", b"nowhere", partition=wrong)
        await producer.send("events", LARGE, partition=0)
        await producer.send("events", LARGE, partition=1)
        with pytest.raises(BufferFull):
            producer.send_nowait("events", LARGE, partition=2)
        held.remove()
        await producer.flush()
        producer.send_nowait("events", LARGE, partition=2)
        await producer.commit_transaction()
    assert await committed(cluster) == {0: [LARGE], 1: [LARGE], 2: [LARGE]}
