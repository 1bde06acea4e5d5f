"""The APIs for administrators, and the APIs that query positions in a log."""

from __future__ import annotations

import pytest

from aiokafka_lead import errors
from aiokafka_lead._wire.messages.alter_configs import AlterableConfig as ReplacedConfig
from aiokafka_lead._wire.messages.alter_configs import AlterConfigsRequest
from aiokafka_lead._wire.messages.alter_configs import AlterConfigsResource as ReplacedResource
from aiokafka_lead._wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokafka_lead._wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokafka_lead._wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from aiokafka_lead._wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokafka_lead._wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokafka_lead._wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokafka_lead._wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from aiokafka_lead._wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from aiokafka_lead._wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokafka_lead._wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokafka_lead._wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from aiokafka_lead._wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokafka_lead.testing import EmbeddedCluster

from .raw import a_cluster, batch, connected
from .test_produce import produce

pytestmark = pytest.mark.anyio


async def test_topics_are_created() -> None:
    async with a_cluster() as (cluster, client):

        async def create(*topics: CreatableTopic, validate_only: bool = False) -> list[int]:
            response = await client.call(CreateTopicsRequest(topics=list(topics), validate_only=validate_only))
            return [topic.error_code for topic in response.topics]

        def topic(name: str, partitions: int = 2, factor: int = 2, **configs: str) -> CreatableTopic:
            given = [CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in configs.items()]
            return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=given)

        assert await create(topic("a", retention_ms="1000"), topic("b", -1, -1)) == [0, 0]
        assert cluster.topic_names() == ["a", "b"]
        assert (cluster.partition_count("a"), cluster.replicas("a", 1)) == (2, [2, 3])
        assert (cluster.partition_count("b"), cluster.replicas("b")) == (1, [1, 2, 3])
        assert await create(topic("c"), validate_only=True) == [0]
        assert await create(topic("d.e", segment_jitter_ms="5", remote_storage_enable="False")) == [0]
        for wrong, expected in [
            (topic("a"), errors.TopicAlreadyExistsError),
            (topic("a b"), errors.InvalidTopicError),
            (topic("d_e"), errors.InvalidTopicError),
            (topic("c", 0), errors.InvalidPartitionsError),
            (topic("c", 1, 4), errors.InvalidReplicationFactorError),
            (topic("c", no_such_option="1"), errors.InvalidConfigError),
            (topic("c", retention_ms="soon"), errors.InvalidConfigError),
            (topic("c", retention_ms="1_000"), errors.InvalidConfigError),
            (topic("c", cleanup_policy="shred"), errors.InvalidConfigError),
        ]:
            assert await create(wrong) == [expected.code]
        assert await create(topic("twice"), topic("twice")) == [errors.InvalidRequestError.code]
        placed = CreatableTopic(
            name="placed",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
                for index, ids in enumerate([[3, 1], [2]])
            ],
        )
        assert await create(placed) == [0]
        assert [cluster.replicas("placed", p) for p in (0, 1)] == [[3, 1], [2]]
        placed.name, placed.assignments[0].broker_ids = "other", [9]
        assert await create(placed) == [errors.InvalidReplicaAssignmentError.code]
        assert cluster.topic_names() == ["a", "b", "d.e", "placed"]
        cluster.delete_topic("d.e")
        assert await create(topic("d_e")) == [0]


async def test_topics_are_deleted_and_grown() -> None:
    async with a_cluster() as (cluster, client):
        cluster.create_topic("a")
        cluster.create_topic("b")

        async def grow(name: str, count: int) -> int:
            wanted = CreatePartitionsTopic(name=name, count=count, assignments=None)
            return (await client.call(CreatePartitionsRequest(topics=[wanted]))).results[0].error_code

        assert await grow("a", 4) == 0
        assert cluster.partition_count("a") == 4
        assert await grow("a", 4) == errors.InvalidPartitionsError.code
        assert await grow("no", 4) == errors.UnknownTopicOrPartitionError.code
        by_name = DeleteTopicState(name="a")
        by_id = DeleteTopicState(topic_id=cluster.topic_id("b"))
        response = await client.call(DeleteTopicsRequest(topics=[by_name, by_id, by_name]))
        assert [(topic.name, topic.error_code) for topic in response.responses] == [("a", 0), ("b", 0), ("a", 3)]
        assert cluster.topic_names() == []


