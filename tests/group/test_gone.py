"""Groups whose topic is deleted, or recreated with fewer partitions: the rest is committed without delay."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, OffsetAndMetadata, TopicPartition
from aiokafka_lead.errors import UnknownTopicOrPartitionError
from aiokafka_lead.testing import EmbeddedCluster

from .support import GROUP, fill, member, reading, starting, until

pytestmark = pytest.mark.anyio

OTHER = TopicPartition("other", 0)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
SOON_S = 20
"""Much shorter than ``default_api_timeout_ms``, for which a commit was retried, delaying the group."""


@pytest.fixture(autouse=True)
def other(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("other", partitions=2, replication_factor=3)


def member_of(cluster: EmbeddedCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    options.setdefault("group_protocol", "classic")
    if options["group_protocol"] == "consumer":
        options |= {"heartbeat_interval_ms": 3_000, "session_timeout_ms": 45_000}
    return member(cluster, *topics, allow_auto_create_topics=False, **options)


async def committed(cluster: EmbeddedCluster) -> dict[TopicPartition, int]:
    async with AdminClient(cluster.bootstrap_servers) as admin:
        offsets = await admin.list_consumer_group_offsets(GROUP)
    return {tp: offset.offset for tp, offset in offsets.items() if offset is not None}


def of_other(*consumers: Consumer[Any, Any]) -> list[TopicPartition]:
    return sorted(tp for consumer in consumers for tp in consumer.assignment() if tp.topic == "other")


async def read(consumer: Consumer[Any, Any], count: int) -> None:
    with anyio.fail_after(SOON_S):
        while count > 0:
            count -= sum(map(len, (await consumer.getmany(timeout_ms=200)).values()))


def make_again(cluster: EmbeddedCluster, partitions: int) -> None:
    cluster.delete_topic("events")
    cluster.create_topic("events", partitions=partitions, replication_factor=3)


async def test_a_commit_stores_the_others(cluster: EmbeddedCluster) -> None:
    """The client need not have metadata of the topics."""
    given = {TopicPartition("nowhere", 0): 1, TopicPartition("events", 9): 1, OTHER: 1}
    async with member_of(cluster) as consumer:
        with anyio.fail_after(SOON_S), pytest.raises(UnknownTopicOrPartitionError, match="events-9, nowhere-0"):
            await consumer.commit(given)
        assert await committed(cluster) == {OTHER: 1}


async def test_a_coordinator_that_has_not_heard_of_a_topic_is_asked_again(cluster: EmbeddedCluster) -> None:
    """Other brokers know the topic, so the commit is retried."""
    fault = cluster.faults.add("OffsetCommit", topic="other", count=8, error_code=3)
    async with member_of(cluster) as consumer:
        with anyio.fail_after(SOON_S):
            await consumer.commit({OTHER: 1})
    assert fault.struck == 8
    assert await committed(cluster) == {OTHER: 1}


async def test_a_topic_that_is_just_being_made_is_waited_for(cluster: EmbeddedCluster) -> None:
    """Brokers learn of it one by one: for a while all of them lack it."""
    cluster.faults.add("OffsetCommit", topic="other", count=4, error_code=3)
    cluster.faults.add("Metadata", topic="other", count=3, error_code=3)
    async with member_of(cluster) as consumer:
        with anyio.fail_after(SOON_S):
            await consumer.commit({OTHER: 1})


@PROTOCOLS
async def test_a_deleted_topic_holds_up_no_rebalance(cluster: EmbeddedCluster, protocol: str) -> None:
    await fill(cluster, 1)
    await fill(cluster, 1, "other", 2)
    options = {"group_protocol": protocol}
    async with member_of(cluster, "events", "other", **options) as one:
        await read(one, 8)
        cluster.delete_topic("events")
        async with reading(one), starting(member_of(cluster, "other", **options)) as two, reading(two):
            # It may get both partitions: a leader that has not missed the topic yet balances with it.
            await until(
                lambda: bool(two.assignment()) and of_other(one, two) == [OTHER, OTHER._replace(partition=1)], SOON_S
            )
        with anyio.fail_after(SOON_S):
            await one.commit()
        assert set(await committed(cluster)) >= {tp for tp in one.assignment() if tp.topic == "other"}


@PROTOCOLS
async def test_stop_does_not_wait_for_it(cluster: EmbeddedCluster, protocol: str) -> None:
    await fill(cluster, 1)
    await fill(cluster, 1, "other", 2)
    consumer = member_of(cluster, "events", "other", group_protocol=protocol)
    await consumer.start()
    await read(consumer, 8)
    await consumer.getmany(timeout_ms=0)
    cluster.delete_topic("events")
    with anyio.fail_after(SOON_S):
        await consumer.stop(timeout_ms=120_000)
    assert await committed(cluster) == {OTHER: 1, TopicPartition("other", 1): 1}


@PROTOCOLS
async def test_a_topic_that_is_made_again_smaller_is_shared_again(cluster: EmbeddedCluster, protocol: str) -> None:
    await fill(cluster, 3)
    async with member_of(cluster, "events", group_protocol=protocol) as consumer:
        await read(consumer, 18)
        await consumer.commit()
        make_again(cluster, 2)
        async with reading(consumer) as got:
            await fill(cluster, 1, partitions=2)
            await until(lambda: len(got) >= 2)
            await until(lambda: {tp.partition for tp in consumer.assignment()} == {0, 1})
        with anyio.fail_after(SOON_S):
            await consumer.commit()
        await until(lambda: consumer.health().absent == ())
    found = await committed(cluster)
    assert {tp.partition: offset for tp, offset in found.items() if tp.partition < 2} == {0: 1, 1: 1}


async def test_nothing_of_the_old_log_is_committed_to_the_new_one(cluster: EmbeddedCluster) -> None:
    """A member that starts there would skip records of the new log."""
    first = TopicPartition("events", 0)
    await fill(cluster, 5, partitions=1)
    options = {"enable_auto_commit": False}
    async with member_of(cluster, "events", **options) as consumer:
        await read(consumer, 5)
        await fill(cluster, 1, partitions=1)
        batch = await anext(aiter(consumer.batches()))
        hold = cluster.faults.add("ListOffsets", hold=True)
        make_again(cluster, 6)
        await cluster.requests.wait_for("ListOffsets", count=len(cluster.requests.select("ListOffsets")) + 1)
        await consumer.commit()
        assert first not in await committed(cluster)
        assert not await batch.commit()
        assert first not in await committed(cluster)
        hold.remove()


async def test_a_batch_of_a_deleted_topic_is_not_committed(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1, partitions=1)
    async with member_of(cluster, "events") as consumer:
        batch = await anext(aiter(consumer.batches()))
        cluster.delete_topic("events")
        with anyio.fail_after(SOON_S):
            assert not await batch.commit()


async def until_only_others_are_committed(cluster: EmbeddedCluster) -> None:
    seen = cluster.requests.count("OffsetCommit")  # before the check: the last commit may come during it
    while set(await committed(cluster)) != {OTHER, TopicPartition("other", 1)}:
        await cluster.requests.wait_for("OffsetCommit", count=seen + 1)
        seen = cluster.requests.count("OffsetCommit")


async def test_automatic_commits_go_on(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    await fill(cluster, 1, "other", 2)
    async with member_of(cluster, "events", "other", auto_commit_interval_ms=100) as consumer:
        await read(consumer, 8)
        cluster.delete_topic("events")
        async with reading(consumer):
            with anyio.fail_after(SOON_S):
                await until_only_others_are_committed(cluster)


async def test_run_goes_on(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    handled = []

    async def handle(record: Any) -> None:
        handled.append(record.topic)

    options = {"auto_commit_interval_ms": 100}
    async with member_of(cluster, "events", "other", **options) as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handle)
        await until(lambda: handled.count("events") == 6)
        cluster.delete_topic("events")
        await fill(cluster, 1, "other", 2)
        await until(lambda: handled.count("other") == 2)
        with anyio.fail_after(SOON_S):
            await until_only_others_are_committed(cluster)
        tasks.cancel_scope.cancel()


async def test_run_says_what_it_could_not_commit(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    """The topic is deleted after the commit was sent."""
    await fill(cluster, 1)
    held = cluster.faults.add("OffsetCommit", hold=True, count=1)

    async def handle(_: Any) -> None:
        pass

    async with member_of(cluster, "events", auto_commit_interval_ms=50) as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handle)
        await cluster.wait_for_requests("OffsetCommit")
        cluster.delete_topic("events")
        held.release()
        await until(lambda: "no longer has it" in caplog.text, SOON_S)
        tasks.cancel_scope.cancel()


async def test_the_offset_of_nobody(cluster: EmbeddedCluster) -> None:
    """An offset of a consumer that assigns its partitions itself."""
    first = TopicPartition("events", 0)
    async with member_of(cluster) as consumer:
        consumer.assign([first, OTHER])
        await consumer.commit({first: 1, OTHER: 1})
        cluster.delete_topic("events")
        with anyio.fail_after(SOON_S), pytest.raises(UnknownTopicOrPartitionError, match="events-0"):
            await consumer.commit({first: 2, OTHER: OffsetAndMetadata(2)})
        assert (await committed(cluster))[OTHER] == 2
