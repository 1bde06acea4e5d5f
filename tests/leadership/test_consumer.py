"""Rules 20, 22 and 23: a consumer follows the leaders of its partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from aiokafka_lead._core.trust import DOUBT_AFTER
from aiokafka_lead.errors import UnknownLeaderEpochError
from aiokafka_lead.testing import EmbeddedCluster, Hint

from .support import (
    ALWAYS,
    NEVER,
    NOT_LEADER,
    T0,
    TOGETHER,
    asked,
    assert_spaced,
    consumer_of,
    fill,
    next_number,
    producer_of,
    until,
)

pytestmark = pytest.mark.anyio

BRIEF: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 40}


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
async def test_rule_22_forty_moves_without_a_backoff(cluster: EmbeddedCluster, shared: bool) -> None:
    """Only hints bring the news, and a backoff would last a minute."""
    async with (
        consumer_of(cluster, "t", shared=shared, **NEVER) as consumer,
        producer_of(cluster, shared=shared, **NEVER) as producer,
    ):
        await producer.send_and_wait("t", b"0", partition=0)
        assert await next_number(consumer) == 0
        cluster.freeze_metadata(ALWAYS)
        for number in range(1, 41):
            cluster.move_leader("t")
            with anyio.fail_after(20):
                await producer.send_and_wait("t", b"%d" % number, partition=0)
            assert await next_number(consumer) == number
        metrics = consumer.metrics()
    assert metrics.metadata.hints_accepted == 40
    assert metrics.free_retries == metrics.leader_moves == 40
    assert 0 < metrics.leader_move_ms_max <= metrics.leader_move_ms_total
    assert metrics.truncations == metrics.offset_resets == 0


async def test_rule_22_the_move_does_not_wait_for_the_application(cluster: EmbeddedCluster) -> None:
    """The new leader is fetched from even if the buffer has unread records."""
    await fill(cluster, 10)
    async with consumer_of(cluster, "t", **NEVER) as consumer:
        assert await next_number(consumer) == 0
        await until(lambda: (lambda p: p.high_watermark == 10 and p.buffered_bytes)(consumer.metrics().partitions[T0]))
        cluster.move_leader("t", to=2)
        await until(lambda: asked(cluster, "Fetch", broker=2))
        position = await consumer.position(T0)
        assert position == 1
        await fill(cluster, 1, first=10)
        assert [await next_number(consumer) for _ in range(10)] == list(range(1, 11))


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
@pytest.mark.parametrize("busy", [False, True], ids=["not asked yet", "with a fetch of its own"])
async def test_rule_22_a_fetch_that_the_former_leader_holds_is_not_waited_for(
    cluster: EmbeddedCluster, shared: bool, busy: bool
) -> None:
    """Brokers that do not end it on a leader move answer after its maximum wait; only metadata is quicker."""
    cluster.create_topic("pair", assignments=[[1, 2, 3], [2 if busy else 3, 1]])
    await fill(cluster, 1, "pair")
    held = cluster.faults.add("Fetch", broker=1, hold=True, when=lambda _: cluster.leader("pair", 0) == 1, skip=1)
    options: dict[str, Any] = {**NEVER, "metadata_max_age_ms": 50, "fetch_max_wait_ms": 25_000}
    async with consumer_of(cluster, "pair", shared=shared, **options) as consumer:
        assert await next_number(consumer) == 0
        await until(lambda: held.struck)
        cluster.move_leader("pair", to=2)
        await fill(cluster, 2, "pair", first=1)
        assert [await next_number(consumer) for _ in range(2)] == [1, 2]
        held.release()  # its answer names a leader that is no news
        await fill(cluster, 1, "pair", first=3)
        assert await next_number(consumer) == 3


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
async def test_rule_22_records_that_the_former_leader_sends_late_come_once(
    cluster: EmbeddedCluster, shared: bool
) -> None:
    await fill(cluster, 1)
    options: dict[str, Any] = {**NEVER, "metadata_max_age_ms": 50}
    async with consumer_of(cluster, "t", shared=shared, **options) as consumer:
        assert await next_number(consumer) == 0
        held = cluster.faults.add("Fetch", broker=1, hold=True, after=True)
        await fill(cluster, 2, first=1)
        await until(lambda: held.struck)
        cluster.move_leader("t", to=2)
        assert [await next_number(consumer) for _ in range(2)] == [1, 2]
        held.release()
        await fill(cluster, 1, first=3)
        assert await next_number(consumer) == 3


async def test_rule_22_the_new_leader_is_asked_at_its_epoch_and_checks_the_position(cluster: EmbeddedCluster) -> None:
    """KIP-320: the epochs in the fetch save the round trip of OffsetsForLeaderEpoch."""
    await fill(cluster, 3)
    async with consumer_of(cluster, "t", **NEVER) as consumer:
        assert [await next_number(consumer) for _ in range(3)] == [0, 1, 2]
        cluster.move_leader("t", to=2)
        await until(lambda: asked(cluster, "Fetch", broker=2))
        fetched = asked(cluster, "Fetch", broker=2)[0].request.topics[0].partitions[0]
        assert (fetched.current_leader_epoch, fetched.last_fetched_epoch, fetched.fetch_offset) == (1, 0, 3)
        assert cluster.requests.count("OffsetForLeaderEpoch") == 0


async def test_rule_22_an_unclean_move_is_noticed(cluster: EmbeddedCluster) -> None:
    """The new leader has fewer records: reading continues from the offset at which the logs diverge."""
    await fill(cluster, 5)
    async with consumer_of(cluster, "t", **NEVER) as consumer:
        assert [await next_number(consumer) for _ in range(5)] == [0, 1, 2, 3, 4]
        cluster.truncate("t", 0, 3)
        await fill(cluster, 4, first=10)
        assert [await next_number(consumer) for _ in range(4)] == [10, 11, 12, 13]
        assert consumer.metrics().truncations == 1


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
async def test_rule_22_a_refused_partition_is_left_alone_until_it_has_moved(
    cluster: EmbeddedCluster, shared: bool
) -> None:
    """Its hint is useless and metadata lags: the old leader is not asked again, and its other partition is read on."""
    cluster.create_topic("pair", assignments=TOGETHER * 2)
    # In force before any fetch that might wait for records.
    cluster.faults.add("Fetch", hint=Hint(leader_id=-1))
    async with (
        consumer_of(cluster, "pair", shared=shared, **NEVER) as consumer,
        producer_of(cluster, shared=shared) as producer,
    ):
        for partition in range(2):
            await producer.send_and_wait("pair", b"%d" % partition, partition=partition)
        assert {await next_number(consumer), await next_number(consumer)} == {0, 1}
        cluster.freeze_metadata(ALWAYS)
        cluster.move_leader("pair", 0, to=2)
        await until(lambda: consumer.metrics().fetch_errors)
        known = 0
        errors: Mapping[int, int] = {}
        for number in range(2, 12):
            await producer.send_and_wait("pair", b"%d" % number, partition=1)
            assert await next_number(consumer) == number
            if number == 4:
                # A request beside the session's may have been in flight when that one was refused.
                known = len(asked(cluster, "Fetch", topic="pair", partition=0))
                errors = consumer.metrics().fetch_errors
        assert consumer.metrics().fetch_errors == errors
        assert len(asked(cluster, "Fetch", topic="pair", partition=0)) == known


async def test_rule_22_the_preferred_replica_is_forgotten_at_a_move() -> None:
    """KIP-392: the follower refuses an outdated epoch; the leader is asked, and names a follower again."""
    async with EmbeddedCluster(brokers=3, racks=["a", "b", "c"]) as cluster:
        cluster.create_topic("t", assignments=TOGETHER)
        await fill(cluster, 1)
        async with consumer_of(cluster, "t", client_rack="c", **NEVER) as consumer:
            assert await next_number(consumer) == 0
            await until(lambda: asked(cluster, "Fetch", broker=3))
            cluster.move_leader("t", to=2)
            await fill(cluster, 1, first=1)
            assert await next_number(consumer) == 1
            assert asked(cluster, "Fetch", broker=2)
            await until(lambda: consumer.metrics().follower_redirects == 2)


async def test_rule_23_a_broker_that_is_behind_is_asked_again_without_a_refresh(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    cluster.faults.add("Fetch", topic="t", error_code=UnknownLeaderEpochError.code, count=DOUBT_AFTER - 1)
    async with consumer_of(cluster, "t", retry_backoff_ms=60_000, retry_backoff_max_ms=60_000) as consumer:
        await until(lambda: consumer.metrics().fetch_errors)
        refreshes = cluster.requests.count("Metadata")
        assert await next_number(consumer) == 0
        assert consumer.metrics().fetch_errors == {75: DOUBT_AFTER - 1}
        assert_spaced(asked(cluster, "Fetch")[:DOUBT_AFTER], first_ms=10, longest_ms=60_000)
        assert cluster.requests.count("Metadata") == refreshes


async def test_rule_13_a_broker_that_refuses_for_ever_is_asked_ever_more_seldom(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    rule = cluster.faults.add("Fetch", topic="t", error_code=NOT_LEADER)
    async with consumer_of(cluster, "t", retry_backoff_ms=40, retry_backoff_max_ms=160) as consumer:
        await until(lambda: rule.struck >= 7)
        assert_spaced(asked(cluster, "Fetch")[:7], first_ms=40, longest_ms=160)
        rule.remove()
        assert await next_number(consumer) == 0


async def test_rule_20_a_partition_without_a_leader_waits_for_one(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("lone", assignments=[[2]])
    await fill(cluster, 1, "lone")
    async with consumer_of(cluster, "lone", **BRIEF) as consumer:
        assert await next_number(consumer) == 0
        await cluster.stop_broker(2)
        refreshes = consumer.metrics().metadata.refreshes
        await until(lambda: consumer.metrics().metadata.refreshes >= refreshes + 3)
        await cluster.start_broker(2)
        await fill(cluster, 1, "lone", first=1)
        assert await next_number(consumer) == 1