async def test_configs_of_all_topics() -> None:
    async with EmbeddedCluster(brokers=1, topic_configs={"retention.bytes": "5000", "segment.bytes": "14"}) as cluster:
        cluster.create_topic("t")
        cluster.create_topic("u", configs={"retention.bytes": "-1"})
        async with connected(cluster.address(1)) as client:
            for topic in ("t", "u"):
                for _ in range(20):
                    await produce(client, batch(b"x" * 500), topic=topic)
        assert cluster.start_offset("t") > 5
        assert cluster.start_offset("u") == 0
    with pytest.raises(errors.InvalidConfigError):
        EmbeddedCluster(topic_configs={"retention.bytes": "some"})


async def test_configs() -> None:
    async with a_cluster(1) as (cluster, client):
        cluster.create_topic("t", configs={"retention.ms": "1000"})

        async def described(*names: str) -> dict[str, tuple[str | None, int]]:
            resource = DescribeConfigsResource(
                resource_type=2, resource_name="t", configuration_keys=list(names) or None
            )
            response = await client.call(DescribeConfigsRequest(resources=[resource]))
            return {config.name: (config.value, config.config_source) for config in response.results[0].configs}

        async def alter(*changes: tuple[str, int, str | None], name: str = "t") -> int:
            configs = [AlterableConfig(name=n, config_operation=operation, value=v) for n, operation, v in changes]
            resource = AlterConfigsResource(resource_type=2, resource_name=name, configs=configs)
            response = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
            return response.responses[0].error_code

        assert await described("retention.ms", "cleanup.policy") == {
            "retention.ms": ("1000", 1),
            "cleanup.policy": ("delete", 5),
        }
        assert len(await described()) > 15
        assert await alter(("max.message.bytes", 0, "200"), ("retention.ms", 1, None)) == 0
        assert await described("retention.ms", "max.message.bytes") == {
            "retention.ms": ("604800000", 5),
            "max.message.bytes": ("200", 1),
        }
        assert (await produce(client, batch(b"x" * 500))).error_code == errors.MessageTooLargeError.code
        assert await alter(("cleanup.policy", 2, "compact")) == 0
        assert (await described("cleanup.policy"))["cleanup.policy"][0] == "delete,compact"
        assert await alter(("cleanup.policy", 3, "delete")) == 0
        assert (await described("cleanup.policy"))["cleanup.policy"][0] == "compact"
        for wrong in (("nothing", 0, "1"), ("retention.ms", 2, "1"), ("max.message.bytes", 0, "many")):
            assert await alter(wrong) == errors.InvalidConfigError.code
        assert await alter(("retention.ms", 0, "1"), name="no") == errors.UnknownTopicOrPartitionError.code
        assert await alter(("retention.ms", 0, "1"), ("retention.ms", 0, "2")) == errors.InvalidRequestError.code
        replaced = ReplacedResource(
            resource_type=2, resource_name="t", configs=[ReplacedConfig(name="retention.ms", value="5")]
        )
        assert (await client.call(AlterConfigsRequest(resources=[replaced]))).responses[0].error_code == 0
        assert await described("retention.ms", "max.message.bytes") == {
            "retention.ms": ("5", 1),
            "max.message.bytes": ("1048588", 5),
        }


