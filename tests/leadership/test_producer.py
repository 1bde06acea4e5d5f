"""Rules 11 to 18 and 20: a producer's batches when leaders move."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead.testing import EmbeddedCluster, Hint

from ..patience import again_if_late
from .support import (
    ALWAYS,
    NEVER,
    NOT_LEADER,
    TOGETHER,
    all_of,
    asked,
    assert_spaced,
    producer_of,
    until,
    values,
)

pytestmark = pytest.mark.anyio

BRIEF: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 40}


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
async def test_rule_11_a_hundred_moves_cost_one_free_retry_each(cluster: EmbeddedCluster, shared: bool) -> None:
    """With a backoff of a minute and metadata that never changes: one request to the old leader, one to the new."""
    async with producer_of(cluster, shared=shared, **NEVER) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        cluster.freeze_metadata(ALWAYS)
        for number in range(1, 101):
            before = len(asked(cluster, "Produce", broker=cluster.leader("t")))
            old = cluster.leader("t")
            cluster.move_leader("t")
            with anyio.fail_after(20):
                await producer.send_and_wait("t", b"%d" % number, partition=0)
            assert len(asked(cluster, "Produce", broker=old)) == before + 1
        metrics = producer.metrics()
    assert cluster.requests.count("Produce") == 201
    assert (metrics.retries, metrics.free_retries, metrics.catch_up_waits) == (100, 100, 0)
    assert (metrics.leader_moves, metrics.metadata.hints_accepted) == (100, 100)
    assert values(cluster) == list(range(101))


async def test_rule_11_a_leader_that_has_not_caught_up_is_asked_again_soon_and_then_later(
    cluster: EmbeddedCluster,
) -> None:
    async with producer_of(cluster, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        cluster.faults.add("Produce", broker=2, topic="t", error_code=NOT_LEADER, count=4)
        cluster.move_leader("t", to=2)
        with anyio.fail_after(20):
            await producer.send_and_wait("t", b"1", partition=0)
        requests = asked(cluster, "Produce", broker=2)
        assert len(requests) == 5
        assert_spaced(requests, first_ms=10, longest_ms=60_000)
        metrics = producer.metrics()
    assert (metrics.free_retries, metrics.catch_up_waits, metrics.retries) == (1, 4, 5)


async def test_rule_12_metadata_that_tells_an_epoch_ends_the_backoff(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"Produce": 9}
    async with producer_of(cluster, **NEVER) as producer:
        for number in range(10):
            with anyio.fail_after(20):
                await producer.send_and_wait("t", b"%d" % number, partition=0)
            cluster.move_leader("t")
        metrics = producer.metrics()
    assert metrics.retries == metrics.free_retries
    assert metrics.metadata.hints_received == 0


async def test_rule_12_a_leader_change_without_an_epoch_waits(cluster: EmbeddedCluster) -> None:
    """Before version 9, metadata has no reliable epoch."""
    cluster.max_versions = {"Produce": 9, "Metadata": 8}
    async with producer_of(cluster, retry_backoff_ms=100, retry_backoff_max_ms=100) as producer:
        for number in range(4):
            with anyio.fail_after(20):
                await producer.send_and_wait("t", b"%d" % number, partition=0)
            cluster.move_leader("t")
        metrics = producer.metrics()
    assert metrics.retries >= 3
    assert metrics.free_retries == 0
    assert values(cluster) == [0, 1, 2, 3]


@pytest.mark.parametrize("version", [9, None], ids=["without hints", "with hints"])
@again_if_late(40, 400)
async def test_rule_13_a_broker_that_refuses_for_ever_is_asked_ever_more_seldom(
    backoff_ms: int, cluster: EmbeddedCluster, version: int | None
) -> None:
    cluster.faults.clear()  # from the first attempt
    written = len(values(cluster))
    if version is not None:
        cluster.max_versions = {"Produce": version}
    async with producer_of(cluster, retry_backoff_ms=backoff_ms, retry_backoff_max_ms=4 * backoff_ms) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        cluster.requests.clear()
        rule = cluster.faults.add("Produce", topic="t", error_code=NOT_LEADER)
        delivery = await producer.send("t", b"1", partition=0)
        await cluster.wait_for_requests("Produce", count=9, timeout_ms=20_000)
        first_ms = backoff_ms if version is not None else 10
        assert_spaced(asked(cluster, "Produce"), first_ms, 4 * backoff_ms)
        # A refresh for each refusal, one already in flight, and one more whenever it was this broker's turn.
        refusals = cluster.requests.count("Produce")
        assert cluster.requests.count("Metadata") <= refusals * 4 // 3 + 1
        assert cluster.requests.count("Metadata", broker=1) <= refusals // 2
        assert producer.metrics().free_retries == 0
        rule.remove()
        assert await all_of([delivery]) == [written + 1]


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
@pytest.mark.parametrize("idempotent", [True, False])
async def test_rule_15_nothing_goes_to_the_new_leader_while_the_old_one_has_not_answered(
    cluster: EmbeddedCluster, idempotent: bool, shared: bool
) -> None:
    async with producer_of(cluster, shared=shared, enable_idempotence=idempotent, metadata_max_age_ms=20) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        slow = cluster.faults.add("Produce", broker=1, delay_ms=400, after=True, count=1)
        deliveries = []
        for number in range(1, 4):
            deliveries.append(await producer.send("t", b"%d" % number, partition=0))
            await until(lambda: producer.metrics().requests >= number + 1)  # noqa: B023
        await until(lambda: slow.struck)
        # The first of the three is in the log, the rest come too late; metadata reports the move meanwhile.
        refreshes = producer.metrics().metadata.refreshes
        cluster.move_leader("t", to=2)
        await until(lambda: producer.metrics().metadata.refreshes >= refreshes + 2)
        deliveries.append(await producer.send("t", b"4", partition=0))
        assert await all_of(deliveries) == [1, 2, 3, 4]
        answered = [record.answered for record in asked(cluster, "Produce", broker=1)]
        assert len(answered) == 4
        for record in asked(cluster, "Produce", broker=2):
            assert all(at is not None and at <= record.time for at in answered)
        assert producer.metrics().sequence_restarts == 0
    assert values(cluster) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
@pytest.mark.parametrize("hinted", [True, False], ids=["useless hints", "no hints"])
async def test_rule_16_only_the_moved_partition_waits(cluster: EmbeddedCluster, hinted: bool, shared: bool) -> None:
    """Without news of the leader, the backoff holds, and the broker's other partition continues beside it.

    If a hint was possible, the known leader may only lag: it is asked again sooner.
    """
    if hinted:
        cluster.faults.add("Produce", hint=Hint(leader_id=-1))
    else:
        cluster.max_versions = {"Produce": 9}
    cluster.create_topic("pair", assignments=TOGETHER * 2)
    async with producer_of(cluster, shared=shared, **NEVER) as producer:
        for partition in range(2):
            await producer.send_and_wait("pair", b"0", partition=partition)
        cluster.freeze_metadata(ALWAYS)
        cluster.move_leader("pair", 0, to=2)
        cluster.requests.clear()
        moved = await producer.send("pair", b"1", partition=0)
        for number in range(1, 51):
            with anyio.fail_after(20):
                await producer.send_and_wait("pair", b"%d" % number, partition=1)
        assert not moved.done()
        requests = asked(cluster, "Produce", topic="pair", partition=0)
        if hinted:
            assert_spaced(requests, first_ms=10, longest_ms=60_000)
        else:
            assert len(requests) == 1
        assert producer.metrics().free_retries == 0
        await producer.stop(timeout_ms=0)


async def test_rule_17_one_hint_moves_every_partition_of_a_leaving_broker(cluster: EmbeddedCluster) -> None:
    """The refresh after one hint covers all partitions, so the rest are never refused."""
    count = 30
    cluster.create_topic("wide", assignments=TOGETHER * count)
    async with producer_of(cluster, **NEVER) as producer:
        for partition in range(count):
            await producer.send_and_wait("wide", b"0", partition=partition)
        cluster.requests.clear()
        cluster.move_all_leaders("wide")
        refreshes = producer.metrics().metadata.refreshes
        await producer.send_and_wait("wide", b"1", partition=0)
        await until(lambda: producer.metrics().metadata.refreshes > refreshes)
        deliveries = [await producer.send("wide", b"1", partition=partition) for partition in range(1, count)]
        assert await all_of(deliveries) == [1] * (count - 1)
        assert cluster.requests.count("Produce", broker=1) == 1
        assert producer.metrics().retries == producer.metrics().free_retries == 1


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared client"])
async def test_rule_17_many_hints_in_one_answer(cluster: EmbeddedCluster, shared: bool) -> None:
    count = 30
    cluster.create_topic("wide", assignments=TOGETHER * count)
    async with producer_of(cluster, shared=shared, **NEVER) as producer:
        for partition in range(count):
            await producer.send_and_wait("wide", b"0", partition=partition)
        cluster.freeze_metadata(ALWAYS)
        for partition in range(count):
            cluster.move_leader("wide", partition, to=2 + partition % 2)
        deliveries = [await producer.send("wide", b"1", partition=partition) for partition in range(count)]
        assert await all_of(deliveries) == [1] * count
        metrics = producer.metrics()
    assert metrics.metadata.hints_accepted == metrics.free_retries == metrics.retries == count


async def test_rule_17_the_new_leader_is_connected_to_before_anything_may_go_there(cluster: EmbeddedCluster) -> None:
    """Requests to the old leader block the partition (rule 15); meanwhile the connection is made."""
    async with producer_of(cluster, **NEVER) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        cluster.freeze_metadata(ALWAYS)
        await cluster.add_broker(4)
        refused = cluster.faults.add("Produce", broker=1, hold=True, after=True, count=1)
        cluster.reassign("t", 0, [4, 2, 3])
        deliveries = [await producer.send("t", b"1", partition=0)]
        await until(lambda: refused.struck)
        cluster.faults.add("Produce", broker=1, drop=True)
        deliveries.append(await producer.send("t", b"2", partition=0))
        assert cluster.connection_count(4) == 0
        refused.release()
        await until(lambda: cluster.connection_count(4) == 1)
        assert not asked(cluster, "Produce", broker=4)
        await cluster.kill_broker(1)  # ends all requests to it
        assert await all_of(deliveries) == [1, 2]
        # Metadata may have been requested there as well, on a later connection.
        first_connection = min(record.connection for record in cluster.requests.select(broker=4))
        assert {record.connection for record in asked(cluster, "Produce", broker=4)} == {first_connection}
    assert values(cluster) == [0, 1, 2]


async def test_rule_20_a_partition_without_a_leader_waits_for_one(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("lone", assignments=[[2]])
    async with producer_of(cluster, **BRIEF) as producer:
        await producer.send_and_wait("lone", b"0", partition=0)
        await cluster.stop_broker(2)
        delivery = await producer.send("lone", b"1", partition=0)
        refreshes = producer.metrics().metadata.refreshes
        await until(lambda: producer.metrics().metadata.refreshes >= refreshes + 3)
        assert not delivery.done()
        await cluster.start_broker(2)
        assert await all_of([delivery]) == [1]


@pytest.mark.parametrize("frozen", [True, False], ids=["hints only", "metadata too"])
async def test_rule_20_there_and_back_again(cluster: EmbeddedCluster, frozen: bool) -> None:
    """The leader moves away, and back while the batch is in flight to the other one."""
    async with producer_of(cluster, **NEVER) as producer:
        await producer.send_and_wait("t", b"0", partition=0)
        if frozen:
            cluster.freeze_metadata(ALWAYS)
        for number in range(1, 6):
            first = cluster.leader("t")
            cluster.move_leader("t")
            other = cluster.leader("t")
            back = iter([True])

            def move_back(_: object, first: int = first, back: Any = back) -> bool:
                if next(back, False):
                    cluster.move_leader("t", to=first)
                return False

            rule = cluster.faults.add("Produce", broker=other, when=move_back)
            with anyio.fail_after(20):
                await producer.send_and_wait("t", b"%d" % number, partition=0)
            rule.remove()
            if next(back, False):  # news of the move arrived before it sent, and the batch met no refusal
                cluster.move_leader("t", to=first)
        assert producer.metrics().retries == producer.metrics().free_retries
    assert values(cluster) == list(range(6))
