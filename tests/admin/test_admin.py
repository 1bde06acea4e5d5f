"""The admin client against embedded brokers."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer
from aiokafka_lead._core.admin import BRIEF_TRIES, failure
from aiokafka_lead._io.admin_requests import Route
from aiokafka_lead._wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokafka_lead._wire.messages.describe_topic_partitions import ResponseCursor
from aiokafka_lead.admin import (
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ElectionType,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    outcomes_of,
)
from aiokafka_lead.errors import (
    BrokerError,
    ClientClosedError,
    ConfigError,
    CorruptRecordError,
    InvalidPartitionsError,
    KafkaConnectionError,
    KafkaError,
    LeaderNotAvailableError,
    ListenerNotFoundError,
    NetworkError,
    NotControllerError,
    NotLeaderOrFollowerError,
    NotStartedError,
    PreferredLeaderNotAvailableError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.types import TopicPartition

from ..patience import again_if_late
from .support import change_answers, make_admin

pytestmark = pytest.mark.anyio


# --- topics ----------------------------------------------------------------------------------------------------------


async def test_create_list_describe_and_delete_topics() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        created = await admin.create_topics(
            [
                NewTopic("a", num_partitions=2, replication_factor=3, topic_configs={"retention.ms": "1000"}),
                NewTopic("b", replica_assignments={0: [2, 1], 1: [3]}),
            ]
        )
        assert [(t.name, t.num_partitions, t.replication_factor) for t in created.values()] == [
            ("a", 2, 3),
            ("b", 2, 2),
        ]
        assert created["a"].topic_id == cluster.topic_id("a")
        listed = await admin.list_topics()
        assert set(listed) == {"a", "b"}
        assert listed["b"].topic_id == cluster.topic_id("b")
        described = await admin.describe_topics(["b"])
        assert [(p.partition, p.leader_id, p.replicas) for p in described["b"].partitions] == [
            (0, 2, (2, 1)),
            (1, 3, (3,)),
        ]
        assert set(await admin.describe_topics()) == {"a", "b"}
        await admin.delete_topics(["a", "b"])
        assert await admin.list_topics() == {}


async def test_validate_only_creates_nothing() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await admin.create_topics([NewTopic("t")], validate_only=True)
        assert cluster.topic_names() == []


async def test_the_first_failure_is_raised_and_names_all_that_failed() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await admin.create_topics([NewTopic("a"), NewTopic("b")])
        with pytest.raises(TopicAlreadyExistsError, match="'a'") as caught:
            await admin.create_topics([NewTopic("a"), NewTopic("c"), NewTopic("b")])
        assert caught.value.__notes__ == ["failed: a, b (1 others succeeded)"]
        assert set(await admin.list_topics()) == {"a", "b", "c"}


async def test_unknown_topics_are_not_created_and_fail_soon() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        began = time.monotonic()
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await admin.describe_topics(["nowhere"])
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            await admin.delete_topics(["nowhere"])
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere-0"):
            await admin.list_offsets({TopicPartition("nowhere", 0): OffsetSpec.LATEST})
        assert time.monotonic() - began < 9  # each such call has ten seconds
        assert cluster.topic_names() == []


async def test_broker_0_can_lead() -> None:
    async with EmbeddedCluster([0]) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t")
        t0 = TopicPartition("t", 0)
        assert (await admin.list_offsets({t0: OffsetSpec.LATEST}))[t0] is not None
        assert await admin.delete_records({t0: 0}) == {t0: 0}


async def test_a_broker_that_has_not_heard_of_a_topic_yet_is_asked_again() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("new", 3)
        cluster.faults.add("Metadata", topic="new", error_code=UnknownTopicOrPartitionError, count=2)
        assert len((await admin.describe_topics(["new"]))["new"].partitions) == 3


async def test_more_partitions() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("a")
        await cluster.create_topic("b")
        await admin.create_partitions({"a": 4, "b": NewPartitions(2, [[3, 1, 2]])})
        assert (cluster.partition_count("a"), cluster.partition_count("b")) == (4, 2)
        assert cluster.leader("b", 1) == 3
        with pytest.raises(InvalidPartitionsError):
            await admin.create_partitions({"a": 2})


async def test_describe_topic_partitions_by_pages() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("a", 5)
        await cluster.create_topic("b", 2)
        pages = [
            (topic.name, [entry.partition for entry in topic.partitions])
            async for topic in admin.describe_topic_partitions(["b", "a"], page_size=2)
        ]
        flat = [(name, partition) for name, partitions in pages for partition in partitions]
        assert flat == [("a", partition) for partition in range(5)] + [("b", 0), ("b", 1)]
        found: list[str] = []

        async def describe(*topics: str) -> None:
            async for topic in admin.describe_topic_partitions(topics):
                found.append(topic.name)

        with pytest.raises(UnknownTopicOrPartitionError, match="aa") as caught:
            await describe("b", "aa", "a")
        assert found == ["a", "b"]
        assert caught.value.outcomes is not None
        assert caught.value.outcomes["b"] is None
        cluster.faults.add("DescribeTopicPartitions", topic="a", error_code=UnknownTopicOrPartitionError, count=2)
        await describe("a", "b")
        assert found == ["a", "b", "b", "a"]


async def test_a_topic_that_no_page_contains_is_an_error() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("a")
        change_answers(cluster, "DescribeTopicPartitions", lambda message: message.topics.clear())
        with pytest.raises(KafkaError, match="topic 'a': the broker's response lacks it"):
            [topic async for topic in admin.describe_topic_partitions(["a"])]


async def test_pages_that_repeat_are_an_error() -> None:
    def change(message: Any) -> None:
        message.next_cursor = ResponseCursor(topic_name="a", partition_index=1)

    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("a", 3)
        change_answers(cluster, "DescribeTopicPartitions", change)
        with anyio.fail_after(20), pytest.raises(KafkaError, match="does not end"):
            [topic async for topic in admin.describe_topic_partitions(["a"])]


async def test_brokers_before_topic_ids_delete_by_name() -> None:
    async with EmbeddedCluster(1, max_versions={"DeleteTopics": 5}) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t")
        await admin.delete_topics(["t"])
        assert cluster.topic_names() == []


async def test_assignments_exclude_numbers() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        with pytest.raises(ConfigError, match="replica_assignments"):
            await admin.create_topics([NewTopic("t", num_partitions=1, replica_assignments={0: [1]})])


# --- partitions ------------------------------------------------------------------------------------------------------


async def test_preferred_leaders() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", assignments=[[1, 2, 3], [2, 3, 1]])
        cluster.move_leader("t", 0)
        first, second = TopicPartition("t", 0), TopicPartition("t", 1)
        assert await admin.elect_leaders([first, second]) == {first: True, second: False}
        assert cluster.leader("t", 0) == 1
        cluster.move_leader("t", 1)
        await admin.elect_leaders(election_type=ElectionType.PREFERRED)
        assert cluster.leader("t", 1) == 2
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.elect_leaders([TopicPartition("t", 7)])


async def test_failed_elections_are_raised_for_all_partitions_too() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        await cluster.stop_broker(1)
        cluster.move_leader("t", 2, to=2)
        with pytest.raises(PreferredLeaderNotAvailableError, match="t-0") as caught:
            await admin.elect_leaders()
        outcomes = caught.value.outcomes
        assert outcomes is not None
        assert [where.partition for where in outcomes] == [0, 2]  # the second one is led by its preferred leader
        assert outcomes[TopicPartition("t", 2)] is True


async def test_reassignments() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", assignments=[[1]])
        await admin.alter_partition_reassignments({TopicPartition("t", 0): [3, 2]})
        assert cluster.replicas("t") == [3, 2]
        assert await admin.list_partition_reassignments() == {}
        assert await admin.list_partition_reassignments([TopicPartition("t", 0)]) == {}


async def test_offsets_and_deleted_records() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", 3, replication_factor=3)
        partitions = [TopicPartition("t", number) for number in range(3)]
        found = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
        assert [found[p] is not None and found[p].offset for p in partitions] == [0, 0, 0]  # type: ignore[union-attr]
        # Each leader was asked for its own partitions.
        assert {record.broker for record in cluster.requests.select("ListOffsets")} == {1, 2, 3}
        assert await admin.list_offsets({partitions[0]: 12345}) == {partitions[0]: None}
        async with Producer(cluster.bootstrap_servers) as producer:
            for timestamp_ms in (10, 30, 20):
                await producer.send_and_wait("t", b"v", partition=1, timestamp_ms=timestamp_ms)
        newest = (await admin.list_offsets({partitions[1]: OffsetSpec.MAX_TIMESTAMP}))[partitions[1]]
        assert newest is not None
        assert (newest.offset, newest.timestamp_ms) == (1, 30)
        assert await admin.delete_records({partitions[0]: 0}) == {partitions[0]: 0}


async def test_leaders_that_move_are_followed() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", replication_factor=3)
        where = TopicPartition("t", 0)
        cluster.faults.add("ListOffsets", topic="t", error_code=NotLeaderOrFollowerError, count=2)
        found = await admin.list_offsets({where: OffsetSpec.EARLIEST})
        assert found[where] is not None
        assert cluster.requests.count("ListOffsets") == 3


@pytest.mark.parametrize("error", [RequestTimedOutError, NetworkError, ListenerNotFoundError])
async def test_leaders_that_cannot_answer_now_are_asked_again(error: type[BrokerError]) -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t")
        where = TopicPartition("t", 0)
        cluster.faults.add("ListOffsets", topic="t", error_code=error, count=2)
        cluster.faults.add("DeleteRecords", topic="t", error_code=error, count=2)
        assert (await admin.list_offsets({where: OffsetSpec.EARLIEST}))[where] is not None
        assert await admin.delete_records({where: 0}) == {where: 0}


async def test_a_damaged_batch_is_reported_soon() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t")
        cluster.faults.add("ListOffsets", topic="t", error_code=CorruptRecordError)
        with anyio.fail_after(120), pytest.raises(CorruptRecordError, match="t-0"):
            await admin.list_offsets({TopicPartition("t", 0): 1000}, timeout_ms=10_000_000)
        assert cluster.requests.count("ListOffsets") == BRIEF_TRIES


async def test_offsets_that_an_old_broker_would_take_for_a_time_are_not_requested() -> None:
    newest, end = TopicPartition("t", 0), TopicPartition("t", 1)
    async with EmbeddedCluster(1, max_versions={"ListOffsets": 6}) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", 2)
        with pytest.raises(UnsupportedVersionError, match="needs version 7") as caught:
            await admin.list_offsets({newest: OffsetSpec.MAX_TIMESTAMP, end: OffsetSpec.LATEST})
        assert caught.value.outcomes is not None
        assert caught.value.outcomes[end].offset == 0
        assert cluster.requests.count("ListOffsets") == 1


async def test_brokers_that_lag_do_not_hide_a_leader() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t", assignments=[[3]])
        for broker in (1, 2):
            cluster.faults.add("Metadata", broker=broker, topic="t", error_code=UnknownTopicOrPartitionError)
        where = TopicPartition("t", 0)
        for _ in range(5):
            assert (await admin.list_offsets({where: OffsetSpec.LATEST}))[where] is not None


@again_if_late(1_500, 8_000)
async def test_a_partition_without_leader_times_out_with_a_reason(timeout_ms: int) -> None:
    async with EmbeddedCluster(2) as cluster:
        await cluster.create_topic("t", assignments=[[2]])
        await cluster.stop_broker(2)  # before the admin client knows it, and could try to connect to it
        async with make_admin(cluster) as admin:
            with pytest.raises(RequestTimedOutError, match=rf"within {timeout_ms} ms.*no leader") as caught:
                await admin.list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST}, timeout_ms=timeout_ms)
        assert isinstance(caught.value.__cause__, LeaderNotAvailableError)


@again_if_late(1_500, 8_000)
async def test_a_try_that_had_no_time_left_is_no_reason(timeout_ms: int) -> None:
    async with EmbeddedCluster(2) as cluster:
        await cluster.create_topic("t", assignments=[[2]])
        await cluster.stop_broker(2)  # before the admin client knows it, and could try to connect to it
        cluster.faults.add("Metadata", topic="t", skip=1, drop=True)
        async with make_admin(cluster) as admin:
            with pytest.raises(RequestTimedOutError, match=rf"within {timeout_ms} ms.*no leader") as caught:
                await admin.list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST}, timeout_ms=timeout_ms)
        assert isinstance(caught.value.__cause__, LeaderNotAvailableError)
        assert list(caught.value.outcomes or ()) == [TopicPartition("t", 0)]  # as if the answers had gone on


# --- retries ---------------------------------------------------------------------------------------------------------


async def test_a_controller_that_moved_is_found_again() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        cluster.faults.add("CreateTopics", error_code=NotControllerError, count=2)
        await admin.create_topics([NewTopic("t")])
        assert cluster.topic_names() == ["t"]
        assert cluster.requests.count("CreateTopics") == 3


async def test_another_broker_forwards_what_the_one_named_as_controller_keeps_refusing() -> None:
    async with EmbeddedCluster(3) as cluster, make_admin(cluster) as admin:
        named = (await admin.describe_cluster()).controller_id
        cluster.faults.add("CreateTopics", broker=named, error_code=NotControllerError)
        await admin.create_topics([NewTopic("t")])
        assert [each.broker == named for each in cluster.requests.select("CreateTopics")] == [True] * 3 + [False]


async def test_a_lost_connection_is_tried_again() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.faults.add("DescribeConfigs", disconnect=True, count=2)
        resource = ConfigResource(ConfigResourceType.TOPIC, "t")
        await cluster.create_topic("t")
        assert resource in await admin.describe_configs([resource])


async def test_an_error_after_a_lost_answer_tells_of_it() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("old")
        cluster.faults.add("CreateTopics", disconnect=True, after=True, count=1)
        with pytest.raises(TopicAlreadyExistsError, match="'new'") as caught:
            await admin.create_topics([NewTopic("new"), NewTopic("old")])
        (lost, failed) = caught.value.__notes__
        assert lost.startswith(
            "an earlier attempt got no response, and may have been executed: CreateTopics was in flight"
        )
        assert failed == "failed: new, old (0 others succeeded)"
        assert caught.value.outcomes is not None
        assert [error.__notes__ for error in caught.value.outcomes.values()] == [[lost], [lost]]
        with pytest.raises(TopicAlreadyExistsError) as answered:
            await admin.create_topics([NewTopic("new")])
        assert not hasattr(answered.value, "__notes__")


@again_if_late(1_500, 8_000)
async def test_a_call_that_runs_out_of_time_tells_of_a_lost_answer(timeout_ms: int) -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.faults.add("CreateTopics", disconnect=True, after=True, count=1)
        cluster.faults.add("CreateTopics", error_code=NotControllerError, skip=1)
        with pytest.raises(RequestTimedOutError, match=f"within {timeout_ms} ms") as caught:
            await admin.create_topics([NewTopic("t")], timeout_ms=timeout_ms)
        assert isinstance(caught.value.__cause__, NotControllerError)
        assert "may have been executed: CreateTopics was in flight" in caught.value.__notes__[0]
        assert cluster.topic_names() == ["t"]


async def test_what_may_have_been_executed_is_not_repeated_if_the_call_forbids_it() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        calls, request = admin._calls, CreateTopicsRequest(topics=[CreatableTopic(name="t")])
        cluster.faults.add("CreateTopics", disconnect=True, after=True, count=1)
        with pytest.raises(KafkaConnectionError, match="CreateTopics was in flight"):
            await calls.call(Route.CONTROLLER, request, calls.deadline(None), repeatable=False)
        assert cluster.requests.count("CreateTopics") == 1
        await cluster.stop_broker(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(calls.call, Route.CONTROLLER, request, calls.deadline(60_000), repeatable=False))
            await anyio.wait_all_tasks_blocked()
            await cluster.start_broker(1)
        assert cluster.requests.count("CreateTopics") == 2


async def test_a_note_names_a_part_of_many_failures() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        with pytest.raises(UnknownTopicOrPartitionError) as unknown:
            await admin.delete_topics([f"gone-{number}" for number in range(30)])
        (note,) = unknown.value.__notes__
        assert note.startswith("failed: gone-0, gone-1, ")
        assert note.endswith("gone-19, 10 more (0 others succeeded)")
        assert len(unknown.value.outcomes or ()) == 30


async def test_a_call_that_gets_no_answer_ends_in_time() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        cluster.faults.add("CreateTopics", drop=True)
        began = time.monotonic()
        with pytest.raises(RequestTimedOutError, match="within 400 ms"):
            await admin.create_topics([NewTopic("t")], timeout_ms=400)
        assert time.monotonic() - began < 9  # such a call has ten seconds


async def test_rule_31_the_admin_client_bootstraps_anew() -> None:
    async with EmbeddedCluster(2) as cluster:
        await cluster.stop_broker(2)
        async with make_admin(cluster) as admin:
            assert [b.node_id for b in (await admin.describe_cluster()).brokers] == [1]
            await cluster.stop_broker(1)
            await cluster.start_broker(2)
            assert [b.node_id for b in (await admin.describe_cluster()).brokers] == [2]
            assert admin.metrics().rebootstraps_unavailable >= 1


# --- its life --------------------------------------------------------------------------------------------------------


async def test_not_started_stopped_and_nobody_there() -> None:
    async with EmbeddedCluster(1) as cluster:
        admin = make_admin(cluster)
        with pytest.raises(NotStartedError):
            await admin.list_topics()
        await admin.start()
        await admin.stop()
        with pytest.raises(ClientClosedError):
            await admin.list_topics()
        await cluster.stop_broker(1)
        with pytest.raises(KafkaConnectionError, match=cluster.bootstrap_servers):
            await make_admin(cluster).start()


@again_if_late(1_500, 8_000)
async def test_a_broker_that_is_gone_keeps_nobody_from_the_configurations_of_others(timeout_ms: int) -> None:
    topic, gone = ConfigResource(ConfigResourceType.TOPIC, "t"), ConfigResource(ConfigResourceType.BROKER, "9")
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await cluster.create_topic("t")
        change = [ConfigChange("retention.ms", "1000")]
        with pytest.raises(KafkaError) as caught:
            await admin.incremental_alter_configs({gone: change, topic: change}, timeout_ms=timeout_ms)
        assert caught.value.outcomes is not None
        assert caught.value.outcomes[topic] is None
        described_configs = admin.describe_configs([gone, topic], names=["retention.ms"], timeout_ms=timeout_ms)
        found = await outcomes_of(described_configs)
        assert isinstance(found[gone], KafkaError)
        described = found[topic]
        assert not isinstance(described, KafkaError)
        assert described["retention.ms"].value == "1000"


def test_an_error_shows_what_the_broker_says_or_the_text_of_its_code() -> None:
    assert str(failure(36, "orders", "it is there already")).endswith("orders: it is there already")
    assert str(failure(36, "orders")).endswith(f"orders: {TopicAlreadyExistsError().message}")
