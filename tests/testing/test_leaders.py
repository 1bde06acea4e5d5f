"""Leaders move, brokers stop, die, return and change their address; and the answers that clients receive meanwhile."""

from __future__ import annotations

import anyio
import pytest

from aiokafka_lead import errors
from aiokafka_lead._wire.messages.describe_cluster import DescribeClusterRequest
from aiokafka_lead._wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aiokafka_lead._wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from aiokafka_lead.testing import EmbeddedCluster, Hint

from .raw import batch, connected
from .test_produce import produce

pytestmark = pytest.mark.anyio


async def metadata(cluster: EmbeddedCluster, broker: int = 1, topic: str = "t") -> MetadataResponse:
    async with connected(cluster.address(broker)) as client:
        return await client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)


def leaders(response: MetadataResponse) -> list[tuple[int, int]]:
    return [(part.leader_id, part.leader_epoch) for part in response.topics[0].partitions]


async def produce_at(cluster: EmbeddedCluster, broker: int, version: int = 10, topic: str = "t") -> ProduceResponse:
    data = PartitionProduceData(index=0, records=batch(b"a"))
    async with connected(cluster.address(broker)) as client:
        request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
        return await client.call(request, version)


async def test_leaders_are_spread_and_racks_told() -> None:
    async with EmbeddedCluster(brokers=[5, 6, 7, 8], racks=["a", "a", "b", "b"]) as cluster:
        cluster.create_topic("t", 4, replication_factor=2)
        response = await metadata(cluster, 5)
        assert [(b.node_id, b.rack) for b in response.brokers] == [(5, "a"), (6, "a"), (7, "b"), (8, "b")]
        assert response.cluster_id == cluster.cluster_id
        assert response.controller_id == 5
        parts = response.topics[0].partitions
        assert sorted(part.leader_id for part in parts) == [5, 6, 7, 8]
        # Two replicas are in two racks.
        assert all(({*part.replica_nodes} & {5, 6}) and ({*part.replica_nodes} & {7, 8}) for part in parts)


async def test_who_does_not_lead_names_the_leader() -> None:
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t")
        assert cluster.move_leader("t", 0, to=3) == 3
        response = await produce_at(cluster, 1)
        result = response.responses[0].partition_responses[0]
        assert result.error_code == errors.NotLeaderOrFollowerError.code
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (3, 1)
        assert [(e.node_id, f"{e.host}:{e.port}") for e in response.node_endpoints] == [(3, cluster.address(3))]
        # Before version 10 there are no hints.
        response = await produce_at(cluster, 1, version=9)
        assert response.responses[0].partition_responses[0].current_leader.leader_id == -1
        assert (await produce_at(cluster, 3)).responses[0].partition_responses[0].error_code == 0


async def test_by_default_the_next_replica_in_sync_leads() -> None:
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t")
        assert [cluster.move_leader("t") for _ in range(4)] == [2, 3, 1, 2]
        cluster.set_isr("t", 0, [1, 2])
        assert cluster.move_leader("t") == 1
        assert cluster.leader_epoch("t") == 5
        cluster.create_topic("one", assignments=[[1]])
        with pytest.raises(errors.InvalidReplicaAssignmentError):
            cluster.move_leader("one", 0, to=2)


async def test_during_a_gap_nobody_leads() -> None:
    """The old leader has resigned and names the new one, which does not know yet."""
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, to=2, gap_ms=200)
        for broker, named in ((1, (2, 1)), (2, (1, 0))):
            result = (await produce_at(cluster, broker)).responses[0].partition_responses[0]
            assert result.error_code == errors.NotLeaderOrFollowerError.code
            assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == named
        with anyio.fail_after(20):
            while (await produce_at(cluster, 2)).responses[0].partition_responses[0].error_code:
                pass


