"""Members of KIP-848 groups (``group_protocol="consumer"``) at the embedded cluster's coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Producer, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import (
    CommitFailedError,
    FencedMemberEpochError,
    InvalidRegularExpressionError,
    StaleMemberEpochError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

from .support import starting

pytestmark = pytest.mark.anyio

EVENTS = [TopicPartition("events", partition) for partition in range(4)]
WITHIN_S = 20


@pytest.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    """Two brokers with a topic "events" of four partitions, and a coordinator with a short heartbeat interval."""
    options = GroupOptions(consumer_heartbeat_interval_ms=50, consumer_session_timeout_ms=30_000)
    async with EmbeddedCluster(brokers=2, groups=options) as embedded:
        embedded.create_topic("events", partitions=4)
        yield embedded


def member(cluster: EmbeddedCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    options = {"group_id": "g", "group_protocol": "consumer", "auto_offset_reset": "earliest", **options}
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **options)


async def fill(cluster: EmbeddedCluster, count: int, topic: str = "events", start: int = 0) -> None:
    """Write numbered records, in turn over the partitions."""
    async with Producer(cluster.bootstrap_servers) as producer:
        partitions = len(await producer.partitions_for(topic))
        for number in range(start, start + count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


async def until(condition: Callable[[], bool], *members: Consumer[Any, Any]) -> None:
    """Poll these members until the condition holds, and drop their records."""
    with anyio.fail_after(WITHIN_S):
        while not condition():
            for each in members:
                await each.getmany(timeout_ms=10)


async def shared(*members: Consumer[Any, Any], partitions: Collection[TopicPartition] = EVENTS) -> None:
    """Poll until these members own the partitions, each exactly once, and every member has one."""

    def is_shared() -> bool:
        owned = [tp for each in members for tp in each.assignment()]
        return sorted(owned) == sorted(partitions) and all(each.assignment() for each in members)

    await until(is_shared, *members)


class Listener:
    """A listener that keeps its arguments."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", len(partitions)))

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("revoked", len(partitions)))

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("lost", len(partitions)))


