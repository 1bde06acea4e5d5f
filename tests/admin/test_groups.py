"""Groups and their offsets, by the admin client on embedded brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, OffsetAndMetadata, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.admin import (
    AdminClient,
    ClassicGroupDescription,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConsumerGroupDescription,
    GroupState,
    GroupType,
    OffsetSpec,
    ToOffset,
    ToShifted,
    outcomes_of,
)
from aiokafka_lead.errors import (
    ConfigError,
    ConfigTypeError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidConfigError,
    KafkaError,
    NonEmptyGroupError,
    NotCoordinatorError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import change_answers, make_admin, write

pytestmark = pytest.mark.anyio

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(cluster: EmbeddedCluster, group_id: str, **options: Any) -> Consumer[Any, Any]:
    return Consumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id=group_id, client_id="app", **options)


async def listed(admin: AdminClient, **filters: Any) -> dict[str, tuple[GroupType, GroupState]]:
    return {group.group_id: (group.type, group.state) async for group in admin.list_groups(**filters)}


async def test_groups_of_both_protocols_are_listed_and_described() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        async with member(cluster, "old"), member(cluster, "new", group_protocol="consumer"):
            await admin.alter_consumer_group_offsets("kept", {T0: 0})
            assert await listed(admin) == {
                "old": (GroupType.CLASSIC, GroupState.STABLE),
                "new": (GroupType.CONSUMER, GroupState.STABLE),
                "kept": (GroupType.CLASSIC, GroupState.EMPTY),
            }
            assert set(await listed(admin, states=[GroupState.EMPTY])) == {"kept"}
            assert set(await listed(admin, types=[GroupType.CONSUMER])) == {"new"}
            assert set(await listed(admin, protocol_types=["consumer"])) == {"old", "new"}
            described = await admin.describe_consumer_groups(["old", "new", "kept"])
            for name in ("old", "new"):
                group = described[name]
                assert group.state is GroupState.STABLE
                assert [(each.client_id, each.assignment, each.subscribed_topics) for each in group.members] == [
                    ("app", (T0, T1), ("t",))
                ]
                assert group.coordinator_id in (1, 2, 3)
            assert described["new"].members[0].target_assignment == (T0, T1)
            assert described["old"].members[0].target_assignment is None
            assert described["kept"].is_simple
            classic = (await admin.describe_classic_groups(["old"]))["old"]
            assert (classic.protocol_type, classic.protocol) == ("consumer", "cooperative-sticky")
            with pytest.raises(GroupIdNotFoundError, match="'new'"):
                await admin.describe_classic_groups(["new"])


async def test_brokers_before_the_new_protocol_describe_groups_too() -> None:
    old: dict[Any, int] = {"ConsumerGroupDescribe": -1, "DescribeGroups": 4, "FindCoordinator": 3, "ListGroups": 2}
    async with EmbeddedCluster(1, max_versions=old) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        async with member(cluster, "g"):
            group = (await admin.describe_consumer_groups(["g"]))["g"]
            assert (group.type, len(group.members)) == (GroupType.CLASSIC, 1)
            assert await listed(admin) == {"g": (GroupType.UNKNOWN, GroupState.UNKNOWN)}
            with pytest.raises(UnsupportedVersionError):
                await listed(admin, states=[GroupState.STABLE])
        with pytest.raises(GroupIdNotFoundError, match="'nobody'"):
            await admin.describe_consumer_groups(["nobody"])


async def test_each_item_has_an_outcome_of_its_own() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        await admin.alter_consumer_group_offsets("a", {T0: 0})
        with pytest.raises(GroupIdNotFoundError, match="'b'") as caught:
            await admin.describe_consumer_groups(["a", "b"])
        assert caught.value.__notes__ == ["failed: b (1 others succeeded)"]
        found = await outcomes_of(admin.describe_consumer_groups(["a", "b"]))
        assert isinstance(found["a"], ConsumerGroupDescription)
        assert isinstance(found["b"], GroupIdNotFoundError)
        assert list(await outcomes_of(admin.describe_consumer_groups(["a"]))) == ["a"]


@again_if_late(1_500, 8_000)
async def test_what_was_settled_before_the_time_ran_out_is_not_lost(timeout_ms: int) -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        for name in ("a", "b"):
            await admin.alter_consumer_group_offsets(name, {T0: 0})
        cluster.faults.add("OffsetCommit", topic="t", partition=1, error_code=NotCoordinatorError)
        with pytest.raises(RequestTimedOutError) as caught:
            await admin.alter_consumer_group_offsets("a", {T0: 3, T1: 4}, timeout_ms=timeout_ms)
        outcomes = caught.value.outcomes
        assert outcomes is not None
        assert outcomes[T0] is None
        assert isinstance(outcomes[T1], RequestTimedOutError)


async def test_many_groups_are_asked_about_in_one_request_to_each_coordinator() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        names = [f"g{number}" for number in range(30)]
        for name in names:
            await admin.alter_consumer_group_offsets(name, {T0: 1})
        async with make_admin(cluster) as fresh:
            looked_up = cluster.requests.count("FindCoordinator")
            assert set(await fresh.describe_classic_groups(names)) == set(names)
            assert cluster.requests.count("FindCoordinator") == looked_up + 1
            assert cluster.requests.count("DescribeGroups") == 3
            cluster.move_coordinator("g7")
            await fresh.delete_consumer_groups(names)
        assert await listed(admin) == {}


async def test_a_group_without_a_coordinator_does_not_hold_up_the_others() -> None:
    async with EmbeddedCluster(2) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        await admin.alter_consumer_group_offsets("a", {T0: 0})
        cluster.faults.add("FindCoordinator", topic="b", error_code=CoordinatorNotAvailableError)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(outcomes_of, admin.describe_classic_groups(["a", "b"], timeout_ms=3_600_000))
            await cluster.requests.wait_for("DescribeGroups", timeout_ms=60_000)
            tasks.cancel_scope.cancel()
        found = await outcomes_of(admin.describe_classic_groups(["b", "a"], timeout_ms=2_000))
        assert isinstance(found["a"], ClassicGroupDescription)
        assert isinstance(found["b"], RequestTimedOutError)
        assert "coordinator of group 'b' could not be reached" in str(found["b"])


async def test_a_group_that_moves_between_two_answers_is_listed_once() -> None:
    async with EmbeddedCluster(2) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        cluster.move_coordinator("g", 1)
        await admin.alter_consumer_group_offsets("g", {T0: 0})
        held = cluster.faults.add("ListGroups", broker=2, hold=True)
        names: list[str] = []

        async def look() -> None:
            names.extend([group.group_id async for group in admin.list_groups()])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            await cluster.requests.wait_for("ListGroups", count=2)
            cluster.move_coordinator("g", 2)
            held.remove()
        assert names == ["g"]


async def test_a_group_with_members_is_not_deleted_and_its_offsets_not_altered() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        async with member(cluster, "old"), member(cluster, "new", group_protocol="consumer"):
            for name in ("old", "new"):
                with pytest.raises(NonEmptyGroupError):
                    await admin.delete_consumer_groups([name])
                with pytest.raises(NonEmptyGroupError, match="stop them first"):
                    await admin.alter_consumer_group_offsets(name, {T0: 3})
                with pytest.raises(NonEmptyGroupError):
                    await admin.reset_consumer_group_offsets(name, OffsetSpec.LATEST, topics=["t"])
                with pytest.raises(GroupSubscribedToTopicError):
                    await admin.delete_consumer_group_offsets(name, [T0])


async def test_an_offset_that_the_answer_leaves_out_does_not_count_as_missing() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        await admin.alter_consumer_group_offsets("g", {T0: 3})
        change_answers(cluster, "OffsetFetch", lambda message: message.groups[0].topics.clear())
        with pytest.raises(KafkaError, match="lacks"):
            await admin.list_consumer_group_offsets("g", [T0])


async def test_an_end_that_a_leader_does_not_say_is_an_error() -> None:
    def change(message: Any) -> None:
        message.topics[0].partitions[0].offset = -1

    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        await admin.alter_consumer_group_offsets("g", {T0: 3})
        change_answers(cluster, "ListOffsets", change)
        with pytest.raises(RequestTimedOutError, match="t-0: The broker failed without an explanation"):
            await admin.reset_consumer_group_offsets("g", ToShifted(1), timeout_ms=300)


async def test_offsets_are_altered_listed_and_deleted() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        await admin.alter_consumer_group_offsets("g", {T0: 3, T1: OffsetAndMetadata(4, "why", 0)})
        assert await admin.list_consumer_group_offsets("g") == {
            T0: OffsetAndMetadata(3),
            T1: OffsetAndMetadata(4, "why", 0),
        }
        other = TopicPartition("t", 7)
        assert await admin.list_consumer_group_offsets("g", [T1, other], require_stable=True) == {
            T1: OffsetAndMetadata(4, "why", 0),
            other: None,
        }
        await admin.delete_consumer_group_offsets("g", [T1])
        assert set(await admin.list_streams_group_offsets("g")) == {T0}
        assert await admin.list_consumer_group_offsets("nobody") == {}
        with pytest.raises(UnknownTopicOrPartitionError) as caught:
            await admin.alter_consumer_group_offsets("g", {T0: 5, other: 1})
        assert caught.value.outcomes is not None
        assert caught.value.outcomes[T0] is None
        assert (await admin.list_consumer_group_offsets("g"))[T0] == OffsetAndMetadata(5)
        with pytest.raises(GroupIdNotFoundError, match="'nobody'"):
            await admin.delete_consumer_group_offsets("nobody", [T0])
        await admin.alter_streams_group_offsets("g", {T0: 6, T1: 7})
        await admin.delete_streams_group_offsets("g", [T0])
        assert await admin.list_streams_group_offsets("g") == {T1: OffsetAndMetadata(7)}
        await admin.delete_streams_groups(["g"])
        assert await admin.list_streams_group_offsets("g") == {}


@asynccontextmanager
async def open_offset(
    committed: dict[TopicPartition, int],
) -> AsyncIterator[tuple[EmbeddedCluster, AdminClient, Producer[Any, Any]]]:
    """Yield a cluster whose group "g" has these offsets, and an offset of partition 0 in an open transaction."""
    async with (
        EmbeddedCluster(1) as cluster,
        make_admin(cluster) as admin,
        Producer(cluster.bootstrap_servers, transactional_id="tx") as producer,
    ):
        cluster.create_topic("t", partitions=2)
        if committed:
            await admin.alter_consumer_group_offsets("g", committed)
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({T0: 2}, "g")
        yield cluster, admin, producer


@pytest.mark.parametrize("call", ["named", "all", "reset"])
async def test_open_transactions_are_waited_for(call: str) -> None:
    async with open_offset({T0: 1, T1: 7}) as (cluster, admin, producer):
        cluster.requests.clear()
        found: Any = None

        async def commit_later() -> None:
            await cluster.requests.wait_for("OffsetFetch", count=3, timeout_ms=60_000)
            await producer.commit_transaction()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(commit_later)
            if call == "reset":
                changes = await admin.reset_consumer_group_offsets("g", OffsetSpec.LATEST, dry_run=True)
                found = {where: change.before for where, change in changes.items()}
            else:
                partitions = [T0, T1] if call == "named" else None
                found = await admin.list_consumer_group_offsets("g", partitions, require_stable=True)
        assert found == {T0: OffsetAndMetadata(2), T1: OffsetAndMetadata(7)}


@again_if_late(300, 3000)
async def test_an_open_transaction_is_the_reason_of_a_timeout(timeout_ms: int) -> None:
    async with open_offset({}) as (_, admin, _):
        with pytest.raises(RequestTimedOutError, match="t-0: An open transaction") as caught:
            await admin.list_consumer_group_offsets("g", [T0, T1], require_stable=True, timeout_ms=timeout_ms)
        assert caught.value.outcomes is not None
        assert caught.value.outcomes[T1] is None
        assert await admin.list_consumer_group_offsets("g", [T0]) == {T0: None}


@again_if_late(300, 3000)
async def test_an_open_transaction_hides_no_other_partition_of_the_group(timeout_ms: int) -> None:
    async with open_offset({T0: 1, T1: 7}) as (_, admin, _):
        found = await outcomes_of(admin.list_consumer_group_offsets("g", require_stable=True, timeout_ms=timeout_ms))
        assert found[T1] == OffsetAndMetadata(7)
        assert isinstance(found[T0], RequestTimedOutError)


async def test_only_groups_whose_answer_was_lost_are_in_doubt() -> None:
    async with EmbeddedCluster(2) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        coordinators = {name: cluster.coordinator(name) for name in ("a", "b", "c", "d", "e")}
        mine = min(coordinators)
        other = next(name for name, broker in coordinators.items() if broker != coordinators[mine])
        await admin.alter_consumer_group_offsets(mine, {T0: 0})
        cluster.faults.add("DeleteGroups", broker=coordinators[mine], disconnect=True, after=True, count=1)
        with pytest.raises(GroupIdNotFoundError) as caught:
            await admin.delete_consumer_groups([mine, other])
        found = caught.value.outcomes
        assert found is not None
        assert "may have been executed: DeleteGroups was in flight" in found[mine].__notes__[0]
        assert isinstance(found[other], GroupIdNotFoundError)
        assert not hasattr(found[other], "__notes__")


async def test_offsets_of_brokers_without_batches() -> None:
    async with EmbeddedCluster(1, max_versions={"OffsetFetch": 5, "OffsetCommit": 5}) as cluster:
        cluster.create_topic("t", partitions=2)
        async with make_admin(cluster) as admin:
            await admin.alter_consumer_group_offsets("g", {T0: 3})
            assert await admin.list_consumer_group_offsets("g") == {T0: OffsetAndMetadata(3)}
            assert await admin.list_consumer_group_offsets("g", [T1]) == {T1: None}


@pytest.mark.parametrize(
    ("to", "offset"),
    [
        (OffsetSpec.EARLIEST, 0),
        (OffsetSpec.LATEST, 10),
        (1_004, 4),
        (datetime.fromtimestamp(1.007, UTC), 7),
        (datetime(2100, 1, 1, tzinfo=UTC), 10),
        (timedelta(days=1), 10),
        (ToOffset(6), 6),
        (ToOffset(60), 10),
        (ToShifted(-2), 3),
        (ToShifted(-20), 0),
    ],
)
async def test_reset(to: Any, offset: int) -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        await write(cluster, T0, range(1000, 1010))
        await admin.alter_consumer_group_offsets("g", {T0: 5})
        planned = await admin.reset_consumer_group_offsets("g", to, dry_run=True)
        assert {where: (change.before, change.after.offset) for where, change in planned.items()} == {
            T0: (OffsetAndMetadata(5), offset)
        }
        assert (await admin.list_consumer_group_offsets("g"))[T0] == OffsetAndMetadata(5)
        assert await admin.reset_consumer_group_offsets("g", to) == planned
        committed = (await admin.list_consumer_group_offsets("g"))[T0]
        assert committed is not None
        assert committed.offset == offset


async def test_reset_of_what_is_named() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        await write(cluster, T0, range(1000, 1003))
        changes = await admin.reset_consumer_group_offsets("fresh", OffsetSpec.LATEST, topics=["t"])
        assert {where: (change.before, change.after.offset) for where, change in changes.items()} == {
            T0: (None, 3),
            T1: (None, 0),
        }
        changes = await admin.reset_consumer_group_offsets("fresh", OffsetSpec.EARLIEST, partitions=[T0])
        assert set(changes) == {T0}
        assert await admin.reset_consumer_group_offsets("nobody", OffsetSpec.EARLIEST) == {}
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.reset_consumer_group_offsets("fresh", OffsetSpec.EARLIEST, topics=["nowhere"])
        with pytest.raises(KafkaError, match="no committed offset"):
            await admin.reset_consumer_group_offsets("other", ToShifted(1), partitions=[T0])


async def test_members_are_removed() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        async with member(cluster, "g", group_instance_id="one", session_timeout_ms=45_000):
            pass
        # A static member keeps its place when it is closed.
        assert len((await admin.describe_consumer_groups(["g"]))["g"].members) == 1
        with pytest.raises(UnknownMemberIdError, match="two"):
            await admin.remove_members_from_consumer_group("g", static_members=["two"])
        await admin.remove_members_from_consumer_group("g", static_members=["one"])
        assert (await admin.describe_consumer_groups(["g"]))["g"].members == ()
        await admin.remove_members_from_consumer_group("g")
        async with member(cluster, "g", group_instance_id="one"):
            await admin.remove_members_from_consumer_group("g")
            assert (await admin.describe_consumer_groups(["g"]))["g"].members == ()


async def test_wrong_arguments_are_refused_before_anything_is_sent() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        sent = len(cluster.requests.select("FindCoordinator"))
        wrong: Any
        for wrong in ("2h", 1.5, True, None, OffsetSpec.MAX_TIMESTAMP, -7, datetime(2026, 1, 1), timedelta(-1)):
            with pytest.raises((ConfigError, ConfigTypeError), match=r"^to "):
                await admin.reset_consumer_group_offsets("g", wrong)
        with pytest.raises(ConfigTypeError, match=r"^group_ids must be a list"):
            await admin.describe_consumer_groups("g")
        with pytest.raises(ConfigError, match=r"^group_id must not be empty"):
            await admin.list_consumer_group_offsets("")
        with pytest.raises(ConfigError, match=r"^offsets\[t-0\]"):
            await admin.alter_consumer_group_offsets("g", {T0: -1})
        with pytest.raises(ConfigTypeError, match=r"^states\[0\]"):
            admin.list_groups(states=["Empty"])  # type: ignore[list-item]
        assert len(cluster.requests.select("FindCoordinator")) == sent


async def test_share_groups_and_their_offsets() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        for where in (T0, T1):
            await write(cluster, where, range(1000, 1003))
        with pytest.raises(GroupIdNotFoundError):
            await admin.describe_share_groups(["g"])
        assert await admin.list_share_group_offsets("g") == {}
        with pytest.raises(GroupIdNotFoundError):
            await admin.delete_share_group_offsets("g", ["t"])
        own = ConfigResource(ConfigResourceType.GROUP, "g")
        await admin.incremental_alter_configs({own: [ConfigChange("share.auto.offset.reset", "earliest")]})
        assert (await admin.describe_configs([own]))[own]["share.auto.offset.reset"].value == "earliest"
        with pytest.raises(InvalidConfigError):
            await admin.incremental_alter_configs({own: [ConfigChange("share.isolation.level", "snapshot")]})
        servers = cluster.bootstrap_servers
        async with ShareConsumer("t", bootstrap_servers=servers, group_id="g", client_id="app") as jobs:
            record = await anext(aiter(jobs))
            await jobs.acknowledge(record)
            group = (await admin.describe_share_groups(["g"]))["g"]
            (one,) = group.members
            assert (group.state, group.assignor, one.client_id) == (GroupState.STABLE, "simple", "app")
            assert set(one.assignment) == {T0, T1}
            assert await listed(admin, types=[GroupType.SHARE]) == {"g": (GroupType.SHARE, GroupState.STABLE)}
            offsets = await admin.list_share_group_offsets("g", [record.topic_partition])
            assert [each and each.lag for each in offsets.values()] == [cluster.end_offset("t", record.partition) - 1]
            for call in (
                admin.reset_share_group_offsets("g", OffsetSpec.EARLIEST),
                admin.alter_share_group_offsets("g", {T0: 0}),
                admin.delete_share_group_offsets("g", ["t"]),
                admin.delete_share_groups(["g"]),
            ):
                with pytest.raises(NonEmptyGroupError):
                    await call
        ends = {where: cluster.end_offset("t", where.partition) for where in (T0, T1)}
        planned = await admin.reset_share_group_offsets("g", OffsetSpec.LATEST, dry_run=True)
        assert {where: change.after for where, change in planned.items()} == ends
        assert await admin.reset_share_group_offsets("g", ToOffset(1), partitions=[T0]) == {
            T0: planned[T0]._replace(after=1)
        }
        found = (await admin.list_share_group_offsets("g", [T0]))[T0]
        assert found is not None
        assert (found.start_offset, found.lag) == (1, ends[T0] - 1)
        with pytest.raises(KafkaError, match="no committed offset"):
            await admin.reset_share_group_offsets("fresh", ToShifted(1), partitions=[T0])
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.alter_share_group_offsets("g", {TopicPartition("t", 9): 0})
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.delete_share_group_offsets("g", ["nowhere"])
        await admin.delete_share_group_offsets("g", ["t"])
        assert await admin.list_share_group_offsets("g") == {}
        await admin.delete_share_groups(["g"])
        with pytest.raises(GroupIdNotFoundError):
            await admin.describe_share_groups(["g"])


async def test_a_share_partition_whose_state_is_loaded_is_asked_about_again() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.create_topic("t", partitions=2)
        await admin.alter_share_group_offsets("g", {T0: 1, T1: 2})
        expected = await admin.list_share_group_offsets("g")
        for partitions in (None, [T0, T1]):
            cluster.faults.add(
                "DescribeShareGroupOffsets",
                topic="t",
                partition=0,
                error_code=CoordinatorLoadInProgressError,
                count=2,
            )
            assert await admin.list_share_group_offsets("g", partitions) == expected
        rule = cluster.faults.add(
            "DescribeShareGroupOffsets", topic="t", partition=0, error_code=TopicAuthorizationFailedError
        )
        found = await outcomes_of(admin.list_share_group_offsets("g"))
        rule.remove()
        assert isinstance(found[T0], TopicAuthorizationFailedError)
        assert found[T1] == expected[T1]


async def test_a_broker_that_leaves_the_cluster_is_not_waited_for() -> None:
    async with EmbeddedCluster(2) as cluster, AdminClient(bootstrap_servers=cluster.address(2)) as admin:
        cluster.freeze_metadata(1)  # the next answer still lists both
        await cluster.kill_broker(1)
        with anyio.fail_after(20):
            assert [group async for group in admin.list_groups()] == []