async def test_a_broker_that_stops_hands_its_leaders_over() -> None:
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t", 3)
        cluster.create_topic("alone", assignments=[[1]])
        async with connected(cluster.address(1)) as client:
            await cluster.stop_broker(1)
            assert await client.is_closed()
        assert not cluster.is_running(1)
        response = await metadata(cluster, 2)
        assert [broker.node_id for broker in response.brokers] == [2, 3]
        assert leaders(response) == [(2, 1), (2, 0), (3, 0)]
        assert response.topics[0].partitions[0].isr_nodes == [2, 3]
        assert response.topics[0].partitions[0].offline_replicas == [1]
        with pytest.raises(OSError):
            await anyio.connect_tcp("127.0.0.1", int(cluster.address(1).rpartition(":")[2]))
        alone = await metadata(cluster, 2, "alone")
        assert leaders(alone) == [(-1, 1)]
        assert alone.topics[0].partitions[0].error_code == errors.LeaderNotAvailableError.code
        await cluster.start_broker(1)
        assert leaders(await metadata(cluster, 1, "alone")) == [(1, 2)]
        # It follows partitions that have moved meanwhile.
        assert leaders(await metadata(cluster, 1)) == [(2, 1), (2, 0), (3, 0)]
        assert cluster.isr("t") == [2, 3, 1]


async def test_a_broker_that_drains_tells_who_leads_instead() -> None:
    async with EmbeddedCluster(brokers=2) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: cluster.stop_broker(1, drain_ms=60_000))
            with anyio.fail_after(20):
                while cluster.leader("t") == 1:
                    await anyio.lowlevel.checkpoint()
            result = await produce(client, batch(b"a"))
            assert result.error_code == errors.NotLeaderOrFollowerError.code
            assert result.current_leader.leader_id == 2
            tasks.cancel_scope.cancel()


async def test_a_broker_that_is_killed_is_missed_after_a_while() -> None:
    async with EmbeddedCluster(brokers=3, failover_delay_ms=300) as cluster:
        cluster.create_topic("t")
        async with connected(cluster.address(1)) as client:
            await cluster.kill_broker(1)
            with pytest.raises(anyio.BrokenResourceError):
                await client.stream.receive()
        # News of the move has not spread yet.
        assert leaders(await metadata(cluster, 2)) == [(1, 0)]
        assert (await produce_at(cluster, 2)).responses[0].partition_responses[0].current_leader.leader_id == 1
        with anyio.fail_after(20):
            while leaders(await metadata(cluster, 2)) == [(1, 0)]:
                pass
        assert leaders(await metadata(cluster, 2)) == [(2, 1)]
        assert [broker.node_id for broker in (await metadata(cluster, 2)).brokers] == [2, 3]


async def test_a_broker_that_is_back_before_it_was_missed_has_lost_its_leaders() -> None:
    async with EmbeddedCluster(brokers=3, failover_delay_ms=60_000) as cluster:
        cluster.create_topic("t")
        await cluster.kill_broker(1)
        await cluster.start_broker(1)
        assert leaders(await metadata(cluster, 1)) == [(2, 1)]
        assert sorted(cluster.isr("t")) == [1, 2, 3]


async def test_an_unclean_election_is_allowed_by_the_topic() -> None:
    async with EmbeddedCluster(brokers=3, failover_delay_ms=0) as cluster:
        cluster.create_topic("t", configs={"unclean.leader.election.enable": "true"})
        cluster.set_isr("t", 0, [1])
        await cluster.kill_broker(1)
        assert (cluster.leader("t"), cluster.isr("t")) == (2, [2])


async def test_an_unclean_election_when_a_replica_comes_back() -> None:
    async with EmbeddedCluster(brokers=2, failover_delay_ms=0) as cluster:
        for name, allowed in (("clean", "false"), ("unclean", "true")):
            cluster.create_topic(name, assignments=[[1, 2]], configs={"unclean.leader.election.enable": allowed})
        await cluster.stop_broker(2)
        await cluster.kill_broker(1)
        await cluster.start_broker(2)
        assert (cluster.leader("clean"), cluster.isr("clean")) == (-1, [1])
        assert (cluster.leader("unclean"), cluster.isr("unclean")) == (2, [2])
        await cluster.start_broker(1)
        assert (cluster.leader("clean"), cluster.isr("clean")) == (1, [1, 2])
        assert (cluster.leader("unclean"), cluster.isr("unclean")) == (2, [2, 1])


async def test_a_broker_changes_its_address() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("t")
        before = cluster.address(1)
        await cluster.change_address(1)
        assert cluster.address(1) != before
        with pytest.raises(OSError):
            await anyio.connect_tcp("127.0.0.1", int(before.rpartition(":")[2]))
        ports = {broker.node_id: broker.port for broker in (await metadata(cluster, 1)).brokers}
        assert ports[1] == int(cluster.address(1).rpartition(":")[2])
        await cluster.stop_broker(2)
        await cluster.start_broker(2, host="localhost")
        assert cluster.address(2).startswith("localhost:")