async def test_members_share_the_partitions(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events") as first:
        await shared(first)
        async with member(cluster, "events") as second:
            await shared(first, second)
            assert len(first.assignment()) == len(second.assignment()) == 2
        await shared(first)
        assert first.group_metadata().generation_id > 0
        assert cluster.requests.count("JoinGroup") == 0


async def test_who_takes_over_goes_on_where_the_other_was(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 40)
    seen: list[int] = []
    async with member(cluster, "events") as first:
        while len(seen) < 20:
            seen += [int((await first.getone()).value)]
    async with member(cluster, "events") as second:
        with anyio.fail_after(WITHIN_S):
            while len(seen) < 40:
                seen += [int((await second.getone()).value)]
    assert sorted(seen) == list(range(40))


async def test_partitions_that_stay_are_not_given_up(cluster: EmbeddedCluster) -> None:
    listener = Listener()
    async with member(cluster) as first:
        first.subscribe(["events"], listener=listener)
        await shared(first)
        async with member(cluster, "events") as second:
            await shared(first, second)
            assert listener.calls == [("assigned", 4), ("revoked", 2)]
        await shared(first)
    assert listener.calls == [("assigned", 4), ("revoked", 2), ("assigned", 2), ("revoked", 4)]


async def test_a_fenced_member_loses_its_partitions_and_comes_back(cluster: EmbeddedCluster) -> None:
    listener = Listener()
    async with member(cluster) as consumer:
        consumer.subscribe(["events"], listener=listener)
        await shared(consumer)
        cluster.faults.add("ConsumerGroupHeartbeat", count=1, error_code=FencedMemberEpochError.code)
        await until(lambda: len(listener.calls) == 3, consumer)
        assert listener.calls == [("assigned", 4), ("lost", 4), ("assigned", 4)]
        assert consumer.assignment() == set(EVENTS)


async def test_a_static_member_comes_back_to_its_partitions(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events") as other:
        async with member(cluster, "events", group_instance_id="i") as first:
            await shared(first, other)
            owned, before = first.assignment(), other.group_metadata().generation_id
        async with member(cluster, "events", group_instance_id="i") as again:
            await shared(again, other)
            assert again.assignment() == owned
        assert other.group_metadata().generation_id == before


async def test_a_static_member_whose_place_is_taken_says_so_and_waits(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"group_instance_id": "i", "retry_backoff_ms": 5, "retry_backoff_max_ms": 20}

    def tries() -> int:
        return len(cluster.requests.select("ConsumerGroupHeartbeat", client_id="second"))

    async with member(cluster, "events", **options) as first:
        await shared(first)
        async with starting(member(cluster, "events", client_id="second", **options)) as second:
            await until(lambda: second.health().kept_out is not None and tries() > 5, first, second)
            health = second.health()
            assert health.healthy, "the other one may be dead, and its session about to end"
            assert health.joined is False
            reason = "another member of the group 'g' still has the group_instance_id 'i'"
            assert health.kept_out == reason
            assert sum(reason in record.getMessage() for record in caplog.records) == 1
            assert first.health().kept_out is None
            await first.stop()
            await shared(second)
            assert second.health().kept_out is None


async def test_a_stop_waits_until_the_coordinator_has_removed_the_member(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events") as consumer:
        await shared(consumer)
        cluster.faults.add(
            "ConsumerGroupHeartbeat", when=lambda record: record.request.member_epoch == -1, delay_ms=500
        )
    async with AdminClient(cluster.bootstrap_servers) as admin:
        assert not (await admin.describe_consumer_groups(["g"]))["g"].members


async def test_a_dynamic_member_that_stops_is_replaced_at_once(cluster: EmbeddedCluster) -> None:
    """Its partitions are reassigned long before its session ends."""
    async with member(cluster, "events") as first, member(cluster, "events") as second:
        await shared(first, second)
        await second.stop()
        with anyio.fail_after(20):
            await shared(first)


async def test_the_coordinator_moves(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 8)
    async with member(cluster, "events") as consumer:
        await shared(consumer)
        cluster.move_coordinator("g")
        beats = cluster.requests.count("ConsumerGroupHeartbeat")
        await cluster.wait_for_requests("ConsumerGroupHeartbeat", count=beats + 5)
        await consumer.commit()
        assert consumer.assignment() == set(EVENTS)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_pattern(cluster: EmbeddedCluster, version: int) -> None:
    """Brokers match it if they know version 1; otherwise the client does."""
    cluster.max_versions = {"ConsumerGroupHeartbeat": version}
    cluster.create_topic("logs-a")
    async with member(cluster, metadata_max_age_ms=100) as consumer:
        consumer.subscribe(pattern="logs-.*")
        a, b = TopicPartition("logs-a", 0), TopicPartition("logs-b", 0)
        await until(lambda: consumer.assignment() == {a}, consumer)
        cluster.create_topic("logs-b")
        await fill(cluster, 1, topic="logs-b")
        await until(lambda: consumer.assignment() == {a, b}, consumer)


async def test_a_pattern_that_only_this_client_understands(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("other")
    async with member(cluster) as consumer:
        consumer.subscribe(pattern=r"(?!events)[a-z]+")
        cluster.faults.add("ConsumerGroupHeartbeat", count=1, error_code=InvalidRegularExpressionError.code)
        await until(lambda: consumer.assignment() == {TopicPartition("other", 0)}, consumer)


async def test_another_subscription(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("other")
    async with member(cluster, "events") as consumer:
        await shared(consumer)
        consumer.subscribe(["other"])
        await shared(consumer, partitions=[TopicPartition("other", 0)])
        consumer.unsubscribe()
        with anyio.fail_after(WITHIN_S):
            while consumer.assignment():
                await anyio.lowlevel.checkpoint()
        consumer.subscribe(["events"])
        await shared(consumer)


@pytest.mark.parametrize(("assignor", "one_topic_each"), [("range", False), ("uniform", False)])
async def test_the_assignor_of_the_brokers_choice(
    cluster: EmbeddedCluster, assignor: str, one_topic_each: bool
) -> None:
    async with (
        member(cluster, "events", group_remote_assignor=assignor) as first,
        member(cluster, "events", group_remote_assignor=assignor) as second,
    ):
        await shared(first, second)
        if assignor == "range":
            lower = min(first.assignment(), second.assignment(), key=min)
            assert lower == set(EVENTS[:2])


async def test_an_assignor_that_brokers_do_not_have(cluster: EmbeddedCluster) -> None:
    async with starting(member(cluster, "events", group_remote_assignor="mine")) as consumer:
        with anyio.fail_after(WITHIN_S), pytest.raises(UnsupportedAssignorError, match="mine"):
            await consumer.getone()


async def test_brokers_without_the_protocol(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"ConsumerGroupHeartbeat": -1}
    async with starting(member(cluster, "events")) as consumer:
        with anyio.fail_after(WITHIN_S), pytest.raises(UnsupportedVersionError, match='use "auto"'):
            await consumer.getone()


async def test_an_application_that_does_not_come_back_leaves_the_group(cluster: EmbeddedCluster) -> None:
    listener = Listener()
    await fill(cluster, 40)
    async with member(cluster, max_poll_interval_ms=400, enable_auto_commit=False) as consumer:
        consumer.subscribe(["events"], listener=listener)
        with anyio.fail_after(WITHIN_S):
            record = await consumer.getone()
            while ("lost", 4) not in listener.calls:  # noqa: ASYNC110 - no event
                await anyio.sleep(0.01)
            assert consumer.assignment() == frozenset()
            again = await consumer.getone(TopicPartition("events", record.partition))
        assert again.offset == record.offset
        assert listener.calls == [("assigned", 4), ("lost", 4), ("assigned", 4)]


async def test_a_live_group_moves_to_the_new_protocol(cluster: EmbeddedCluster) -> None:
    """Members move one by one, and the group's offsets are kept."""
    await fill(cluster, 40)
    seen: list[int] = []
    async with member(cluster, "events", group_protocol="classic") as old:
        while len(seen) < 20:
            seen += [int((await old.getone()).value)]
        await old.commit()
    async with member(cluster, "events") as new:
        with anyio.fail_after(WITHIN_S):
            while len(seen) < 40:
                seen += [int((await new.getone()).value)]
    assert sorted(seen) == list(range(40))


async def test_a_commit_fails_if_its_epoch_stays_stale_though_no_heartbeat_brings_another(
    cluster: EmbeddedCluster,
) -> None:
    await fill(cluster, 8)
    async with member(cluster, "events", enable_auto_commit=False) as consumer:
        await shared(consumer)
        cluster.faults.add("OffsetCommit", error_code=StaleMemberEpochError, count=1000)
        with pytest.raises(CommitFailedError, match="epoch is outdated"), anyio.fail_after(20):
            await consumer.commit({EVENTS[0]: 2})
        assert cluster.requests.count("OffsetCommit") == 3


async def test_a_commit_that_comes_with_an_old_epoch_is_repeated_with_the_new_one(cluster: EmbeddedCluster) -> None:
    """KIP-1251: brokers accept it for partitions that the member had in that epoch; for the rest it is stale."""
    await fill(cluster, 8)
    async with member(cluster, "events") as consumer:
        await shared(consumer)
        cluster.faults.add("OffsetCommit", error_code=StaleMemberEpochError, count=1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.commit, {EVENTS[0]: 2})
            await cluster.requests.wait_for("OffsetCommit")
            cluster.create_topic("more")
            consumer.subscribe(["events", "more"])  # makes the coordinator advance its epoch
        assert cluster.requests.count("OffsetCommit") >= 2
        found = await consumer.committed(EVENTS[0])
        assert found is not None
        assert found.offset == 2
