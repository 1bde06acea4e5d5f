"""A topic that is deleted and recreated while a producer is in use."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer, RecordMetadata
from aiokafka_lead.errors import ConfigError, UnknownTopicOrPartitionError
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio

SOON_S = 20
"""Much shorter than ``delivery_timeout_ms``."""


async def producer_of_keys(cluster: EmbeddedCluster, producer: Producer[Any, Any]) -> list[bytes]:
    """Return a key for each partition of "events"."""
    keys: dict[int, bytes] = {}
    for number in range(100):
        key = b"%d" % number
        keys.setdefault((await producer.send_and_wait("events", b"old", key=key)).partition, key)
    return [keys[partition] for partition in range(3)]


def make_again(cluster: EmbeddedCluster, partitions: int) -> None:
    cluster.delete_topic("events")
    cluster.create_topic("events", partitions=partitions, replication_factor=3)


@pytest.mark.parametrize("options", [{}, {"enable_idempotence": False}, {"linger_ms": 20}])
async def test_records_that_were_for_a_partition_that_is_gone_are_stored(
    cluster: EmbeddedCluster, options: dict[str, Any]
) -> None:
    async with Producer(cluster.bootstrap_servers, allow_auto_create_topics=False, **options) as producer:
        keys = await producer_of_keys(cluster, producer)
        make_again(cluster, 2)
        with anyio.fail_after(SOON_S):
            deliveries = [await producer.send("events", b"keyed", key=key) for key in keys]
            deliveries += [await producer.send("events", b"keyless") for _ in range(20)]
            stored = [await delivery for delivery in deliveries]
    assert {metadata.partition for metadata in stored} <= {0, 1}
    values = [record.value for partition in (0, 1) for record in cluster.records("events", partition)]
    assert (values.count(b"keyed"), values.count(b"keyless")) == (3, 20)
    for metadata, key in zip(stored, keys, strict=False):
        record = cluster.records("events", metadata.partition)[metadata.offset]
        assert (record.key, record.value) == (key, b"keyed")


async def test_those_whose_partition_the_application_has_named_fail(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, allow_auto_create_topics=False) as producer:
        for partition in range(3):
            await producer.send_and_wait("events", b"old", partition=partition)
        make_again(cluster, 2)
        with anyio.fail_after(SOON_S):
            with pytest.raises(UnknownTopicOrPartitionError, match=r"events-2 no longer exists: .* with 2 partitions"):
                await producer.send_and_wait("events", b"new", partition=2)
            for partition in range(2):
                await producer.send_and_wait("events", b"new", partition=partition)


async def test_so_do_many_for_a_named_one(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, allow_auto_create_topics=False, linger_ms=20) as producer:
        await producer.send_and_wait("events", b"old", partition=2)
        make_again(cluster, 2)
        with anyio.fail_after(SOON_S):
            outcomes = await (await producer.send_many("events", [b"a", b"b", b"c"], partition=2))
            others = await (await producer.send_many("events", [b"a", b"b", b"c"]))
    assert all(isinstance(outcome, UnknownTopicOrPartitionError) for outcome in outcomes)
    assert all(isinstance(outcome, RecordMetadata) for outcome in others)


async def test_what_waits_for_an_answer_goes_on_when_it_comes(cluster: EmbeddedCluster) -> None:
    """A batch keeps its place until then, even if metadata has reported its partition as gone."""
    async with Producer(
        cluster.bootstrap_servers, allow_auto_create_topics=False, metadata_max_age_ms=100, linger_ms=0
    ) as producer:
        keys = await producer_of_keys(cluster, producer)
        produced = cluster.requests.count("Produce")
        hold = cluster.faults.add("Produce", topic="events", partition=2, hold=True)
        delivery = await producer.send("events", b"keyed", key=keys[2])
        with anyio.fail_after(SOON_S):
            await cluster.requests.wait_for("Produce", count=produced + 1)
            make_again(cluster, 2)
            await cluster.requests.wait_for("Metadata", count=cluster.requests.count("Metadata") + 6)
            hold.remove()
            assert (await delivery).partition in (0, 1)


async def test_a_transaction_goes_on(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"transactional_id": "payments", "allow_auto_create_topics": False}
    async with Producer(cluster.bootstrap_servers, **options) as producer:
        async with producer.transaction():
            keys = await producer_of_keys(cluster, producer)
        make_again(cluster, 2)
        with anyio.fail_after(SOON_S):
            async with producer.transaction():
                await producer.send("events", b"new", key=keys[2])
    values = [record.value for partition in (0, 1) for record in cluster.records("events", partition)]
    assert b"new" in values


@pytest.mark.parametrize("partitions", [3, 5])
async def test_one_that_is_as_large_or_larger_is_used_as_it_is(cluster: EmbeddedCluster, partitions: int) -> None:
    async with Producer(cluster.bootstrap_servers, allow_auto_create_topics=False) as producer:
        await producer_of_keys(cluster, producer)
        make_again(cluster, partitions)
        with anyio.fail_after(SOON_S):
            for number in range(30):
                await producer.send_and_wait("events", b"new", key=b"%d" % number)
            for partition in range(partitions):
                await producer.send_and_wait("events", b"new", partition=partition)


async def test_a_partitioner_that_keeps_to_a_partition_that_is_gone_fails_its_own_records(
    cluster: EmbeddedCluster,
) -> None:
    chosen = 2
    async with Producer(
        cluster.bootstrap_servers, allow_auto_create_topics=False, partitioner=lambda *_: chosen
    ) as producer:
        await producer.send_and_wait("events", b"old")
        make_again(cluster, 2)
        with anyio.fail_after(SOON_S):
            with pytest.raises(ConfigError, match="partitioner chose partition 2: topic 'events' has 2"):
                await producer.send_and_wait("events", b"new")
            chosen = 1
            assert (await producer.send_and_wait("events", b"new")).partition == 1