async def test_metadata_can_be_stale() -> None:
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t")
        cluster.freeze_metadata(2, broker=1)
        cluster.move_leader("t", 0, to=2)
        assert leaders(await metadata(cluster, 3)) == [(2, 1)]
        assert leaders(await metadata(cluster, 1)) == [(1, 0)]
        assert leaders(await metadata(cluster, 1)) == [(1, 0)]
        assert leaders(await metadata(cluster, 1)) == [(2, 1)]


@pytest.mark.parametrize(
    ("hint", "leader", "endpoints"),
    [
        (Hint(leader_id=-1), (-1, 1), 0),
        (Hint(leader_epoch=-1), (2, -1), 1),
        (Hint(leader_id=77), (77, 1), 0),
        (Hint(leader_id=3), (3, 1), 1),
        (Hint(endpoint=("nowhere.invalid", 1)), (2, 1), 1),
        (Hint(endpoint=()), (2, 1), 0),
    ],
)
async def test_hints_can_lie(hint: Hint, leader: tuple[int, int], endpoints: int) -> None:
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t")
        cluster.move_leader("t", 0, to=2)
        rule = cluster.faults.add("Produce", topic="t", hint=hint, count=1)
        response = await produce_at(cluster, 1)
        result = response.responses[0].partition_responses[0]
        assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == leader
        assert len(response.node_endpoints) == endpoints
        if isinstance(hint.endpoint, tuple) and hint.endpoint:
            assert (response.node_endpoints[0].host, response.node_endpoints[0].port) == hint.endpoint
        assert rule.struck == 1
        again = (await produce_at(cluster, 1)).responses[0].partition_responses[0]
        assert (again.current_leader.leader_id, again.current_leader.leader_epoch) == (2, 1)


async def test_topics_are_created_for_those_who_ask() -> None:
    async with EmbeddedCluster(brokers=3, num_partitions=4) as cluster:
        first = await metadata(cluster, topic="new")
        assert first.topics[0].error_code == errors.UnknownTopicOrPartitionError.code
        second = await metadata(cluster, topic="new")
        assert len(second.topics[0].partitions) == 4
        assert (await metadata(cluster, topic="not/legal")).topics[0].error_code == errors.InvalidTopicError.code
        cluster.create_topic("a.b")
        for _ in range(2):  # its name collides with the other topic's, which a broker does not tell
            refused = await metadata(cluster, topic="a_b")
            assert refused.topics[0].error_code == errors.UnknownTopicOrPartitionError.code
    async with EmbeddedCluster(brokers=1, auto_create_topics=False) as cluster:
        for _ in range(2):
            unknown = await metadata(cluster, topic="new")
            assert unknown.topics[0].error_code == errors.UnknownTopicOrPartitionError.code
        assert cluster.topic_names() == []


async def test_metadata_by_topic_id() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        request = MetadataRequest(topics=[MetadataRequestTopic(topic_id=cluster.topic_id("t"))])
        assert (await client.call(request, 12)).topics[0].name == "t"
        cluster.delete_topic("t")
        assert (await client.call(request, 12)).topics[0].error_code == errors.UnknownTopicIdError.code


async def test_the_cluster_can_be_described() -> None:
    async with EmbeddedCluster(brokers=2) as cluster, connected(cluster.address(1)) as client:
        await cluster.stop_broker(2)
        assert [b.broker_id for b in (await client.call(DescribeClusterRequest())).brokers] == [1]
        fenced = await client.call(DescribeClusterRequest(include_fenced_brokers=True))
        assert [(b.broker_id, b.is_fenced) for b in fenced.brokers] == [(1, False), (2, True)]


async def test_ports_stay_through_a_restart_and_are_free_at_the_end() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        address = cluster.address(1)
        for _ in range(3):
            await cluster.stop_broker(1)
            await cluster.start_broker(1)
        assert cluster.address(1) == address
        await cluster.kill_broker(1)
    port = int(address.rpartition(":")[2])
    async with EmbeddedCluster(brokers=1, ports=[port]) as cluster:
        assert cluster.address(1) == address
        assert len((await metadata(cluster)).brokers) == 1