async def test_leaders_are_elected() -> None:
    async with a_cluster() as (cluster, client):
        cluster.create_topic("t", 2)
        cluster.create_topic("alone", assignments=[[3, 2]])

        async def elect(kind: int, topic: str | None, partition: int = 0) -> list[int]:
            wanted = None if topic is None else [TopicPartitions(topic=topic, partitions=[partition])]
            response = await client.call(ElectLeadersRequest(election_type=kind, topic_partitions=wanted))
            return [part.error_code for result in response.replica_election_results for part in result.partition_result]

        cluster.move_leader("t", 0, to=3)
        assert await elect(0, "t") == [0]
        assert cluster.leader("t") == 1
        assert await elect(0, "t") == [errors.ElectionNotNeededError.code]
        assert await elect(0, None) == []
        assert await elect(0, "no") == [errors.UnknownTopicOrPartitionError.code]
        cluster.set_isr("alone", 0, [3])
        await cluster.stop_broker(3)
        assert cluster.leader("alone") == -1
        assert await elect(0, "alone") == [errors.PreferredLeaderNotAvailableError.code]
        assert await elect(1, "alone") == [0]
        assert (cluster.leader("alone"), cluster.isr("alone")) == (2, [2])


async def test_partitions_are_reassigned() -> None:
    async with a_cluster() as (cluster, client):
        cluster.create_topic("t", assignments=[[1, 2]])
        cluster.hold_reassignments = True

        async def reassign(replicas: list[int] | None) -> int:
            wanted = ReassignableTopic(
                name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)]
            )
            response = await client.call(AlterPartitionReassignmentsRequest(topics=[wanted]))
            return response.responses[0].partitions[0].error_code

        async def ongoing() -> list[tuple[list[int], list[int], list[int]]]:
            wanted = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]
            response = await client.call(ListPartitionReassignmentsRequest(topics=wanted))
            return [
                (part.replicas, part.adding_replicas, part.removing_replicas)
                for topic in response.topics
                for part in topic.partitions
            ]

        assert await reassign(None) == errors.NoReassignmentInProgressError.code
        assert await reassign([2, 3]) == 0
        assert await ongoing() == [([2, 3, 1], [3], [1])]
        assert await reassign(None) == 0
        assert await ongoing() == []
        assert sorted(cluster.replicas("t")) == [1, 2]
        assert await reassign([3]) == 0
        cluster.complete_reassignments()
        assert (cluster.leader("t"), cluster.replicas("t")) == (3, [3])
        assert await reassign([9]) == errors.InvalidReplicaAssignmentError.code
        cluster.hold_reassignments = False
        assert await reassign([1, 2]) == 0
        assert (cluster.leader("t"), cluster.replicas("t")) == (1, [1, 2])


async def test_records_are_deleted() -> None:
    async with a_cluster(1) as (cluster, client):
        cluster.create_topic("t")
        for value in (b"a", b"b", b"c"):
            await produce(client, batch(value))

        async def delete(offset: int, partition: int = 0, topic: str = "t") -> tuple[int, int]:
            part = DeleteRecordsPartition(partition_index=partition, offset=offset)
            request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[part])])
            response = await client.call(request)
            result = response.topics[0].partitions[0]
            return result.error_code, result.low_watermark

        assert await delete(2) == (0, 2)
        assert [record.value for record in cluster.records("t")] == [b"c"]
        assert await delete(1) == (0, 2)
        assert await delete(-1) == (0, 3)
        assert await delete(4) == (errors.OffsetOutOfRangeError.code, -1)
        assert await delete(0, partition=1) == (errors.UnknownTopicOrPartitionError.code, -1)
        for topic, policy in (("compacted", "compact"), ("both", "compact,delete")):
            cluster.create_topic(topic, configs={"cleanup.policy": policy})
        assert await delete(0, topic="compacted") == (errors.PolicyViolationError.code, -1)
        assert await delete(0, topic="both") == (0, 0)


