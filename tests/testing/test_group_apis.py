"""Requests of admin clients about groups, and the embedded cluster's answers."""

from __future__ import annotations

import pytest

from aiokafka_lead import errors
from aiokafka_lead._wire import encode
from aiokafka_lead._wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from aiokafka_lead._wire.messages.delete_groups import DeleteGroupsRequest
from aiokafka_lead._wire.messages.describe_cluster import DescribeClusterRequest
from aiokafka_lead._wire.messages.describe_groups import DescribeGroupsRequest
from aiokafka_lead._wire.messages.find_coordinator import FindCoordinatorRequest
from aiokafka_lead._wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokafka_lead._wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokafka_lead._wire.messages.list_groups import ListGroupsRequest
from aiokafka_lead._wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokafka_lead._wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokafka_lead._wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from aiokafka_lead._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from aiokafka_lead._wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from aiokafka_lead.admin import AclOperation
from aiokafka_lead.admin.acls import operations_of
from aiokafka_lead.errors import NonEmptyGroupError, NotCoordinatorError
from aiokafka_lead.testing import EmbeddedCluster

from .raw import RawClient, a_cluster, connected

pytestmark = pytest.mark.anyio


async def test_clients_may_do_everything_with_groups_topics_and_the_cluster() -> None:
    async with a_cluster() as (cluster, client):
        cluster.create_topic("t", 1)
        await join(client, "t")
        described = await client.call(DescribeGroupsRequest(groups=["g"], include_authorized_operations=True))
        in_group = operations_of(described.groups[0].authorized_operations) or ()
        assert AclOperation.READ in in_group
        assert AclOperation.WRITE not in in_group
        found = await client.call(DescribeClusterRequest(include_cluster_authorized_operations=True))
        assert AclOperation.CLUSTER_ACTION in (operations_of(found.cluster_authorized_operations) or ())
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name="t")], include_topic_authorized_operations=True)
        [topic] = (await client.call(wanted)).topics
        assert AclOperation.WRITE in (operations_of(topic.topic_authorized_operations) or ())
        [untold] = (await client.call(DescribeGroupsRequest(groups=["g"]))).groups
        assert operations_of(untold.authorized_operations) is None


async def join(client: RawClient, topic: str) -> tuple[str, int]:
    """Become the only member of group g; return the member's id and the generation."""
    metadata = (0).to_bytes(2, "big") + encode(ConsumerProtocolSubscription(topics=[topic]), 0)
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )
    request.member_id = (await client.call(request)).member_id
    joined = await client.call(request)
    assert joined.error_code == 0
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    synced = await client.call(
        SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        )
    )
    assert (synced.error_code, synced.assignment) == (0, b"all")
    return joined.member_id, joined.generation_id


async def test_groups_are_listed_described_and_deleted() -> None:
    async with a_cluster(1) as (cluster, client):
        cluster.create_topic("t")
        cluster.create_topic("other")
        member_id, generation = await join(client, "t")

        async def commit(group: str, generation: int = -1, member: str = "", topic: str = "t", text: str = "") -> int:
            part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata=text)
            request = OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=generation,
                member_id=member,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
            )
            return (await client.call(request, 9)).topics[0].partitions[0].error_code

        assert await commit("g", generation, member_id) == 0
        assert await commit("g", generation, member_id, topic="other") == 0
        assert await commit("g") == errors.UnknownMemberIdError.code
        assert await commit("g", generation + 1, member_id) == errors.IllegalGenerationError.code
        assert await commit("g", generation, member_id, topic="no") == errors.UnknownTopicOrPartitionError.code
        too_long = await commit("g", generation, member_id, text="x" * 5000)
        assert too_long == errors.OffsetMetadataTooLargeError.code
        assert await commit("simple") == 0

        described = await client.call(DescribeGroupsRequest(groups=["g", "simple", "no"]))
        states = [(group.error_code, group.group_state) for group in described.groups]
        assert states == [(0, "Stable"), (0, "Empty"), (errors.GroupIdNotFoundError.code, "Dead")]
        [member] = described.groups[0].members
        assert (member.member_id, member.client_id, member.member_assignment) == (member_id, "raw", b"all")
        assert described.groups[0].protocol_data == "range"
        listed = await client.call(ListGroupsRequest())
        assert [(group.group_id, group.group_state) for group in listed.groups] == [
            ("g", "Stable"),
            ("simple", "Empty"),
        ]
        assert [g.group_id for g in (await client.call(ListGroupsRequest(states_filter=["empty"]))).groups] == [
            "simple"
        ]
        assert (await client.call(ListGroupsRequest(types_filter=["consumer"]))).groups == []

        async def delete_offset(topic: str) -> int:
            part = OffsetDeleteRequestPartition(partition_index=0)
            request = OffsetDeleteRequest(
                group_id="g", topics=[OffsetDeleteRequestTopic(name=topic, partitions=[part])]
            )
            return (await client.call(request)).topics[0].partitions[0].error_code

        assert await delete_offset("t") == errors.GroupSubscribedToTopicError.code
        assert await delete_offset("other") == 0
        assert (await client.call(OffsetDeleteRequest(group_id="no"))).error_code == errors.GroupIdNotFoundError.code

        async def positions(version: int) -> list[tuple[str, int]]:
            if version >= 8:
                response = await client.call(
                    OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), version
                )
                return [(t.name, p.committed_offset) for t in response.groups[0].topics for p in t.partitions]
            older = await client.call(OffsetFetchRequest(group_id="g", topics=None), version)
            return [(t.name, p.committed_offset) for t in older.topics for p in t.partitions]

        assert await positions(9) == await positions(7) == [("t", 5)]
        assert (await client.call(DeleteGroupsRequest(groups_names=["g", "no"]))).results[
            0
        ].error_code == NonEmptyGroupError.code
        left = await client.call(
            LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=m) for m in (member_id, "nobody")])
        )
        assert [member.error_code for member in left.members] == [0, errors.UnknownMemberIdError.code]
        deleted = await client.call(DeleteGroupsRequest(groups_names=["g", "simple", "no"]))
        assert [result.error_code for result in deleted.results] == [0, 0, errors.GroupIdNotFoundError.code]
        assert await positions(9) == []


async def test_a_topic_s_positions_go_with_it() -> None:
    async with a_cluster(1) as (cluster, client):
        cluster.create_topic("t")
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
        request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[part])])
        assert (await client.call(request, 9)).topics[0].partitions[0].error_code == 0
        cluster.delete_topic("t")
        cluster.create_topic("t")
        wanted = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
        assert (await client.call(wanted, 7)).topics[0].partitions[0].committed_offset == -1


async def test_a_group_s_coordinator_moves() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("t")
        first = cluster.coordinator("g")
        async with connected(cluster.address(first)) as client:
            found = await client.call(FindCoordinatorRequest(coordinator_keys=["g"]))
            assert found.coordinators[0].node_id == first
            member_id, generation = await join(client, "t")
            second = cluster.move_coordinator("g")
            assert second != first
            assert (await client.call(DescribeGroupsRequest(groups=["g"]))).groups[
                0
            ].error_code == NotCoordinatorError.code
        async with connected(cluster.address(second)) as client:
            described = await client.call(DescribeGroupsRequest(groups=["g"]))
            assert described.groups[0].members[0].member_id == member_id
            await cluster.kill_broker(first, failover_delay_ms=0)
            assert cluster.coordinator("g") == second
            assert generation == 1
