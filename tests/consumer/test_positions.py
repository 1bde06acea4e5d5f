"""Positions: the start of reading, and its continuation."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from aiokafka_lead import OffsetAndMetadata, OffsetAndTimestamp, Producer, TopicPartition
from aiokafka_lead.errors import (
    ConfigError,
    ConfigTypeError,
    FetchOffsetOutOfRangeError,
    IllegalStateError,
    LogTruncationError,
    NoOffsetForPartitionError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import E0, E1, E2, consumer_of, fill, numbers, take, values

pytestmark = pytest.mark.anyio


async def test_seek(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(100))
    async with consumer_of(cluster) as consumer:
        consumer.assign([E0])
        consumer.seek(E0, 40)
        assert await consumer.position(E0) == 40
        assert numbers(await take(consumer, 3)) == [40, 41, 42]
        consumer.seek(E0, OffsetAndMetadata(7, leader_epoch=0))
        assert numbers(await take(consumer, 2)) == [7, 8]
        assert consumer.assignment() == {E0}


async def test_a_seek_in_the_loop_takes_effect_with_the_next_record(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(50))
    got: list[int] = []
    async with consumer_of(cluster, "events") as consumer:
        async for record in consumer:
            got.append(int(record.value))
            if got == [0, 1, 2]:
                consumer.seek(E0, 48)
            elif len(got) == 5:
                break
    assert got == [0, 1, 2, 48, 49]


async def test_a_seek_does_not_wait_for_a_long_poll(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(5))
    async with consumer_of(cluster, fetch_max_wait_ms=20_000) as consumer:
        consumer.assign([E0])
        await take(consumer, 5)
        await cluster.wait_for_requests("Fetch", count=2)
        with anyio.fail_after(20):
            consumer.seek(E0, 1)
            assert numbers(await take(consumer, 2)) == [1, 2]
        assert consumer.metrics().fetches_beside_session >= 1


async def test_seek_to_beginning_and_end(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(20))
    await fill(cluster, values(10), partition=1)
    cluster.delete_records("events", 0, 5)
    async with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([E0, E1])
        await consumer.seek_to_end()
        assert (await consumer.position(E0), await consumer.position(E1)) == (20, 10)
        await consumer.seek_to_beginning(E0)
        assert (await consumer.position(E0), await consumer.position(E1)) == (5, 10)
        assert numbers(await take(consumer, 2)) == [5, 6]


async def test_latest_begins_at_the_end(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(20))
    async with consumer_of(cluster, "events", auto_offset_reset="latest") as consumer:
        assert await consumer.position(E0) == 20
        await fill(cluster, values(3, 100))
        assert numbers(await take(consumer, 3)) == [100, 101, 102]


async def test_by_duration_begins_at_the_first_record_that_is_young_enough(cluster: EmbeddedCluster) -> None:
    """KIP-1106."""
    now_ms = int(time.time() * 1000)
    async with Producer(cluster.bootstrap_servers) as producer:
        for age_h in (5, 3, 1):
            stamp = now_ms - age_h * 3_600_000
            await producer.send_and_wait("events", b"%d" % age_h, partition=0, timestamp_ms=stamp)
        await producer.send_and_wait("events", b"9", partition=1, timestamp_ms=now_ms - 9 * 3_600_000)
    async with consumer_of(cluster, "events", auto_offset_reset="by_duration:PT4H") as consumer:
        assert numbers(await take(consumer, 2)) == [3, 1]
        assert await consumer.position(E1) == 1


async def test_without_a_policy_a_position_has_to_be_given(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(3))
    async with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([E0])
        with pytest.raises(NoOffsetForPartitionError, match="events-0"):
            await consumer.position(E0)
        for _ in range(2):
            with pytest.raises(NoOffsetForPartitionError, match="events-0"):
                await consumer.getone()
        consumer.seek(E0, 1)
        assert numbers(await take(consumer, 2)) == [1, 2]


async def test_out_of_range_by_policy(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    cluster.delete_records("events", 0, 4)
    async with consumer_of(cluster) as consumer:
        consumer.assign([E0])
        consumer.seek(E0, 1)
        assert numbers(await take(consumer, 1)) == [4]
        consumer.seek(E0, 1000)
        assert numbers(await take(consumer, 1)) == [4]
        assert consumer.metrics().offset_resets == 2


async def test_out_of_range_without_a_policy(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    async with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([E0])
        consumer.seek(E0, 1000)
        for _ in range(2):
            with pytest.raises(FetchOffsetOutOfRangeError, match="offset 1000 of events-0"):
                await consumer.getone()
        assert await consumer.position(E0) == 1000
        consumer.seek(E0, 9)
        assert numbers(await take(consumer, 1)) == [9]


@pytest.mark.parametrize("fetch_version", [18, 11])
async def test_a_truncated_log_is_noticed(cluster: EmbeddedCluster, fetch_version: int) -> None:
    """KIP-320; Fetch 12 and later by the diverging epoch, earlier versions by OffsetForLeaderEpoch."""
    cluster.max_versions = {"Fetch": fetch_version}
    await fill(cluster, values(6))
    await fill(cluster, values(4, 6))
    async with consumer_of(cluster, "events", metadata_max_age_ms=200) as consumer:
        assert len(await take(consumer, 10)) == 10
        cluster.truncate("events", 0, 6)
        await fill(cluster, values(10, 100))
        assert numbers(await take(consumer, 10)) == list(range(100, 110))
        assert await consumer.position(E0) == 16
        assert consumer.metrics().truncations == 1


@pytest.mark.parametrize("fetch_version", [18, 11])
async def test_a_truncated_log_without_a_policy(cluster: EmbeddedCluster, fetch_version: int) -> None:
    cluster.max_versions = {"Fetch": fetch_version}
    await fill(cluster, values(6))
    await fill(cluster, values(4, 6))
    async with consumer_of(cluster, auto_offset_reset="none", metadata_max_age_ms=200) as consumer:
        consumer.assign([E0])
        consumer.seek(E0, 0)
        await take(consumer, 10)
        cluster.truncate("events", 0, 6)
        with pytest.raises(LogTruncationError) as caught:
            await consumer.getone()
        assert (caught.value.offset, caught.value.diverging_offset) == (10, 6)
        consumer.seek(E0, 6)
        await fill(cluster, values(1, 100))
        assert numbers(await take(consumer, 1)) == [100]


async def test_a_seek_with_an_epoch_that_is_gone_is_noticed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    cluster.truncate("events", 0, 6)
    await fill(cluster, values(10, 100))
    async with consumer_of(cluster, auto_offset_reset="none") as consumer:
        consumer.assign([E0])
        consumer.seek(E0, OffsetAndMetadata(9, leader_epoch=0))
        with pytest.raises(LogTruncationError):
            await consumer.getone()


async def test_offsets_that_can_be_asked_for(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(10):
            await producer.send_and_wait("events", b"x", partition=0, timestamp_ms=1000 + 10 * number)
    cluster.delete_records("events", 0, 2)
    async with consumer_of(cluster) as consumer:
        assert await consumer.beginning_offsets([E0, E1]) == {E0: 2, E1: 0}
        assert await consumer.end_offsets([E0, E1]) == {E0: 10, E1: 0}
        found = await consumer.offsets_for_times({E0: 1045, E1: 5, E2: 0})
        assert found == {E0: OffsetAndTimestamp(5, 1050, 0), E1: None, E2: None}
        assert await consumer.offsets_for_times({E0: 999_999}) == {E0: None}
        assert await consumer.end_offsets([]) == {}
        assert await consumer.topics() == {"events"}
        assert await consumer.partitions_for_topic("events") == {0, 1, 2}


async def test_offsets_are_asked_for_again_after_a_leader_has_moved(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(4))
    async with consumer_of(cluster, retry_backoff_ms=10) as consumer:
        await consumer.end_offsets([E0])
        cluster.move_leader("events", 0)
        assert await consumer.end_offsets([E0, E1, E2]) == {E0: 4, E1: 0, E2: 0}


@again_if_late(300, 4000)
async def test_offsets_of_what_does_not_exist(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"default_api_timeout_ms": timeout_ms, "allow_auto_create_topics": False}
    async with consumer_of(cluster, **options) as consumer:
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await consumer.end_offsets([TopicPartition("nowhere", 0)])
        with pytest.raises(UnknownTopicOrPartitionError, match="events-77"):
            await consumer.end_offsets([E0, TopicPartition("events", 77)])
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await consumer.partitions_for_topic("nowhere")


async def test_offsets_of_what_does_not_exist_are_not_waited_for_to_the_end(cluster: EmbeddedCluster) -> None:
    """The default timeout is a minute."""
    async with consumer_of(cluster, allow_auto_create_topics=False) as consumer:
        with anyio.fail_after(20):
            with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
                await consumer.end_offsets([E0, TopicPartition("nowhere", 0)])
            with pytest.raises(UnknownTopicOrPartitionError, match="events-77: its topic has 3 partitions"):
                await consumer.beginning_offsets([E0, TopicPartition("events", 77)])
            with pytest.raises(UnknownTopicOrPartitionError, match="events-77"):
                await consumer.offsets_for_times({TopicPartition("events", 77): 0})


async def test_offsets_of_a_topic_that_is_made_meanwhile(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, allow_auto_create_topics=False) as consumer, anyio.create_task_group() as tasks:

        async def make() -> None:
            await cluster.wait_for_requests("Metadata", count=cluster.requests.count("Metadata") + 1)
            cluster.create_topic("new", partitions=1)

        tasks.start_soon(make)
        new = TopicPartition("new", 0)
        with anyio.fail_after(20):
            assert await consumer.end_offsets([new]) == {new: 0}


async def test_each_call_has_a_timeout_of_its_own(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ListOffsets", drop=True)
    async with consumer_of(cluster, allow_auto_create_topics=False) as consumer:
        consumer.assign([E1])
        calls = [
            consumer.beginning_offsets([E0], timeout_ms=50),
            consumer.end_offsets([E0], timeout_ms=50),
            consumer.offsets_for_times({E0: 0}, timeout_ms=50),
            consumer.position(E1, timeout_ms=50),
            consumer.seek_to_beginning(E1, timeout_ms=50),
            consumer.seek_to_end(E1, timeout_ms=50),
        ]
        with anyio.fail_after(20):
            for call in calls:
                with pytest.raises(RequestTimedOutError, match="in 50 ms"):
                    await call
            with pytest.raises((UnknownTopicOrPartitionError, RequestTimedOutError), match="within 50 ms"):
                await consumer.partitions_for_topic("nowhere", timeout_ms=50)


async def test_offsets_that_no_broker_tells(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ListOffsets", drop=True)
    async with consumer_of(cluster, default_api_timeout_ms=300) as consumer:
        with pytest.raises(RequestTimedOutError, match="events-0"):
            await consumer.end_offsets([E0])
        consumer.assign([E1])
        with pytest.raises(RequestTimedOutError, match="no position for events-1"):
            await consumer.position(E1)


async def test_pause_keeps_what_is_buffered(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    await fill(cluster, values(5, 50), partition=1)
    async with consumer_of(cluster) as consumer:
        consumer.assign([E0, E1])
        consumer.pause(E1)
        assert numbers(await take(consumer, 5)) == [0, 1, 2, 3, 4]
        consumer.pause(E0)
        assert consumer.paused() == {E0, E1}
        held = consumer.metrics().partitions[E0].buffered_bytes
        assert held > 0
        assert await consumer.getmany(timeout_ms=50) == {}
        fetches = len([r for r in cluster.requests.select("Fetch") if _asks(r.request, 0, 5)])
        consumer.resume(E0)
        assert numbers(await take(consumer, 5)) == [5, 6, 7, 8, 9]
        assert len([r for r in cluster.requests.select("Fetch") if _asks(r.request, 0, 5)]) == fetches == 0
        consumer.resume(E1)
        assert numbers(await take(consumer, 5)) == [50, 51, 52, 53, 54]


def _asks(request: Any, partition: int, offset: int) -> bool:
    return any(
        asked.partition == partition and asked.fetch_offset == offset
        for topic in request.topics
        for asked in topic.partitions
    )


async def test_assigning_anew_keeps_the_position_of_what_stays(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(10))
    await fill(cluster, values(10, 50), partition=1)
    async with consumer_of(cluster) as consumer:
        consumer.assign([E0])
        await take(consumer, 4)
        consumer.assign([E0, E1])
        assert await consumer.position(E0) == 4
        found = await take(consumer, 16)
        assert sorted(numbers(found)) == [*range(4, 10), *range(50, 60)]
        consumer.assign([E2])
        with pytest.raises(IllegalStateError, match="events-0 is not assigned"):
            await consumer.position(E0)
        with pytest.raises(IllegalStateError, match="events-0 is not assigned"):
            consumer.seek(E0, 1)


async def test_bad_arguments_are_named(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster) as consumer:
        consumer.assign([E0])
        with pytest.raises(ConfigError, match="from 0"):
            consumer.seek(E0, -1)
        with pytest.raises(ConfigTypeError, match="TopicPartition"):
            consumer.assign(["events"])  # type: ignore[list-item]
        with pytest.raises(ConfigTypeError, match="must be an int"):
            consumer.seek(E0, "5")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="from 0"):
            await consumer.offsets_for_times({E0: -1})
        with pytest.raises(ConfigError, match="max_records"):
            await consumer.getmany(max_records=0)
        with pytest.raises(IllegalStateError, match="group_id"):
            await consumer.commit()
