"""Ownership of partitions while members of a classic group join, leave, die and move."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, ShareConsumer, TopicPartition
from aiokafka_lead.admin import NewPartitions
from aiokafka_lead.errors import FencedInstanceIdError, GroupAuthorizationFailedError, InconsistentGroupProtocolError
from aiokafka_lead.testing import EmbeddedCluster

from .support import ALL, GROUP, Recorder, fill, member, read_on, reading, shared, starting, until, vanish

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky"])
async def test_members_share_the_partitions(cluster: EmbeddedCluster, strategy: str) -> None:
    options = {"partition_assignment_strategy": [strategy]}
    one, two = member(cluster, "events", **options), member(cluster, "events", **options)
    async with one, two, reading(one, two):
        await until(lambda: shared([one, two]))
        async with member(cluster, "events", **options) as three, reading(three):
            await until(lambda: shared([one, two, three]))
            assert {len(consumer.assignment()) for consumer in (one, two, three)} == {2}
        await until(lambda: shared([one, two]))


async def test_in_a_cooperative_group_what_stays_is_never_given_up(cluster: EmbeddedCluster) -> None:
    recorders = [Recorder(), Recorder(), Recorder()]
    consumers = [member(cluster) for _ in recorders]
    for consumer, recorder in zip(consumers, recorders, strict=True):
        consumer.subscribe(["events"], listener=recorder)
    one, two, three = consumers
    async with one, two, reading(one, two):
        await until(lambda: shared([one, two]))
        before = [consumer.assignment() for consumer in (one, two)]
        for recorder in recorders:
            recorder.heard.clear()
        async with three, reading(three):
            await until(lambda: shared(consumers))
            for had, consumer, recorder in zip(before, consumers, recorders, strict=False):
                assert consumer.assignment() < had
                assert frozenset().union(*recorder.named("revoked")) == had - consumer.assignment()
                assert not any(recorder.named("assigned") + recorder.named("lost"))


async def test_a_dead_member_is_replaced(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events") as one:
        two = member(cluster, "events", session_timeout_ms=1_000)
        await two.start()
        async with reading(one, two):
            await until(lambda: shared([one, two]))
        await vanish(two)
        async with reading(one):
            await until(lambda: one.assignment() == ALL)


async def test_a_mixed_group_moves_to_the_assignor_that_all_know(cluster: EmbeddedCluster) -> None:
    """Members with partitions from a cooperative generation give them up before an eager one assigns them again."""
    async with member(cluster, "events") as one, reading(one):
        await until(lambda: one.assignment() == ALL)
        options = {"partition_assignment_strategy": ["range"]}
        async with member(cluster, "events", **options) as two, reading(two):
            await until(lambda: shared([one, two]))
            assert one.assignment() | two.assignment() == ALL
        await until(lambda: one.assignment() == ALL)


async def test_new_partitions_are_taken_up(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events") as one, member(cluster, "events") as two, reading(one, two):
        await until(lambda: shared([one, two]))
        async with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.create_partitions({"events": NewPartitions(8)})
        more = ALL | {TopicPartition("events", 6), TopicPartition("events", 7)}
        await until(lambda: shared([one, two], more))


async def test_latest_misses_nothing_of_partitions_that_are_new(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events", auto_offset_reset="latest") as consumer, reading(consumer) as got:
        await until(lambda: consumer.assignment() == ALL)
        for tp in ALL:
            await consumer.position(tp)
        async with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.create_partitions({"events": NewPartitions(7)})
        await fill(cluster, 3, partitions=7)
        await until(lambda: len(got) >= 21)


async def test_a_pattern_picks_up_new_topics(cluster: EmbeddedCluster) -> None:
    consumer = member(cluster)
    consumer.subscribe(pattern="ev.*")
    async with consumer, reading(consumer) as got:
        await until(lambda: consumer.assignment() == ALL)
        cluster.create_topic("everything", partitions=1)
        cluster.create_topic("other", partitions=1)
        await until(lambda: TopicPartition("everything", 0) in consumer.assignment())
        await fill(cluster, 3, "everything", 1)
        await until(lambda: len(got) >= 3)
        assert consumer.subscription() == {"events", "everything"}


async def test_a_new_topic_is_shared_at_once_with_members_that_have_not_heard_of_it(cluster: EmbeddedCluster) -> None:
    """A member that joins after these requests looks for new topics first."""
    slow = {"metadata_max_age_ms": 300_000}
    async with member(cluster) as one, member(cluster, **slow) as two, reading(one, two):
        for consumer in (one, two):
            consumer.subscribe(pattern="new.*|events")
        await until(lambda: shared([one, two]))
        cluster.create_topic("new", partitions=2)
        await until(lambda: shared([one, two], ALL | {TopicPartition("new", 0), TopicPartition("new", 1)}))
        await until(lambda: all(consumer.subscription() == {"events", "new"} for consumer in (one, two)))


async def test_who_looks_for_new_topics_and_finds_none_joins_at_once(cluster: EmbeddedCluster) -> None:
    """It waits for the answer only, which equals the former one."""
    slow = {"metadata_max_age_ms": 300_000}
    consumers = [member(cluster, **slow) for _ in range(3)]
    for consumer in consumers:
        consumer.subscribe(pattern="ev.*")
    one, two, three = consumers
    async with one, two, reading(one, two):
        await until(lambda: shared([one, two]))
        async with three, reading(three):
            await until(lambda: shared(consumers))


async def test_another_subscription(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("other", partitions=2)
    async with member(cluster, "events") as consumer:
        async with reading(consumer):
            await until(lambda: consumer.assignment() == ALL)
            consumer.subscribe(["other"])
            await until(lambda: {tp.topic for tp in consumer.assignment()} == {"other"})
        consumer.unsubscribe()
        await until(lambda: not consumer.assignment())
        await cluster.wait_for_requests("LeaveGroup")
        consumer.assign([TopicPartition("events", 1)])
        await until(lambda: consumer.assignment() == {TopicPartition("events", 1)})
        consumer.subscribe(["other"])
        async with reading(consumer):
            await until(lambda: {tp.topic for tp in consumer.assignment()} == {"other"})


async def test_a_static_member_keeps_its_place(cluster: EmbeddedCluster) -> None:
    """KIP-345: neither its end nor its return causes a rebalance."""
    recorder = Recorder()
    one = member(cluster)
    one.subscribe(["events"], listener=recorder)
    async with one, reading(one):
        async with member(cluster, "events", group_instance_id="i") as two, reading(two):
            await until(lambda: shared([one, two]))
            had = two.assignment()
        recorder.heard.clear()
        async with member(cluster, "events", group_instance_id="i") as again, reading(again):
            await until(lambda: again.assignment() == had)
        assert not recorder.heard
        assert not cluster.requests.select("LeaveGroup")


@pytest.mark.parametrize("topics", [["other"], ["events", "other"]], ids=["others", "more"])
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
async def test_a_static_member_that_comes_back_to_other_topics_gets_them(
    cluster: EmbeddedCluster, topics: list[str], leads: bool
) -> None:
    """The coordinator gives it the previous assignment, without a rebalance (KAFKA-12759)."""
    cluster.create_topic("other", partitions=2)
    others = {TopicPartition("other", 0), TopicPartition("other", 1)}
    stays, static = member(cluster, "events"), member(cluster, "events", group_instance_id="i")
    for consumer in (static, stays) if leads else (stays, static):
        await consumer.start()
    try:
        async with reading(static, stays):
            await until(lambda: shared([static, stays]))
        await static.stop()
        async with member(cluster, *topics, group_instance_id="i") as again, reading(stays, again):
            await until(lambda: shared([stays, again], ALL | others))
            assert {tp.topic for tp in again.assignment()} == set(topics)
    finally:
        await stays.stop()


async def test_a_static_leader_that_comes_back_assigns_partitions_that_were_added(cluster: EmbeddedCluster) -> None:
    """The coordinator gives it the previous assignment, without a rebalance."""
    async with member(cluster, "events", group_instance_id="i") as consumer, reading(consumer):
        await until(lambda: consumer.assignment() == ALL)
    cluster.add_partitions("events", len(ALL) + 2)
    async with member(cluster, "events", group_instance_id="i") as again, reading(again):
        await until(lambda: len(again.assignment()) == len(ALL) + 2)


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
async def test_who_leaves_tells_the_coordinator_that_has_just_taken_over(
    cluster: EmbeddedCluster, protocol: str
) -> None:
    """Otherwise, the others would wait until its session expires."""
    options: dict[str, Any] = {"group_id": GROUP}
    if protocol == "share":
        leaving: Any = ShareConsumer("events", bootstrap_servers=cluster.bootstrap_servers, **options)
    else:
        slow = {"group_protocol": protocol, "heartbeat_interval_ms": 3000, "enable_auto_commit": False}
        leaving = member(cluster, "events", **slow)
    async with leaving, AdminClient(cluster.bootstrap_servers) as admin:
        await until(lambda: bool(leaving.assignment()))
        describe = admin.describe_share_groups if protocol == "share" else admin.describe_consumer_groups
        before: Any = (await describe([GROUP]))[GROUP]
        assert before.members
        cluster.move_coordinator(GROUP, before.coordinator_id % 3 + 1)
        await leaving.stop()
        after: Any = (await describe([GROUP]))[GROUP]
        assert not after.members
        assert after.coordinator_id != before.coordinator_id


async def test_a_fenced_static_member_says_so(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events", group_instance_id="i") as one:
        async with reading(one):
            await until(lambda: one.assignment() == ALL)
        async with member(cluster, "events", group_instance_id="i") as two, reading(two):
            await until(lambda: two.assignment() == ALL)
            for _ in range(2):
                with anyio.fail_after(20), pytest.raises(FencedInstanceIdError):
                    await read_on(one)
            await until(lambda: not one.assignment())


async def test_what_keeps_it_out_is_raised_and_may_pass(cluster: EmbeddedCluster) -> None:
    rule = cluster.faults.add("JoinGroup", error_code=GroupAuthorizationFailedError.code)
    async with starting(member(cluster, "events")) as consumer:
        for _ in range(2):
            with anyio.fail_after(20), pytest.raises(GroupAuthorizationFailedError):
                await read_on(consumer)
        rule.remove()
        with anyio.fail_after(20):
            while consumer.assignment() != ALL:
                try:
                    await consumer.getmany(timeout_ms=50)
                except GroupAuthorizationFailedError:
                    continue


async def test_without_a_common_assignor_it_says_so(cluster: EmbeddedCluster) -> None:
    async with member(cluster, "events", partition_assignment_strategy=["range"]) as one, reading(one):
        await until(lambda: one.assignment() == ALL)
        async with starting(member(cluster, "events", partition_assignment_strategy=["sticky"])) as two:
            with anyio.fail_after(20), pytest.raises(InconsistentGroupProtocolError):
                await two.getone()


@pytest.mark.parametrize("code", [14, 15, 16, 25, 27])
async def test_errors_that_pass(cluster: EmbeddedCluster, code: int) -> None:
    # A member that learns that it is unknown rejoins, and the group waits briefly for its former self.
    session_timeout_ms = 1_000 if code == 25 else 20_000
    for api in ("Heartbeat",) if code == 25 else ("JoinGroup", "SyncGroup", "Heartbeat"):
        cluster.faults.add(api, error_code=code, count=2)
    one, two = (member(cluster, "events", session_timeout_ms=session_timeout_ms) for _ in range(2))
    async with one, two, reading(one, two):
        await until(lambda: shared([one, two]))


async def test_a_coordinator_that_moves_or_dies_is_followed(cluster: EmbeddedCluster) -> None:
    recorder = Recorder()
    one = member(cluster)
    one.subscribe(["events"], listener=recorder)
    async with one, member(cluster, "events") as two, reading(one, two):
        await until(lambda: shared([one, two]))
        recorder.heard.clear()
        cluster.move_coordinator("g")
        with anyio.fail_after(20):
            await one.commit()
        await cluster.kill_broker(cluster.coordinator("g"))
        with anyio.fail_after(20):
            await one.commit()
            await two.commit()
        assert shared([one, two])
        assert not recorder.named("lost")


async def test_stop_ends_with_every_broker_gone(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 3)
    async with member(cluster, "events") as consumer:
        async with reading(consumer) as got:
            await until(lambda: len(got) >= 18)
        for broker in (1, 2, 3):
            await cluster.kill_broker(broker)
        with anyio.fail_after(20):
            await consumer.stop(timeout_ms=1_000)


async def test_who_is_stopped_at_once_holds_nobody_up(cluster: EmbeddedCluster) -> None:
    for _ in range(3):
        async with member(cluster, "events"):
            pass
    async with member(cluster, "events") as consumer, reading(consumer):
        await until(lambda: consumer.assignment() == ALL, timeout_s=15)


async def test_fifty_members_share_five_hundred_partitions(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("many", partitions=500, replication_factor=1)
    options = {"heartbeat_interval_ms": 1_000, "metadata_max_age_ms": 300_000}
    options["socket_connection_setup_timeout_ms"] = 60_000  # all connect at once
    consumers = [member(cluster, "many", **options) for _ in range(50)]
    async with anyio.create_task_group() as tasks:
        for consumer in consumers:
            tasks.start_soon(consumer.start)
    await until(lambda: {len(consumer.assignment()) for consumer in consumers} == {10}, timeout_s=60)
    assert len(frozenset().union(*(consumer.assignment() for consumer in consumers))) == 500
    async with anyio.create_task_group() as tasks:
        for consumer in consumers:
            tasks.start_soon(consumer.stop)
