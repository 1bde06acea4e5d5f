"""Leaders move, brokers stop and restart: no record is lost or repeated."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import (
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lead.testing import EmbeddedCluster, Hint

from .support import E0, E1, consumer_of, fill, numbers, take, values

pytestmark = pytest.mark.anyio


async def next_value(consumer: Consumer[Any, Any], timeout_s: float = 10) -> int:
    with anyio.fail_after(timeout_s):
        return int((await consumer.getone()).value)


async def test_a_hint_is_followed_without_waiting_out_the_backoff(cluster: EmbeddedCluster) -> None:
    """KIP-951, ten times: with a backoff of a minute only the hint can bring the next record."""
    options: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    async with consumer_of(cluster, "events", **options) as consumer, Producer(cluster.bootstrap_servers) as producer:
        for number in range(10):
            await producer.send_and_wait("events", b"%d" % number, partition=0)
            assert await next_value(consumer) == number
            cluster.move_leader("events", 0)


async def test_six_stale_metadata_answers_do_not_lead_back(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(1))
    async with consumer_of(cluster, "events") as consumer:
        await take(consumer, 1)
        old = cluster.leader("events", 0)
        cluster.freeze_metadata(6)
        cluster.move_leader("events", 0)
        await fill(cluster, values(1, 1), request_timeout_ms=20_000)
        assert await next_value(consumer) == 1
        since = time.monotonic()
        await fill(cluster, values(1, 2), request_timeout_ms=20_000)
        assert await next_value(consumer) == 2
        asked = [
            record
            for record in cluster.requests.select("Fetch", broker=old, since=since)
            for topic in record.request.topics
            if any(part.partition == 0 for part in topic.partitions)
        ]
        assert asked == []


async def test_without_hints_metadata_tells(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"Fetch": 15}
    await fill(cluster, values(1))
    async with consumer_of(cluster, "events") as consumer:
        await take(consumer, 1)
        cluster.move_leader("events", 0)
        await fill(cluster, values(1, 1))
        assert await next_value(consumer) == 1


@pytest.mark.parametrize("hint", [Hint(leader_id=-1), Hint(leader_epoch=-1), Hint(leader_id=77, endpoint=())])
async def test_hints_of_no_use_do_no_harm(cluster: EmbeddedCluster, hint: Hint) -> None:
    await fill(cluster, values(1))
    async with consumer_of(cluster, "events") as consumer:
        await take(consumer, 1)
        cluster.faults.add("Fetch", hint=hint)
        cluster.move_leader("events", 0)
        await fill(cluster, values(1, 1))
        assert await next_value(consumer) == 1


async def test_one_partitions_move_does_not_hold_up_the_others(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("pair", partitions=2, replication_factor=3, assignments=[[1, 2, 3], [1, 2, 3]])
    async with consumer_of(cluster, "pair") as consumer, Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("pair", b"1", partition=1)
        assert await next_value(consumer) == 1
        rule = cluster.faults.add("Fetch", topic="pair", partition=0, error_code=NotLeaderOrFollowerError.code)
        for number in range(2, 12):
            await producer.send_and_wait("pair", b"%d" % number, partition=1)
            assert await next_value(consumer) == number
        rule.remove()
        await producer.send_and_wait("pair", b"100", partition=0)
        assert await next_value(consumer) == 100


@pytest.mark.parametrize("code", [3, 6, 9, 56, 74, 75, 78, 100, 103, -1])
async def test_errors_that_pass(cluster: EmbeddedCluster, code: int) -> None:
    await fill(cluster, values(2))
    cluster.faults.add("Fetch", topic="events", partition=0, error_code=code, count=2)
    async with consumer_of(cluster, "events", retry_backoff_ms=5) as consumer:
        assert await next_value(consumer) == 0
        assert consumer.metrics().fetch_errors == {code: 2}


async def test_a_refusal_is_raised_and_reading_goes_on_when_it_is_over(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(2))
    rule = cluster.faults.add("Fetch", topic="events", partition=0, error_code=TopicAuthorizationFailedError.code)
    async with consumer_of(cluster, "events", retry_backoff_ms=5) as consumer:
        with pytest.raises(TopicAuthorizationFailedError, match="events-0"):
            await next_value(consumer)
        rule.remove()
        for _ in range(5):
            try:
                assert await next_value(consumer) == 0
                break
            except TopicAuthorizationFailedError:
                pass  # answers from before the rule was removed
        assert await next_value(consumer) == 1


async def test_a_broker_that_dies_and_comes_back(cluster: EmbeddedCluster) -> None:
    got: list[int] = []
    count = 60
    async with consumer_of(cluster, "events") as consumer, anyio.create_task_group() as tasks:

        async def write() -> None:
            async with Producer(cluster.bootstrap_servers) as producer:
                for number in range(count):
                    await producer.send_and_wait("events", b"%d" % number, partition=0)
                    if number == 20:
                        await cluster.kill_broker(cluster.leader("events", 0))
                    if number == 40:
                        for broker in cluster.broker_ids:
                            await cluster.start_broker(broker)

        tasks.start_soon(write)
        with anyio.fail_after(40):
            got = numbers(await take(consumer, count))
    assert got == list(range(count))


async def test_a_broker_at_another_address(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(1))
    async with consumer_of(cluster, "events") as consumer:
        await take(consumer, 1)
        for number in range(1, 4):
            await cluster.change_address(cluster.leader("events", 0))
            await fill(cluster, values(1, number))
            assert await next_value(consumer, 20) == number


async def test_a_topic_that_is_deleted_and_made_anew(cluster: EmbeddedCluster) -> None:
    """KIP-516: the position in the old topic is meaningless in the new topic."""
    await fill(cluster, values(10))
    async with consumer_of(cluster, "events", metadata_max_age_ms=100) as consumer:
        await take(consumer, 10)
        cluster.delete_topic("events")
        cluster.create_topic("events", partitions=3, replication_factor=3)
        await fill(cluster, values(3, 100))
        with anyio.fail_after(20):
            assert numbers(await take(consumer, 3)) == [100, 101, 102]


# --- sessions --------------------------------------------------------------------------------------------------------


async def test_sessions_are_used_and_closed(cluster: EmbeddedCluster) -> None:
    """KIP-227: after the first request to a broker only changes are sent."""
    async with consumer_of(cluster, "events") as consumer, Producer(cluster.bootstrap_servers) as producer:
        for number in range(20):
            await producer.send_and_wait("events", b"%d" % number, partition=number % 3)
            assert await next_value(consumer) == number
    fetches = cluster.requests.select("Fetch", broker=cluster.leader("events", 0))
    full = [record for record in fetches if record.request.session_epoch == 0]
    assert len(full) == 1
    assert [record.request.session_epoch for record in fetches if record.request.session_epoch > 0][:3] == [1, 2, 3]
    closing = [record for record in fetches if record.request.session_epoch == -1 and record.request.session_id != 0]
    assert len(closing) == 1


@pytest.mark.parametrize("code", [70, 71, 106])
async def test_a_session_that_the_broker_refuses_is_opened_anew(cluster: EmbeddedCluster, code: int) -> None:
    async with consumer_of(cluster, "events") as consumer, Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"0", partition=0)
        assert await next_value(consumer) == 0
        cluster.faults.add("Fetch", broker=cluster.leader("events", 0), error_code=code, whole=True, count=1)
        for number in range(1, 4):
            await producer.send_and_wait("events", b"%d" % number, partition=0)
            assert await next_value(consumer) == number
        assert consumer.metrics().session_resets == 1


async def test_brokers_without_room_for_sessions() -> None:
    async with EmbeddedCluster(brokers=1, fetch_session_slots=0) as cluster:
        cluster.create_topic("events", partitions=2)
        async with consumer_of(cluster, "events") as consumer, Producer(cluster.bootstrap_servers) as producer:
            for number in range(5):
                await producer.send_and_wait("events", b"%d" % number, partition=number % 2)
                assert await next_value(consumer) == number


async def test_lost_answers_are_asked_for_again(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(50), batch_size=200)
    cluster.faults.add("Fetch", disconnect=True, count=6, skip=2)
    async with consumer_of(cluster, "events", max_partition_fetch_bytes=300) as consumer:
        with anyio.fail_after(30):
            assert numbers(await take(consumer, 50)) == list(range(50))
        assert consumer.metrics().failed_fetches >= 1


async def test_a_throttled_consumer_goes_on(cluster: EmbeddedCluster) -> None:
    """KIP-219."""
    await fill(cluster, values(20), batch_size=100)
    cluster.faults.add("Fetch", throttle_time_ms=50, count=4)
    async with consumer_of(cluster, "events", max_partition_fetch_bytes=150) as consumer:
        with anyio.fail_after(30):
            assert numbers(await take(consumer, 20)) == list(range(20))


@pytest.mark.parametrize("version", [4, 6, 7, 11, 12, 13, 15, 16])
async def test_every_shape_of_fetch(version: int) -> None:
    async with EmbeddedCluster(brokers=2, max_versions={"Fetch": version}) as cluster:
        cluster.create_topic("events", partitions=2)
        await fill(cluster, values(30), batch_size=100)
        await fill(cluster, values(30, 100), partition=1, batch_size=100)
        async with consumer_of(cluster, "events", isolation_level="read_committed") as consumer:
            with anyio.fail_after(20):
                found = await take(consumer, 60)
    assert numbers([record for record in found if record.partition == 0]) == list(range(30))
    assert numbers([record for record in found if record.partition == 1]) == list(range(100, 130))


# --- followers -------------------------------------------------------------------------------------------------------


async def test_a_follower_in_the_same_rack_is_read_from() -> None:
    """KIP-392."""
    async with EmbeddedCluster(brokers=3, racks=["a", "b", "c"]) as cluster:
        cluster.create_topic("events", partitions=1, replication_factor=3)
        leader = cluster.leader("events", 0)
        near = next(broker for broker in cluster.broker_ids if broker != leader)
        rack = {1: "a", 2: "b", 3: "c"}[near]
        await fill(cluster, values(5))
        async with consumer_of(cluster, "events", client_rack=rack) as consumer:
            assert numbers(await take(consumer, 5)) == list(range(5))
            assert consumer.metrics().follower_redirects == 1
            assert len(cluster.requests.select("Fetch", broker=near)) >= 1
            # The follower goes: the leader serves again.
            await cluster.kill_broker(near, failover_delay_ms=0)
            await fill(cluster, values(1, 5))
            assert await next_value(consumer, 20) == 5


async def test_a_follower_that_is_behind_gives_way_to_the_leader() -> None:
    async with EmbeddedCluster(brokers=2, racks=["a", "b"]) as cluster:
        cluster.create_topic("events", partitions=1, replication_factor=2)
        near = next(broker for broker in (1, 2) if broker != cluster.leader("events", 0))
        await fill(cluster, values(3))
        cluster.faults.add("Fetch", broker=near, topic="events", error_code=OffsetOutOfRangeError.code, count=2)
        rack = {1: "a", 2: "b"}[near]
        async with consumer_of(cluster, "events", client_rack=rack, retry_backoff_ms=10) as consumer:
            with anyio.fail_after(20):
                assert numbers(await take(consumer, 3)) == [0, 1, 2]
            assert consumer.metrics().offset_resets == 0


async def test_positions_survive_an_answer_that_does_not_know_the_topic(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(2))
    async with consumer_of(cluster, "events", metadata_max_age_ms=50, auto_offset_reset="earliest") as consumer:
        await take(consumer, 2)
        cluster.faults.add("Metadata", topic="events", error_code=UnknownTopicOrPartitionError.code, count=5)
        await cluster.wait_for_requests("Metadata", count=9)
        assert consumer.assignment() >= {E0, E1}
        await fill(cluster, values(1, 2))
        assert await next_value(consumer, 20) == 2