async def test_offsets_are_listed() -> None:
    async with a_cluster() as (cluster, client):
        cluster.create_topic("t")
        await produce(client, batch(b"a", b"b", timestamp_ms=1000))
        await produce(client, batch(b"c", timestamp_ms=5000))
        cluster.delete_records("t", 0, 1)
        cluster.move_leader("t", 0, to=1)
        await produce(client, batch(b"d", timestamp_ms=3000))

        async def at(timestamp: int, version: int = 10, epoch: int = -1) -> tuple[int, int, int, int]:
            part = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[part])])
            result = (await client.call(request, version)).topics[0].partitions[0]
            return result.error_code, result.offset, result.timestamp, result.leader_epoch

        assert await at(-1) == (0, 4, -1, 1)
        assert await at(-2) == (0, 1, -1, 0)
        assert await at(-3) == (0, 2, 5000, 0)
        assert await at(1001) == (0, 1, 1001, 0)
        assert await at(3000) == (0, 2, 5000, 0)
        assert await at(6000) == (0, -1, -1, -1)
        assert await at(-5) == (0, -1, -1, -1)
        assert await at(-1, version=3) == (0, 4, -1, -1)
        assert await at(-1, epoch=0) == (errors.FencedLeaderEpochError.code, -1, -1, -1)
        assert await at(-1, epoch=2) == (errors.UnknownLeaderEpochError.code, -1, -1, -1)
        cluster.move_leader("t", 0, to=2)
        assert (await at(-1))[0] == errors.NotLeaderOrFollowerError.code


async def test_the_end_of_an_epoch() -> None:
    async with a_cluster() as (cluster, client):
        cluster.create_topic("t")
        await produce(client, batch(b"a", b"b"))
        cluster.move_leader("t", 0, to=1)
        cluster.move_leader("t", 0, to=1)
        await produce(client, batch(b"c"))

        async def end_of(epoch: int, current: int = -1) -> tuple[int, int, int]:
            part = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
            request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[part])])
            result = (await client.call(request)).topics[0].partitions[0]
            return result.error_code, result.leader_epoch, result.end_offset

        assert await end_of(0) == (0, 0, 2)
        # Epoch 1 has no records.
        assert await end_of(1) == (0, 0, 2)
        assert await end_of(2) == (0, 2, 3)
        assert await end_of(3) == (0, -1, -1)
        assert await end_of(0, current=1) == (errors.FencedLeaderEpochError.code, -1, -1)


async def test_topics_are_described_in_pages() -> None:
    async with a_cluster() as (cluster, client):
        for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
            cluster.create_topic(name, partitions)
        seen: list[tuple[str | None, int]] = []
        cursor: RequestCursor | None = None
        for _ in range(10):
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in ("c", "a", "b", "no")],
                response_partition_limit=2,
                cursor=cursor,
            )
            response = await client.call(request)
            for topic in response.topics:
                seen += [(topic.name, part.partition_index) for part in topic.partitions]
                if topic.error_code:
                    seen.append((topic.name, -topic.error_code))
            if response.next_cursor is None:
                break
            cursor = RequestCursor(
                topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
            )
        assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("no", -3)]


async def test_topics_by_the_names_that_admin_has() -> None:
    async with EmbeddedCluster(2, num_partitions=3, default_replication_factor=2) as cluster:
        cluster.create_topic("a", num_partitions=2, replication_factor=1, topic_configs={"retention.ms": "5"})
        cluster.create_topic("b", replica_assignments={1: [1], 0: [2, 1]})
        cluster.create_topic("c", num_partitions=-1, replication_factor=-1)
        cluster.create_topic("d", 2, 1, {"retention.ms": "5"})
        cluster.create_topic("e", assignments=[[2, 1], [1]])
        for topic in "ad":
            assert [cluster.replicas(topic, partition) for partition in range(2)] == [[1], [2]]
        for topic in "be":
            assert [cluster.replicas(topic, partition) for partition in range(2)] == [[2, 1], [1]]
        assert (cluster.partition_count("c"), len(cluster.replicas("c"))) == (3, 2)


async def test_a_request_that_succeeds_says_nothing() -> None:
    """Null instead of an empty text, like Apache Kafka; `tests.kafka` compares the answers."""
    async with EmbeddedCluster(1) as cluster, connected(cluster.address(1)) as client:
        for version in (4, 7):
            wanted = CreatableTopic(name=f"t{version}", num_partitions=1, replication_factor=1)
            created = (await client.call(CreateTopicsRequest(topics=[wanted]), version)).topics[0]
            assert (created.error_code, created.error_message) == (0, None)
