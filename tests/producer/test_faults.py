"""Faults of brokers and connections: records are written once, in order, or fail with an error."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead.errors import (
    BrokerError,
    ClusterAuthorizationFailedError,
    CoordinatorLoadInProgressError,
    CorruptRecordError,
    DeliveryTimeoutError,
    InvalidRecordError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    PolicyViolationError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownServerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lead.producer import Delivery, Producer
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.types import RecordMetadata
from tests.patience import again_if_late, started

from .support import values

pytestmark = pytest.mark.anyio


def quick_producer(cluster: EmbeddedCluster, **options: Any) -> Producer:
    """Return a producer that retries after a short wait."""
    options = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 40, **options}
    return Producer(cluster.bootstrap_servers, **options)


async def send_numbers(producer: Producer, count: int, partition: int = 0) -> list[Delivery]:
    """Send numbered records in separate batches, with several requests in flight."""
    deliveries = []
    for number in range(count):
        deliveries.append(await producer.send("events", b"%d" % number, partition=partition))
        await anyio.lowlevel.checkpoint()
    return deliveries


BEFORE = [
    CorruptRecordError,
    KafkaStorageError,
    NotEnoughReplicasError,
    NotEnoughReplicasAfterAppendError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    UnknownTopicIdError,
]
"""Errors of brokers that have not appended."""
AFTER = [error for error in BEFORE if error not in (CorruptRecordError, NotEnoughReplicasError)]
"""Errors that are possible even after appending."""


@pytest.mark.parametrize(
    ("error", "after"), [*((error, False) for error in BEFORE), *((error, True) for error in AFTER)]
)
async def test_passing_errors_are_retried(cluster: EmbeddedCluster, error: type[BrokerError], after: bool) -> None:
    async with quick_producer(cluster, linger_ms=0) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        rule = cluster.faults.add("Produce", error_code=error, count=3, after=after)
        deliveries = await send_numbers(producer, 10)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 11))
        assert rule.struck == 3
        assert producer.metrics().retries >= 1
    assert values(cluster) == [b"first", *[b"%d" % number for number in range(10)]]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("effect", ["disconnect", "garbage", "drop"])
async def test_lost_answers_neither_lose_nor_duplicate(cluster: EmbeddedCluster, effect: str, after: bool) -> None:
    rule: dict[str, Any] = {effect: True if effect != "garbage" else b"HTTP/1.1 400 Bad Request\r\n\r\n"}
    short: dict[str, Any] = {"linger_ms": 0, "request_timeout_ms": 300, "reconnect_backoff_ms": 10}
    async with started(quick_producer(cluster, **short)) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        cluster.faults.add("Produce", skip=2, count=1, after=after, **rule)
        deliveries = await send_numbers(producer, 20)
        assert [(await delivery).offset for delivery in deliveries] == list(range(1, 21))
    assert values(cluster) == [b"first", *[b"%d" % number for number in range(20)]]


def to_another_request(answer: bytes) -> bytes:
    """Return the answer with a correlation id that no request has."""
    return answer[:4] + b"\x7f" * 4 + answer[8:]


async def test_an_answer_that_cannot_be_read_costs_no_record(cluster: EmbeddedCluster) -> None:
    """It ends the connection. Records of other partitions wait for the next one."""
    for partition in range(2):
        cluster.move_leader("events", partition, to=1)
    async with quick_producer(cluster, linger_ms=0, reconnect_backoff_ms=10) as producer:
        for partition in range(2):
            await producer.send_and_wait("events", b"first", partition=partition)
        cluster.faults.add("Produce", count=1, garbage=to_another_request)
        connecting = cluster.faults.add("ApiVersions", broker=1, hold=True)
        connections = cluster.requests.count("ApiVersions", broker=1)
        deliveries = [await producer.send("events", b"0", partition=0)]
        await cluster.wait_for_requests("ApiVersions", broker=1, count=connections + 1)
        deliveries.append(await producer.send("events", b"1", partition=1))
        await anyio.wait_all_tasks_blocked()  # the sender has had its turn
        connecting.remove()
        assert [(await delivery).offset for delivery in deliveries] == [1, 1]


async def test_a_restarted_broker_that_answers_nonsense_at_first_costs_no_record(cluster: EmbeddedCluster) -> None:
    cluster.move_leader("events", 0, to=1)
    async with quick_producer(cluster, linger_ms=0, reconnect_backoff_ms=10) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        rule = cluster.faults.add("ApiVersions", broker=1, count=3, garbage=to_another_request)
        cluster.faults.add("Produce", count=1, disconnect=True)
        assert (await producer.send_and_wait("events", b"0", partition=0)).offset == 1
        assert rule.struck == 3


async def test_a_broker_that_is_starting_costs_no_record(cluster: EmbeddedCluster) -> None:
    cluster.move_leader("events", 0, to=2)
    rule = cluster.faults.add("ApiVersions", broker=2, count=3, error_code=UnknownServerError)
    options: dict[str, Any] = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10, "enable_idempotence": False}
    async with Producer(cluster.address(1), **options) as producer:
        assert (await producer.send_and_wait("events", b"first", partition=0)).offset == 0
        assert rule.struck == 3


@pytest.mark.parametrize("error", [TopicAuthorizationFailedError, PolicyViolationError, InvalidRecordError])
async def test_lasting_errors_fail_their_batch_and_no_other(cluster: EmbeddedCluster, error: type[BrokerError]) -> None:
    async with quick_producer(cluster, linger_ms=0, batch_size=1) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        cluster.faults.add("Produce", error_code=error, skip=1, count=1)
        deliveries = await send_numbers(producer, 8)
        outcomes: list[object] = []
        for delivery in deliveries:
            try:
                outcomes.append((await delivery).offset)
            except KafkaError as failure:
                outcomes.append(type(failure) if "events-0" in failure.message else failure)
        metrics = producer.metrics()
    assert outcomes == [1, error, 2, 3, 4, 5, 6, 7]
    assert values(cluster) == [b"first", b"0", *[b"%d" % number for number in range(2, 8)]]
    assert (metrics.records_failed, metrics.records_acked) == (1, 8)


async def test_one_partition_does_not_hold_back_another(cluster: EmbeddedCluster) -> None:
    for partition in range(3):
        cluster.move_leader("events", partition, to=1)
    async with Producer(cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=1500) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        await producer.send_and_wait("events", b"first", partition=1)
        refused = cluster.faults.add("Produce", error_code=NotEnoughReplicasError, topic="events", partition=0)
        stuck = await producer.send("events", b"stuck", partition=0)
        for number in range(20):
            await producer.send_and_wait("events", b"%d" % number, partition=1)
        assert not stuck.done()
        refused.remove()
        assert (await stuck).offset == 1


async def test_batch_that_the_broker_finds_too_large_is_split(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("small", configs={"max.message.bytes": "500"})
    async with Producer(cluster.bootstrap_servers, batch_size=10_000) as producer:
        keyed = [await producer.send("small", b"%d" % n + b"x" * 90, b"k%d" % n) for n in range(20)]
        batch = await producer.send_many("small", [b"y" * 90] * 20)
        alone = await producer.send("small", b"z" * 900)
        after = await producer.send("small", b"last")
        assert [(await delivery).offset for delivery in keyed] == list(range(20))
        assert [outcome.offset for outcome in await batch if isinstance(outcome, RecordMetadata)] == list(range(20, 40))
        with pytest.raises(MessageTooLargeError):
            await alone
        assert (await after).offset == 40
        assert producer.metrics().batches_split >= 2
        assert producer.metrics().buffer_used_bytes == 0
        assert batch.done()
    assert [record.key for record in cluster.records("small")] == [b"k%d" % n for n in range(20)] + [None] * 21


async def test_split_waiter_is_woken(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("small", configs={"max.message.bytes": "500"})
    offsets: list[int] = []

    async def wait(delivery: Delivery) -> None:
        offsets.append((await delivery).offset)

    producer = Producer(cluster.bootstrap_servers, batch_size=10_000, linger_ms=20)
    async with producer, anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(wait, await producer.send("small", b"x" * 90))
    assert sorted(offsets) == list(range(20))


async def test_broker_that_forgot_the_producer(cluster: EmbeddedCluster) -> None:
    async with quick_producer(cluster, linger_ms=0) as producer:
        await (await producer.send_many("events", [b"a", b"b", b"c"], partition=0))
        cluster.forget_producers("events", 0)
        deliveries = await send_numbers(producer, 5)
        assert [(await delivery).offset for delivery in deliveries] == [3, 4, 5, 6, 7]


async def test_log_that_lost_records_gets_the_next_ones(cluster: EmbeddedCluster) -> None:
    async with quick_producer(cluster, linger_ms=0) as producer:
        for number in range(5):
            await producer.send_and_wait("events", b"old-%d" % number, partition=0)
        cluster.truncate("events", 0, 2)
        deliveries = await send_numbers(producer, 5)
        assert [(await delivery).offset for delivery in deliveries] == [2, 3, 4, 5, 6]
        assert producer.metrics().sequence_restarts == 1
    assert values(cluster) == [b"old-0", b"old-1", *[b"%d" % number for number in range(5)]]


@again_if_late(300, 4_000)
async def test_records_in_doubt_that_expire_leave_no_gap_behind(time_ms: int, cluster: EmbeddedCluster) -> None:
    limits: dict[str, Any] = {"delivery_timeout_ms": time_ms, "request_timeout_ms": time_ms - 50}
    cluster.faults.clear()  # from the first attempt
    written = len(values(cluster))
    async with quick_producer(cluster, linger_ms=0, **limits) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        cluster.faults.add("Produce", drop=True, count=1)  # all of them are sent before the first connection is lost
        rule = cluster.faults.add("Produce", disconnect=True)
        for delivery in await send_numbers(producer, 5):
            with pytest.raises(DeliveryTimeoutError):
                await delivery
        rule.remove()
        await producer.send_and_wait("events", b"last", partition=0)
        assert producer.metrics().sequence_restarts >= 1
    assert values(cluster)[written:] == [b"first", b"last"]


async def test_no_producer_id_no_records(cluster: EmbeddedCluster) -> None:
    rule = cluster.faults.add("InitProducerId", error_code=ClusterAuthorizationFailedError)
    async with quick_producer(
        cluster,
    ) as producer:
        with pytest.raises(ClusterAuthorizationFailedError, match="never sent"):
            await producer.send_and_wait("events", b"v", partition=0)
        rule.remove()
        with anyio.fail_after(20):
            while True:  # the permission has been granted meanwhile
                try:
                    await producer.send_and_wait("events", b"w", partition=0)
                    break
                except ClusterAuthorizationFailedError:
                    continue
    assert values(cluster) == [b"w"]


async def test_producer_id_is_retried(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("InitProducerId", error_code=CoordinatorLoadInProgressError.code, count=3)
    async with quick_producer(
        cluster,
    ) as producer:
        assert (await producer.send_and_wait("events", b"v", partition=0)).offset == 0


async def test_old_brokers_are_spoken_to_by_topic_name(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"Produce": 7, "Metadata": 8}
    async with Producer(cluster.bootstrap_servers, compression_type="zstd") as producer:
        assert (await producer.send_and_wait("events", b"v", partition=0)).offset == 0
    assert cluster.requests.select("Produce")[0].version == 7


async def test_broker_too_old_for_the_codec(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"Produce": 6}
    async with Producer(cluster.bootstrap_servers, compression_type="zstd") as producer:
        with pytest.raises(UnsupportedVersionError, match="Produce"):
            await producer.send_and_wait("events", b"v", partition=0)


async def test_topic_that_is_made_anew(cluster: EmbeddedCluster) -> None:
    async with quick_producer(cluster, linger_ms=0) as producer:
        for number in range(3):
            await producer.send_and_wait("events", b"old-%d" % number, partition=0)
        cluster.delete_topic("events")
        cluster.create_topic("events", partitions=3, replication_factor=3)
        deliveries = await send_numbers(producer, 10)
        assert [(await delivery).offset for delivery in deliveries] == list(range(10))
    assert values(cluster) == [b"%d" % number for number in range(10)]


async def test_requests_are_bounded_in_bytes(cluster: EmbeddedCluster) -> None:
    async with Producer(
        cluster.bootstrap_servers,
        batch_size=900,
        max_request_size=2000,
        linger_ms=50,
        max_in_flight_requests_per_connection=1,
    ) as producer:
        for partition in range(3):
            cluster.move_leader("events", partition, to=1)
        outcomes = await (await producer.send_many("events", [b"x" * 80] * 300))
        assert len(outcomes) == 300
        metrics = producer.metrics()
    assert metrics.bytes_sent / metrics.requests <= 2000
